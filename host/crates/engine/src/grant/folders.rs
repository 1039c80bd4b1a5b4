//! Folders: what a manifest says of them, and what that is on this
//! machine. `cap-std` keeps a guest inside of them; what is settled here is
//! which folder it is, and that it is no way to more than was granted.
//!
//! A folder is opened once, when its plugin is loaded, and every run works with
//! that handle: no name is resolved a second time, so nobody can put another
//! folder between the check and its use.

use super::GrantedBy;
use crate::error::ManifestError;
use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use toolyard_task::Wanted;
use toolyard_task::permission::Access;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Dir, OpenMode};

/// What a guest may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderMode {
    /// List and read.
    Read,
    /// And create, change and delete.
    Write,
}

impl FolderMode {
    /// The word of the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    fn permissions(self) -> (FsPerms, OpenMode) {
        match self {
            Self::Read => (FsPerms::ReadOnly, OpenMode::READ),
            Self::Write => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        }
    }
}

/// One entry of `[fs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFolder {
    /// Where the guest sees it.
    pub guest: String,
    /// Where it is, from the manifest's folder.
    pub path: String,
    pub mode: FolderMode,
    pub by: GrantedBy,
    /// The manifest's line, for complaints.
    pub line: Option<usize>,
}

/// A folder that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderGrant {
    /// Where the guest sees it.
    pub guest: String,
    /// Where it is.
    pub host: PathBuf,
    /// What it may do there.
    pub mode: FolderMode,
    /// Who grants it.
    pub by: GrantedBy,
    /// What the manifest calls it.
    pub named: String,
}

impl FolderGrant {
    /// What a person is to be asked for, if one is.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let access = match self.mode {
            FolderMode::Read => Access::Read,
            FolderMode::Write => Access::Write,
        };
        (self.by == GrantedBy::Person).then(|| Wanted::Folder {
            guest: self.guest.clone(),
            // Looked at when it was found.
            path: self.host.to_string_lossy().into_owned(),
            named: self.named.clone(),
            access,
        })
    }
}

/// A folder that was found and is held open.
pub(crate) struct OpenFolder {
    pub grant: FolderGrant,
    /// What runs get; a clone shares the handle.
    pub dir: Dir,
    identity: (u64, u64),
}

impl OpenFolder {
    /// Whether its path still leads to it. If not, it was moved, replaced or
    /// removed, and what is there now has not been checked.
    pub fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.grant.host).is_ok_and(|found| identity(&found) == self.identity)
    }
}

impl std::fmt::Debug for OpenFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.grant.fmt(f)
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Whether a guest may see a folder under this name: absolute and normalised, so
/// that no two names mean one place.
pub(crate) fn is_guest_path(path: &str) -> bool {
    const LONGEST: usize = 1 << 10;
    let Some(rest) = path.strip_prefix('/') else { return false };
    path.len() <= LONGEST
        && !path.contains(['\0', '\\'])
        && (rest.is_empty() || rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Finds and opens the folders that `manifest`, a file in `place`, names.
///
/// # Errors
/// If one is not there, is no folder, would let the guest write what is loaded from
/// `place`, its own manifest included, or has anything of the `private` folders in it.
pub(crate) fn find(
    manifest: &str,
    place: &Path,
    named: &[NamedFolder],
    private: &[PathBuf],
) -> Result<Vec<OpenFolder>, ManifestError> {
    let open = |folder: &NamedFolder| {
        open(place, folder, private).map_err(|what| ManifestError {
            file: manifest.to_owned(),
            line: folder.line,
            what: format!("`fs.\"{}\".path`: the folder {} {what}", folder.guest, folder.path),
        })
    };
    named.iter().map(open).collect()
}

fn open(place: &Path, named: &NamedFolder, private: &[PathBuf]) -> Result<OpenFolder, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "is not there; make it, or take the grant away".to_owned(),
        std::io::ErrorKind::NotADirectory => "is not a folder".to_owned(),
        _ => format!("cannot be used: {error}"),
    };
    let home = place.canonicalize().map_err(failed)?;
    let named_path = home.join(&named.path);
    let host = named_path.canonicalize().map_err(failed)?;
    // A guest may be able to write beside the manifest, and could put a link there
    // that widens what is granted here. Of other places the operator knows more.
    if Path::new(&named.path).is_relative() && plain(&named_path) != host {
        return Err("is reached through a symbolic link; name the folder itself".to_owned());
    }
    // The last step follows no link, and what was opened is compared with what
    // the path leads to afterwards: all checks are about the folder that is held.
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let handle = File::options().read(true).custom_flags(flags.bits() as i32).open(&host).map_err(failed)?;
    let identity = identity(&handle.metadata().map_err(failed)?);
    let (perms, mode) = named.mode.permissions();
    if named.by == GrantedBy::Person && host.to_str().is_none() {
        // What a person says is kept for the folder by its name.
        return Err("cannot be asked for: its whole path is not UTF-8".to_owned());
    }
    let (guest, path) = (named.guest.clone(), named.path.clone());
    let grant = FolderGrant { guest, host, mode: named.mode, by: named.by, named: path };
    let folder = OpenFolder { grant, dir: Dir::new(handle, perms, mode, false), identity };
    if !folder.is_in_place() || folder.grant.host.canonicalize().ok().as_ref() != Some(&folder.grant.host) {
        return Err("was replaced while it was opened".to_owned());
    }
    if named.mode == FolderMode::Write && holds(&folder, &home).map_err(failed)? {
        return Err("holds the plugins themselves, and who writes there can grant itself anything; \
                    name a folder inside of it, or mode = \"read\""
            .to_owned());
    }
    for private in private {
        // Where there is none yet, nothing of it is in the folder.
        let Ok(private) = private.canonicalize() else { continue };
        if folder.grant.host.starts_with(&private) || holds(&folder, &private).map_err(failed)? {
            return Err("has the data of this host in it: everybody's tasks, and the keys that sign; \
                        name a folder that has not"
                .to_owned());
        }
    }
    Ok(folder)
}

