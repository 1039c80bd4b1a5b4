//! Folders: what a manifest grants, and the folder that this means on this machine. `cap-std`
//! confines a guest to its folders. This module decides which folder a path means, and ensures that
//! the folder gives access to nothing beyond the grant.
//!
//! A folder is opened once, when its plugin is loaded, and every run uses that handle. No name is
//! resolved again, so no other folder can be substituted between the check and the use. If the path
//! later leads to another folder, the plugin is refused until the operator confirms that folder,
//! because a guest or another user may have put it there.

use super::checked::{CheckedMounts, ReachableMounts};
use super::kernel;
use super::mounts::{Mounts, Way};
use super::unlinked::{self, Identity, identity, plain};
use crate::settings::{Protected, Scope};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolyard_manifest::{FolderMode, GrantedBy, ManifestError, NamedFolder};
use toolyard_task::AccessRequest;
use toolyard_task::permission::Access;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Dir, OpenMode};

/// The permissions of a mode, in wasmtime's terms.
fn permissions(mode: FolderMode) -> (FsPerms, OpenMode) {
    match mode {
        FolderMode::Read => (FsPerms::ReadOnly, OpenMode::READ),
        FolderMode::Write => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
    }
}

/// A granted folder on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderGrant {
    /// The guest's path to it.
    pub guest: String,
    /// The path of the folder on the host.
    pub host: PathBuf,
    /// Whether the guest may only read it, or also write to it.
    pub mode: FolderMode,
    /// Whether the operator grants it or the user is asked.
    pub by: GrantedBy,
    /// The path as written in the manifest.
    pub named: String,
}

impl FolderGrant {
    /// The request to the user, if the manifest leaves the grant to them.
    pub(crate) fn wanted(&self) -> Option<AccessRequest> {
        let access = match self.mode {
            FolderMode::Read => Access::Read,
            FolderMode::Write => Access::Write,
        };
        (self.by == GrantedBy::Person).then(|| AccessRequest::Folder {
            guest: self.guest.clone(),
            // The path was checked to be UTF-8 when the folder was opened.
            path: self.host.to_string_lossy().into_owned(),
            named: self.named.clone(),
            access,
        })
    }
}

/// A granted folder that is held open.
pub(crate) struct OpenFolder {
    pub grant: FolderGrant,
    /// The handle for runs. Clones share it.
    pub dir: Dir,
    pub identity: Identity,
    /// The folders above it, up to the root.
    pub above: Vec<Identity>,
    /// Where its files lie, as far as the system shows mounts.
    pub reach: ReachableMounts,
    /// The mounts that were checked with it.
    pub mounts: CheckedMounts,
    /// The manifest's line, for error messages.
    pub line: Option<usize>,
}

impl OpenFolder {
    /// Whether its path still leads to it. If not, it was moved, replaced or removed, and the
    /// folder now at the path has not been checked.
    pub fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.grant.host).is_ok_and(|found| identity(&found) == self.identity)
    }
}

impl std::fmt::Debug for OpenFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.grant.fmt(f)
    }
}

/// The folders that a manifest's paths led to. As long as its text stays the same, it grants no
/// others.
#[derive(Clone, Default)]
pub(crate) struct Pins {
    manifest: Option<String>,
    /// Each folder with its handle: while the handle is open, no other folder gets its inode
    /// number.
    folders: BTreeMap<PathBuf, (Identity, Dir)>,
}

impl Pins {
    /// The same pins if the manifest's text is the same, otherwise none.
    pub fn of_manifest(&self, text: Option<&str>) -> Self {
        if self.manifest.as_deref() == text {
            return self.clone();
        }
        Self { manifest: text.map(str::to_owned), folders: BTreeMap::new() }
    }

    /// Pins the folders that were just opened.
    pub fn hold(&mut self, folders: &[OpenFolder]) {
        let held = folders.iter().map(|folder| {
            let OpenFolder { grant, dir, identity, .. } = folder;
            (grant.host.clone(), (*identity, dir.clone()))
        });
        self.folders = held.collect();
    }

