//! Opens paths without following links, and finds the folders above a file.
//!
//! A user who can write to a folder can put a symbolic link there, and a path in a manifest may
//! lead through such a folder. Therefore the host follows no link in the path, regardless of its
//! owner.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// For folders that are opened only to reach a file below them.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = OFlags::RDONLY;

/// The maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The maximum number of folders above a file. The kernel's longest path has about 2,000.
const MAX_DEPTH: usize = 1 << 12;

/// The device and inode number of a file or folder, independent of its name.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "the types differ between systems")]
fn identity_of(found: &rustix::fs::Stat) -> Identity {
    (found.st_dev as u64, found.st_ino as u64)
}

/// Opens a folder for reading. `path` is absolute.
///
/// # Errors
/// `ELOOP` if any part of it is a symbolic link, otherwise the system's error.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    match by_kernel(path) {
        // The kernel is older than Linux 5.6, or a system call filter forbids this call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return Ok(File::from(opened?)),
    }
    Ok(File::from(by_walking(path)?))
}

/// Whether [`open_folder`] failed because of a link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

#[cfg(target_os = "linux")]
fn by_kernel(path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
}

/// Opens the folder where the kernel lacks `openat2`.
fn by_walking(path: &Path) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    if parts.next() != Some(Component::RootDir) {
        return Err(Errno::INVAL);
    }
    let mut folder = step(CWD, Path::new("/"), parts.peek().is_none())?;
    while let Some(part) = parts.next() {
        if part != Component::CurDir {
            folder = step(folder, Path::new(part.as_os_str()), parts.peek().is_none())?;
        }
    }
    Ok(folder)
}

/// Opens the next folder of the path. The last one is opened for reading.
fn step(folder: impl AsFd, name: &Path, is_last: bool) -> Result<OwnedFd, Errno> {
    let access = if is_last { OFlags::RDONLY } else { ON_THE_WAY };
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(|error| match error {
        // Some systems report a link only as "not a folder".
        Errno::NOTDIR if is_link_at(&folder, name) => Errno::LOOP,
        error => error,
    })
}

fn is_link_at(folder: impl AsFd, name: &Path) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

/// The folders above an open folder, from its parent to the root. They are determined from the
/// handle, so a concurrent rename cannot affect the result.
///
/// # Errors
/// If a folder may not be entered, so that its identity is unknown.
pub(crate) fn above(folder: &File) -> io::Result<Vec<Identity>> {
    let mut found = Vec::new();
    let mut here = identity(&folder.metadata()?);
    let flags = ON_THE_WAY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder: OwnedFd = folder.try_clone()?.into();
    while found.len() < MAX_DEPTH {
        folder = rustix::fs::openat(&folder, "..", flags, Mode::empty())?;
        let next = identity_of(&rustix::fs::fstat(&folder)?);
        // The root is its own parent.
        if next == here {
            return Ok(found);
        }
        found.push(next);
        here = next;
    }
    Err(Errno::NAMETOOLONG.into())
}

/// The steps of a path.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Each folder and each link with its target, by its path without links.
    pub steps: Vec<(PathBuf, Identity)>,
    /// Whether the path exists.
    pub is_whole: bool,
}

#[cfg(test)]
impl Trail {
    fn contains(&self, step: &Identity) -> bool {
        self.steps.iter().any(|(_, known)| known == step)
    }
}

/// All steps on the way to `path`. A user who can write to one of the folders decides where the
/// path leads. If `path` does not exist, the trail covers the part that exists.
pub(super) fn trail(path: &Path) -> Trail {
    let mut trail = Trail::default();
    let Ok(path) = std::path::absolute(path) else { return trail };
    let mut rest: Vec<PathBuf> = path.components().rev().map(|part| part.as_os_str().into()).collect();
    let mut here = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::RootDir) => here = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::Normal(name)) => here.push(name),
            _ => continue,
        }
        let Ok(found) = std::fs::symlink_metadata(&here) else { return trail };
        trail.steps.push((here.clone(), identity(&found)));
        if found.is_symlink() {
            links += 1;
            let Ok(target) = std::fs::read_link(&here) else { return trail };
            if links > MAX_LINKS {
                return trail;
            }
            here.pop();
            rest.extend(target.components().rev().map(|part| PathBuf::from(part.as_os_str())));
        }
    }
    trail.is_whole = true;
    trail
}