/// A path without `.` and `..`, as it is if there are no links.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Whether `path` is the folder or lies in it, by whatever name.
fn holds(folder: &OpenFolder, path: &Path) -> std::io::Result<bool> {
    for above in path.ancestors() {
        if identity(&std::fs::metadata(above)?) == folder.identity {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths_are_absolute_and_normalised() {
        for path in ["/", "/data", "/a/b.c", "/..a", "/with space"] {
            assert!(is_guest_path(path), "{path}");
        }
        for path in ["", "data", "./data", "/data/", "//", "/a//b", "/a/./b", "/a/..", "/..", "/a\0", "/a\\b"]
        {
            assert!(!is_guest_path(path), "{path:?}");
        }
        assert!(!is_guest_path(&format!("/{}", "x".repeat(1 << 10))));
    }

    #[test]
    fn folders_are_looked_for_beside_the_manifest() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join("data")).expect("makes");
        std::fs::write(home.path().join("file"), "x").expect("writes");
        let named = |path: &str, mode| {
            let by = GrantedBy::Operator;
            vec![NamedFolder { guest: "/d".into(), path: path.into(), mode, by, line: Some(2) }]
        };
        let found =
            |path, mode| find("p.toml", home.path(), &named(path, mode), &[home.path().join("state")]);
        let host = home.path().canonicalize().expect("is there");
        let data = FolderGrant {
            guest: "/d".into(),
            host: host.join("data"),
            mode: FolderMode::Write,
            by: GrantedBy::Operator,
            named: "./data".into(),
        };
        let [folder] = &found("./data", FolderMode::Write).expect("found")[..] else { panic!("one") };
        assert_eq!(folder.grant, data);
        assert!(found(".", FolderMode::Read).is_ok());
        std::os::unix::fs::symlink("data", home.path().join("link")).expect("links");
        std::os::unix::fs::symlink("/", home.path().join("root")).expect("links");
        let absolute = host.join("link").display().to_string();
        assert!(found(&absolute, FolderMode::Write).is_ok(), "the operator's own way");
        std::fs::create_dir_all(home.path().join("state/deep")).expect("makes");
        for (path, mode, says) in [
            (".", FolderMode::Read, "has the data of this host in it"),
            ("state", FolderMode::Read, "has the data of this host in it"),
            ("state/deep", FolderMode::Write, "has the data of this host in it"),
            ("link", FolderMode::Read, "through a symbolic link"),
            ("root/etc", FolderMode::Read, "through a symbolic link"),
            ("./none", FolderMode::Write, "./none is not there"),
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
        let found = find("p.toml", home.path(), &named, &[]).expect("found");
        assert!(found[0].is_in_place());
        std::fs::rename(path("data"), path("moved")).expect("moves");
        assert!(!found[0].is_in_place(), "gone");
        std::os::unix::fs::symlink("moved", path("data")).expect("links");
        assert!(!found[0].is_in_place(), "a link to the very folder is another way to it");
        std::fs::remove_file(path("data")).expect("removes");
        std::fs::create_dir(path("data")).expect("makes");
        assert!(!found[0].is_in_place(), "another of the same name");
        std::fs::remove_dir(path("data")).expect("removes");
        std::fs::rename(path("moved"), path("data")).expect("moves");
        assert!(found[0].is_in_place(), "back again");
    }
}
