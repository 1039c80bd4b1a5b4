//! Resolves a guest's path beneath its starting folder, and only into mounts that were checked when
//! the granted folder was opened.
//!
//! The kernel resolves nearly all paths in one step that enters no other mount. Only if it meets
//! one, the path is walked name by name, and each mount on it must be among the checked ones.
//! Nothing behind any other mount is inspected, opened, created or truncated.

#[cfg(target_os = "linux")]
use super::leave_some;
use crate::grant::{CheckedMounts, number};
use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{OFlags, ftruncate};
use std::fs::File;
use std::io;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Opens the target of the path.
pub(super) fn open(
    folder: &File,
    path: &str,
    flags: OFlags,
    checked: &CheckedMounts,
) -> Result<File, ErrorCode> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::Errno;
        match by_kernel::open(folder, path, flags) {
            // The path leads into another mount or out of the folder, or a rename interfered with
            // resolving `..`.
            Err(Errno::XDEV | Errno::AGAIN) => return by_kernel::walk(folder, path, flags, checked),
            // The kernel is older than Linux 5.6, or a system call filter forbids this call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(File::from(opened.map_err(io::Error::from)?)),
        }
    }
    by_names(folder, path, flags, checked)
}

/// Opens the path where the kernel lacks `openat2`. The opened file is checked before it is used.
fn by_names(folder: &File, path: &str, flags: OFlags, checked: &CheckedMounts) -> Result<File, ErrorCode> {
    let start = cap_std::fs::Dir::from_std_file(folder.try_clone()?);
    let empties = flags.contains(OFlags::TRUNC);
    let opened = start.open_with(path, &options(flags - OFlags::TRUNC))?.into_std();
    let begins_in = number(folder);
    if begins_in.is_some() && number(&opened) != begins_in && !checked.has(&opened) {
        checked.miss();
        return Err(ErrorCode::NotPermitted);
    }
    if empties && opened.metadata()?.is_file() {
        ftruncate(&opened, 0).map_err(io::Error::from)?;
    }
    Ok(opened)
}

fn options(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    let access = flags & OFlags::ACCMODE;
    options.read(access != OFlags::WRONLY).write(access != OFlags::RDONLY);
    if flags.contains(OFlags::CREATE | OFlags::EXCL) {
        options.create_new(true);
    } else {
        options.create(flags.contains(OFlags::CREATE));
    }
    let more = flags - OFlags::ACCMODE - OFlags::CREATE - OFlags::EXCL;
    options.custom_flags(more.bits() as i32);
    options
}