/// A path without `.` and `..`, which is correct if it contains no links.
pub(crate) fn plain(path: &Path) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder that contains links of every kind.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("is there");
        std::fs::create_dir_all(at.join("a/b/c")).expect("makes");
        std::fs::write(at.join("a/file"), "x").expect("writes");
        for (target, name) in [
            ("b", "a/near"),
            ("../a/b", "a/up"),
            ("/", "a/root"),
            ("none", "a/dangling"),
            ("loop", "a/loop"),
            ("file", "a/to-file"),
            ("..", "a/b/parent"),
        ] {
            symlink(target, at.join(name)).expect("links");
        }
        symlink(at.join("a"), at.join("absolute")).expect("links");
        (folder, at)
    }

    type Open = fn(&Path) -> Result<OwnedFd, Errno>;

    fn ways() -> Vec<(&'static str, Open)> {
        let mut ways: Vec<(&'static str, Open)> = vec![("walking", by_walking)];
        #[cfg(target_os = "linux")]
        if !matches!(by_kernel(Path::new("/")), Err(Errno::NOSYS | Errno::PERM)) {
            ways.push(("kernel", by_kernel));
        }
        ways
    }

    #[test]
    fn both_ways_open_what_has_no_link_in_it_and_nothing_else() {
        let (_folder, at) = tree();
        for (way, open) in ways() {
            for path in
                ["", "a", "a/b/c", "a/./b", "a/b/..", "a/b/../b/c", "a//b/", "../../../../../../../tmp"]
            {
                let opened = open(&at.join(path)).unwrap_or_else(|error| panic!("{way} {path}: {error}"));
                let meant = std::fs::metadata(at.join(path)).expect("is there");
                let opened = File::from(opened).metadata().expect("open");
                assert_eq!(identity(&opened), identity(&meant), "{way} {path}");
            }
            let links = "a/near a/near/ a/near/. a/near/.. a/up/c a/root/tmp a/dangling a/loop a/to-file \
                         a/b/parent/b absolute/b";
            for (paths, error) in [
                (links, Errno::LOOP),
                ("a/file a/file/..", Errno::NOTDIR),
                ("a/none a/none/../b", Errno::NOENT),
            ] {
                for path in paths.split(' ') {
                    assert_eq!(open(&at.join(path)).map(drop), Err(error), "{way} {path}");
                }
            }
            // Links of the kernel, whose targets have no name.
            for path in ["/proc/self", "/proc/self/cwd", "/proc/self/root/tmp", "/proc/self/fd/0"] {
                if Path::new("/proc/self").exists() {
                    assert_eq!(open(Path::new(path)).map(drop), Err(Errno::LOOP), "{way} {path}");
                }
            }
        }
    }

    #[test]
    fn a_folder_knows_what_it_lies_in_wherever_it_is_moved() {
        let (_folder, at) = tree();
        let folder = open_folder(&at.join("a/b/c")).expect("opens");
        let of = |path: &Path| identity(&std::fs::metadata(path).expect("is there"));
        let expected: Vec<_> = at.join("a/b/c").ancestors().skip(1).map(of).collect();
        // In a container, the root may occur twice.
        assert_eq!(above(&folder).expect("known")[..3], expected[..3]);
        assert_eq!(above(&folder).expect("known").last(), Some(&of(Path::new("/"))));
        std::fs::rename(at.join("a/b/c"), at.join("moved")).expect("moves");
        assert_eq!(above(&folder).expect("known")[0], of(&at));
    }

    #[test]
    fn a_trail_has_every_folder_and_link_that_a_path_is_found_by() {
        let (_folder, at) = tree();
        std::fs::create_dir(at.join("links")).expect("makes");
        symlink("../a/near", at.join("links/second")).expect("links");
        symlink("links/second", at.join("first")).expect("links");
        let trail = trail(&at.join("first/c"));
        let of = |path: &str| identity(&std::fs::symlink_metadata(at.join(path)).expect("is there"));
        for path in ["", "first", "links", "links/second", "a", "a/near", "a/b", "a/b/c"] {
            assert!(trail.contains(&of(path)), "{path}");
        }
        assert!(!trail.contains(&of("a/file")) && trail.contains(&of("/")));
        // The trail of an absent path covers the part that exists.
        let absent = super::trail(&at.join("first/none/deep"));
        assert!(absent.contains(&of("a/b")) && absent.contains(&of("links")));
        // Both terminate.
        super::trail(&at.join("a/loop"));
        super::trail(&at.join("a/b/parent/b/parent/b"));
    }
}