    fn allow(&self, path: &Path, found: Identity) -> bool {
        self.folders.get(path).is_none_or(|(pinned, _)| *pinned == found)
    }
}

/// Finds and opens the folders that `manifest`, a file in `place`, names.
///
/// # Errors
/// If a folder does not exist, is not a folder, is reached through a link, differs from the one in
/// `pins`, belongs to the kernel, or contains a path that must not be granted: the plugins in
/// `place`, or a path in `protected`.
pub(crate) fn find(
    manifest: &str,
    place: &Path,
    named: &[NamedFolder],
    protected: &[Protected],
    mounts: Option<&Mounts>,
    pins: &Pins,
) -> Result<Vec<OpenFolder>, ManifestError> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let ways = protected.iter().map(|protected| (protected, Way::to(&protected.path, mounts))).collect();
    let around = Surroundings { protected: ways, mounts, pins };
    let open = |folder: &NamedFolder| {
        open(place, folder, &around)
            .map_err(|what| fault(manifest, folder.line, (&folder.guest, &folder.path), &what))
    };
    named.iter().map(open).collect()
}

/// An error about a folder that names its key in the manifest.
pub(super) fn fault(
    manifest: &str,
    line: Option<usize>,
    (guest, path): (&str, &str),
    what: &str,
) -> ManifestError {
    let what = format!("`fs.\"{guest}\".path`: the folder {path} {what}");
    ManifestError { file: manifest.to_owned(), line, what }
}

/// The context in which the folders of one manifest are checked.
struct Surroundings<'a> {
    protected: Vec<(&'a Protected, Way)>,
    mounts: Option<&'a Mounts>,
    pins: &'a Pins,
}

fn open(place: &Path, named: &NamedFolder, around: &Surroundings<'_>) -> Result<OpenFolder, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound if named.path.starts_with('~') => {
            "is not there: `~` is not expanded; write the whole path".to_owned()
        }
        std::io::ErrorKind::NotFound => "is not there; make it, or take the grant away".to_owned(),
        std::io::ErrorKind::NotADirectory => "is not a folder".to_owned(),
        _ => format!("cannot be used: {error}"),
    };
    let home = place.canonicalize().map_err(failed)?;
    let named_path = home.join(&named.path);
    let handle = unlinked::open_folder(&named_path)
        .map_err(|error| if unlinked::is_link(&error) { through_link(&named_path) } else { failed(error) })?;
    // The path contains no link, so `..` can be resolved textually.
    let host = plain(&named_path);
    let identity = identity(&handle.metadata().map_err(failed)?);
    if !around.pins.allow(&host, identity) {
        return Err("is not the one that was granted, which was moved, replaced or removed; put that very \
                    folder back, or, to grant the present one, change the manifest or restart the host"
            .to_owned());
    }
    let above = unlinked::above(&handle).map_err(failed)?;
    if above.is_empty() {
        return Err("is the root of this machine; name a folder in it".to_owned());
    }
    if let Some(fault) = kernel::fault(&handle, &above, around.mounts) {
        return Err(fault);
    }
    let reached = around.mounts.map(|mounts| ReachableMounts::of(&handle, &host, mounts));
    let (reach, mounts) = reached.transpose()?.unwrap_or_default();
    let (perms, mode) = permissions(named.mode);
    if named.by == GrantedBy::Person && host.to_str().is_none() {
        // The user's decision is stored by the folder's path.
        return Err("cannot be asked for: its whole path is not UTF-8".to_owned());
    }
    let (guest, path) = (named.guest.clone(), named.path.clone());
    let grant = FolderGrant { guest, host, mode: named.mode, by: named.by, named: path };
    let dir = Dir::new(handle, perms, mode, false);
    let folder = OpenFolder { grant, dir, identity, above, reach, mounts, line: named.line };
    if !folder.is_in_place() {
        return Err("was replaced while it was opened".to_owned());
    }
    let plugins = [place, &home].map(|place| Way::to(place, around.mounts));
    if plugins.iter().any(|way| folder.is_or_holds(way) || folder.reach.has_file_of(&way.end)) {
        return Err("holds the plugins themselves, their manifests and what these name; \
                    name a folder inside of the plugin folder, or another one"
            .to_owned());
    }
    match around.protected.iter().find(|(protected, way)| folder.reaches(protected, way)) {
        None => Ok(folder),
        Some((Protected { path, what, .. }, _)) => {
            Err(format!("has {what} in it ({}); name a folder that has not", path.display()))
        }
    }
}