#[cfg(target_os = "linux")]
mod by_kernel {
    use super::{CheckedMounts, ErrorCode, leave_some};
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, ftruncate, openat2, readlinkat};
    use rustix::io::Errno;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    /// How often a path with `..` is resolved before giving up because of concurrent renames.
    const MAX_TRIES: usize = 4;
    /// The maximum number of links in one path, as in the kernel.
    const MAX_LINKS: usize = 40;
    /// The maximum depth of a path that enters another mount. Each folder on it is held open.
    const MAX_DEPTH: usize = 256;
    /// Opens a file of any kind without side effects.
    const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
    /// The flags that change the file or folder.
    const DOES: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::TRUNC);

    /// Opens a path within the folder's own mount.
    pub fn open(folder: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        resolve(folder, path, flags, ResolveFlags::NO_XDEV)
    }

    fn resolve(folder: impl AsFd, path: &str, flags: OFlags, how: ResolveFlags) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | how;
        // `umask` applies, as for any other program.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let mut tries = 0;
        loop {
            tries += 1;
            match openat2(&folder, path, flags | OFlags::CLOEXEC, mode, how) {
                Err(Errno::AGAIN) if tries < MAX_TRIES => {}
                opened => return opened,
            }
        }
    }

    /// Resolves a path name by name, also into checked mounts. `..` returns to the previous folder
    /// of the walk, regardless of renames.
    pub fn walk(
        folder: &File,
        path: &str,
        flags: OFlags,
        checked: &CheckedMounts,
    ) -> Result<File, ErrorCode> {
        let mut walk = Walk { folder, passed: Vec::new(), checked };
        let mut rest = VecDeque::new();
        let mut links = 0;
        let mut link = parts(path)?;
        loop {
            // The target of a link that ends in a slash is a folder, whether or not more names
            // follow.
            for part in link.drain(..).rev() {
                rest.push_front(part);
            }
            let Some(part) = rest.pop_front() else {
                let opened = open(walk.here(), ".", flags).map_err(io::Error::from)?;
                return Ok(opened.into());
            };
            let found = match part.as_str() {
                "." => continue,
                ".." => {
                    walk.passed.pop().ok_or(ErrorCode::NotPermitted)?;
                    continue;
                }
                name if rest.is_empty() => walk.last(name, flags)?,
                name => walk.step(name)?,
            };
            match found {
                Entry::Folder => {}
                Entry::Opened(opened) => return Ok(opened),
                Entry::Link(target) if links < MAX_LINKS => {
                    links += 1;
                    link = parts(&target)?;
                }
                Entry::Link(_) => return Err(ErrorCode::Loop),
            }
        }
    }

    /// The names of a path. A trailing slash is a step into the folder.
    fn parts(path: &str) -> Result<Vec<String>, ErrorCode> {
        if path.starts_with('/') {
            return Err(ErrorCode::NotPermitted);
        }
        if path.is_empty() {
            return Err(ErrorCode::NoEntry);
        }
        let mut parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if path.ends_with('/') {
            parts.push(".".to_owned());
        }
        Ok(parts)
    }

    struct Walk<'a> {
        folder: &'a File,
        /// The folders entered since then.
        passed: Vec<OwnedFd>,
        checked: &'a CheckedMounts,
    }

    enum Entry {
        /// A folder that was entered.
        Folder,
        Link(String),
        Opened(File),
    }

    impl Walk<'_> {
        fn here(&self) -> BorrowedFd<'_> {
            self.passed.last().map_or(self.folder.as_fd(), AsFd::as_fd)
        }

        /// Resolves the next name.
        fn step(&mut self, name: &str) -> Result<Entry, ErrorCode> {
            let found = match open(self.here(), name, LOOK) {
                Err(Errno::XDEV) => self.pass(name)?,
                found => found.map_err(io::Error::from)?,
            };
            match kind(&found)? {
                FileType::Symlink => Ok(Entry::Link(target(&found, "")?)),
                FileType::Directory if self.passed.len() == MAX_DEPTH => Err(ErrorCode::NameTooLong),
                FileType::Directory => {
                    let found = File::from(found);
                    leave_some(&found)?;
                    self.passed.push(found.into());
                    Ok(Entry::Folder)
                }
                _ => Err(ErrorCode::NotDirectory),
            }
        }

        /// Opens the mount at this name for inspection, if it was checked.
        fn pass(&self, name: &str) -> Result<OwnedFd, ErrorCode> {
            let found = resolve(self.here(), name, LOOK, ResolveFlags::empty()).map_err(io::Error::from)?;
            self.admit(found)
        }

        fn admit(&self, found: OwnedFd) -> Result<OwnedFd, ErrorCode> {
            if self.checked.has(&found) {
                return Ok(found);
            }
            self.checked.miss();
            Err(ErrorCode::NotPermitted)
        }

        /// Opens the last name.
        fn last(&self, name: &str, flags: OFlags) -> Result<Entry, ErrorCode> {
            let follows = !flags.contains(OFlags::NOFOLLOW);
            match open(self.here(), name, flags | OFlags::NOFOLLOW) {
                Err(Errno::XDEV) => self.mounted(name, flags),
                // The kernel reports a link with these errors.
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => match target(self.here(), name) {
                    Ok(target) if follows => Ok(Entry::Link(target)),
                    _ => Err(io::Error::from(error).into()),
                },
                Err(error) => Err(io::Error::from(error).into()),
                Ok(found)
                    if follows && flags.contains(OFlags::PATH) && kind(&found)? == FileType::Symlink =>
                {
                    Ok(Entry::Link(target(&found, "")?))
                }
                Ok(found) => Ok(Entry::Opened(found.into())),
            }
        }

        /// Opens a mounted file or folder.
        fn mounted(&self, name: &str, flags: OFlags) -> Result<Entry, ErrorCode> {
            let found = self.pass(name)?;
            if flags.contains(OFlags::CREATE | OFlags::EXCL) {
                return Err(ErrorCode::Exist);
            }
            let is_folder = match kind(&found)? {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => return Err(ErrorCode::NotPermitted),
            };
            if flags.contains(OFlags::DIRECTORY) && !is_folder {
                return Err(ErrorCode::NotDirectory);
            }
            let opened = if flags.contains(OFlags::PATH) {
                found
            } else if is_folder {
                open(&found, ".", flags - OFlags::NOFOLLOW).map_err(io::Error::from)?
            } else {
                // The file is opened by name again, so it is checked again before it is truncated.
                let flags = (flags - DOES) | OFlags::NOFOLLOW;
                let opened = resolve(self.here(), name, flags, ResolveFlags::empty());
                self.admit(opened.map_err(io::Error::from)?)?
            };
            if flags.contains(OFlags::TRUNC) && !is_folder {
                ftruncate(&opened, 0).map_err(io::Error::from)?;
            }
            Ok(Entry::Opened(opened.into()))
        }
    }

    fn kind(file: &OwnedFd) -> Result<FileType, ErrorCode> {
        Ok(FileType::from_raw_mode(fstat(file).map_err(io::Error::from)?.st_mode))
    }

    /// The target of a link.
    fn target(folder: impl AsFd, name: &str) -> Result<String, ErrorCode> {
        let target = readlinkat(folder, name, Vec::new()).map_err(io::Error::from)?;
        target.into_string().map_err(|_| ErrorCode::IllegalByteSequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    type Open = fn(&File, &str, OFlags, &CheckedMounts) -> Result<File, ErrorCode>;

    fn ways() -> Vec<(&'static str, Open)> {
        let mut ways: Vec<(&'static str, Open)> = vec![("any", open), ("names", by_names)];
        #[cfg(target_os = "linux")]
        ways.push(("walk", by_kernel::walk));
        ways
    }

    /// All three implementations open, create and refuse the same paths.
    #[test]
    fn all_ways_resolve_alike() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        std::fs::create_dir_all(at.join("in/a/b")).expect("makes");
        std::fs::write(at.join("out"), "x").expect("writes");
        std::fs::write(at.join("in/file"), "x").expect("writes");
        for (target, name) in [
            ("a/b", "near"),
            ("../file", "a/up"),
            ("a/b/", "slash"),
            ("../out", "away"),
            ("..", "above"),
            ("/etc", "root"),
            ("loop", "loop"),
            ("none", "dangling"),
            ("file", "to-file"),
            ("near/../../file", "through"),
        ] {
            symlink(target, at.join("in").join(name)).expect("links");
        }
        let start = File::open(at.join("in")).expect("opens");
        let seen = |path: &str, opened: Result<File, ErrorCode>| match opened {
            Ok(file) => {
                use std::os::unix::fs::MetadataExt as _;
                Ok(file.metadata().map(|found| (found.ino(), found.len())).expect(path))
            }
            Err(error) => Err(error),
        };
        let [read, write] = [OFlags::RDONLY, OFlags::WRONLY].map(|flags| flags | OFlags::NONBLOCK);
        let mut kinds = vec![
            read,
            read | OFlags::NOFOLLOW,
            read | OFlags::DIRECTORY,
            read | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            write,
            write | OFlags::CREATE | OFlags::EXCL,
        ];
        #[cfg(target_os = "linux")]
        kinds.extend([OFlags::PATH, OFlags::PATH | OFlags::NOFOLLOW, OFlags::PATH | OFlags::DIRECTORY]);
        for path in "file file/ file/. a a/ a/b a//b/. a/b/.. a/.. . .. ../in near near/ near/.. a/up \
                     slash away above above/in root root/passwd loop dangling none none/x to-file to-file/ \
                     through a/../../out / /etc a/none/.. near/../up"
            .split(' ')
            .chain([""])
        {
            for flags in &kinds {
                let outcomes = ways().into_iter().map(|(way, open)| {
                    let outcome = seen(path, open(&start, path, *flags, &CheckedMounts::default()));
                    // A created file must not exist when the next implementation runs.
                    if path == "dangling" || path == "none" {
                        let _ = std::fs::remove_file(at.join("in/none"));
                    }
                    (way, outcome.map_err(|error| matches!(error, ErrorCode::NotPermitted)))
                });
                let outcomes: Vec<_> = outcomes.collect();
                for (way, outcome) in &outcomes {
                    let is_made = flags.contains(OFlags::CREATE);
                    let same = if is_made {
                        outcome.is_ok() == outcomes[0].1.is_ok()
                    } else {
                        *outcome == outcomes[0].1
                    };
                    assert!(same, "{path:?} {flags:?} {way}: {outcomes:?}");
                }
            }
        }
        // The file outside was not reached.
        assert_eq!(std::fs::read_to_string(at.join("out")).expect("there"), "x");
        for (way, open) in ways() {
            std::fs::write(at.join("in/file"), "long").expect("writes");
            open(&start, "a/up", write | OFlags::TRUNC, &CheckedMounts::default()).expect("opens");
            assert_eq!(std::fs::read(at.join("in/file")).expect("there"), b"", "{way}");
            open(&start, "dangling", write | OFlags::CREATE, &CheckedMounts::default()).expect("makes");
            std::fs::remove_file(at.join("in/none")).expect("was made by way of the link");
        }
    }
}