/// The message for a path that contains a link. Only the operator can confirm the link's target, by
/// naming it in the manifest.
fn through_link(path: &Path) -> String {
    match path.canonicalize() {
        Ok(real) => format!(
            "is reached through a symbolic link, and leads to {real:?} now; if that folder is meant, name it so"
        ),
        Err(_) => "is reached through a symbolic link that leads nowhere; name the folder itself".to_owned(),
    }
}

impl OpenFolder {
    /// Whether the folder is a step of this path or contains its end, under any name and through
    /// any mount.
    pub fn is_or_holds(&self, way: &Way) -> bool {
        way.steps.contains(&self.identity) || self.reach.holds_any(&way.places)
    }

    /// Whether it lies in `outer`.
    pub fn lies_within(&self, outer: &Self) -> bool {
        self.above.contains(&outer.identity) || self.reach.is_within(&outer.reach)
    }

    /// Whether it is or contains the protected path, or a link or folder on the way to it, or, if
    /// the scope requires, lies in the protected folder.
    fn reaches(&self, protected: &Protected, way: &Way) -> bool {
        let Protected { path, scope, .. } = protected;
        if *scope == Scope::Changes && self.grant.mode == FolderMode::Read {
            return false;
        }
        let lies_in = || {
            std::fs::metadata(path).is_ok_and(|found| self.above.contains(&identity(&found)))
                || self.reach.lies_in_any(&way.end)
        };
        self.is_or_holds(way) || self.reach.has_file_of(&way.end) || *scope == Scope::Whole && lies_in()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_looked_for_beside_the_manifest() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join("data")).expect("makes");
        std::fs::write(home.path().join("file"), "x").expect("writes");
        let named = |path: &str, mode| {
            let by = GrantedBy::Operator;
            vec![NamedFolder { guest: "/d".into(), path: path.into(), mode, by, line: Some(2) }]
        };
        let data = |path: &str, scope| Protected { path: home.path().join(path), what: "the data", scope };
        let protected =
            [data("state", Scope::Whole), data("kept/keys", Scope::Around), data("bin/host", Scope::Changes)];
        let mounts = Mounts::read();
        let found = |path: &str, mode| {
            find("p.toml", home.path(), &named(path, mode), &protected, mounts.as_ref(), &Pins::default())
        };
        let host = home.path().canonicalize().expect("is there");
        let granted = FolderGrant {
            guest: "/d".into(),
            host: host.join("data"),
            mode: FolderMode::Write,
            by: GrantedBy::Operator,
            named: "./data".into(),
        };
        let [folder] = &found("./data", FolderMode::Write).expect("found")[..] else { panic!("one") };
        assert_eq!(folder.grant, granted);
        std::os::unix::fs::symlink("data", home.path().join("link")).expect("links");
        std::os::unix::fs::symlink("/", home.path().join("root")).expect("links");
        let [absolute, within] = ["link", "data"].map(|name| host.join(name).display().to_string());
        assert!(found(&within, FolderMode::Write).is_ok(), "by its whole path");
        for folder in ["state/deep", "kept/other", "bin"] {
            std::fs::create_dir_all(home.path().join(folder)).expect("makes");
        }
        std::fs::write(home.path().join("kept/keys"), "x").expect("writes");
        assert!(found("kept/other", FolderMode::Write).is_ok(), "beside the keys");
        assert!(found("bin", FolderMode::Read).is_ok(), "nothing to hide there");
        let leads = format!("leads to {:?} now", host.join("data"));
        for (path, mode, says) in [
            ("state", FolderMode::Read, "has the data in it"),
            ("state/deep", FolderMode::Write, "has the data in it"),
            ("kept", FolderMode::Read, "has the data in it"),
            ("bin", FolderMode::Write, "has the data in it"),
            ("link", FolderMode::Read, "through a symbolic link"),
            ("link", FolderMode::Read, leads.as_str()),
            ("link/..", FolderMode::Read, "through a symbolic link"),
            (&absolute, FolderMode::Write, "through a symbolic link"),
            (&absolute, FolderMode::Write, leads.as_str()),
            ("root/etc", FolderMode::Read, "through a symbolic link"),
            ("/", FolderMode::Read, "is the root of this machine"),
            (".", FolderMode::Read, "holds the plugins themselves"),
            ("data/..", FolderMode::Read, "holds the plugins themselves"),
            ("./none", FolderMode::Write, "./none is not there"),
            ("~/docs", FolderMode::Read, "~/docs is not there: `~` is not expanded"),
            ("file", FolderMode::Read, "is not a folder"),
            (".", FolderMode::Write, "holds the plugins themselves"),
            ("..", FolderMode::Write, "holds the plugins themselves"),
            ("data/../..", FolderMode::Write, "holds the plugins themselves"),
        ] {
            let shown = found(path, mode).expect_err(path).to_string();
            assert!(shown.starts_with("the manifest p.toml line 2: `fs.\"/d\".path`"), "{shown}");
            assert!(shown.contains(says), "{shown}");
        }
    }
    #[test]
    fn a_folder_that_was_replaced_is_not_taken_for_the_one_that_was_opened() {
        let home = tempfile::tempdir().expect("a folder");
        let path = |name: &str| home.path().join(name);
        std::fs::create_dir(path("data")).expect("makes");
        let named = [NamedFolder {
            guest: "/d".into(),
            path: "data".into(),
            mode: FolderMode::Read,
            line: None,
            by: GrantedBy::Operator,
        }];
        let mut pins = Pins::default().of_manifest(Some("text"));
        let find = |pins: &Pins| find("p.toml", home.path(), &named, &[], Mounts::read().as_ref(), pins);
        let found = find(&pins).expect("found");
        pins.hold(&found);
        assert!(found[0].is_in_place());
        std::fs::rename(path("data"), path("moved")).expect("moves");
        assert!(!found[0].is_in_place(), "gone");
        std::os::unix::fs::symlink("moved", path("data")).expect("links");
        assert!(!found[0].is_in_place(), "a link to the very folder is another way to it");
        std::fs::remove_file(path("data")).expect("removes");
        std::fs::create_dir(path("data")).expect("makes");
        assert!(!found[0].is_in_place(), "another of the same name");
        let why = find(&pins.of_manifest(Some("text"))).expect_err("not the one").to_string();
        assert!(why.contains("is not the one that was granted"), "{why}");
        find(&pins.of_manifest(Some("changed"))).expect("it is meant now");
        std::fs::remove_dir(path("data")).expect("removes");
        std::fs::rename(path("moved"), path("data")).expect("moves");
        assert!(found[0].is_in_place(), "back again");
        drop(found);
        find(&pins).expect("the very folder");
        // The pin's handle prevents the reuse of the inode number by another folder.
        std::fs::remove_dir(path("data")).expect("removes");
        for _ in 0..50 {
            std::fs::create_dir(path("data")).expect("makes");
            find(&pins).expect_err("another folder, whatever its number");
            std::fs::remove_dir(path("data")).expect("removes");
        }
    }
}
