//! How the path that a guest names is resolved: beneath the folder that it begins in, and on the
//! mounts that were checked when the granted folder was opened.
//!
//! The kernel resolves nearly all paths in one step that passes into no other mount. Only where it
//! came upon one, the path is walked name by name, and each mount on it is looked up among those
//! that were checked. Nothing behind another mount is looked at, opened, made or emptied.

use super::leave_some;
use crate::grant::{CheckedMounts, number};
use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{OFlags, ftruncate};
use std::fs::File;
use std::io;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Opens what the path leads to.
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
            // It leads into another mount, or out of the folder; or `..` was resolved while
            // something was renamed.
            Err(Errno::XDEV | Errno::AGAIN) => return by_kernel::walk(folder, path, flags, checked),
            // The kernel is older than Linux 5.6, or a filter of system calls forbids this one.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(File::from(opened.map_err(io::Error::from)?)),
        }
    }
    by_names(folder, path, flags, checked)
}

/// The same where the kernel does not offer it: what was opened is looked at afterwards, before
/// anything is done with it.
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

    /// How often a path with `..` is resolved anew because something was renamed meanwhile.
    const TRIES: usize = 4;
    /// How many links one path may lead through, as in the kernel.
    const MAX_LINKS: usize = 40;
    /// How deep a path that passes into another mount may lead: each folder on it is held open.
    const MAX_DEPTH: usize = 256;
    /// Opened so that nothing is done by it, whatever it is.
    const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
    /// Those of the flags that do something to what is there.
    const DOES: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::TRUNC);

    /// Opens what lies in the same mount as the folder.
    pub fn open(folder: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        resolve(folder, path, flags, ResolveFlags::NO_XDEV)
    }

    fn resolve(folder: impl AsFd, path: &str, flags: OFlags, how: ResolveFlags) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | how;
        // What `umask` leaves of it, as for any other program.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let mut tries = 0;
        loop {
            tries += 1;
            match openat2(&folder, path, flags | OFlags::CLOEXEC, mode, how) {
                Err(Errno::AGAIN) if tries < TRIES => {}
                opened => return opened,
            }
        }
    }

    /// The same name by name, into mounts that were checked. `..` leads to where the walk came
    /// from, whatever was renamed meanwhile.
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
            // A link that ends in a slash leads to a folder, whatever follows it or not.
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
                Found::Folder => {}
                Found::Opened(opened) => return Ok(opened),
                Found::Link(target) if links < MAX_LINKS => {
                    links += 1;
                    link = parts(&target)?;
                }
                Found::Link(_) => return Err(ErrorCode::Loop),
            }
        }
    }

    /// The names of a path; a slash at its end is a step into the folder.
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
        /// The folders from there on.
        passed: Vec<OwnedFd>,
        checked: &'a CheckedMounts,
    }

    enum Found {
        /// Entered.
        Folder,
        Link(String),
        Opened(File),
    }

    impl Walk<'_> {
        fn here(&self) -> BorrowedFd<'_> {
            self.passed.last().map_or(self.folder.as_fd(), AsFd::as_fd)
        }

        /// Goes one name further.
        fn step(&mut self, name: &str) -> Result<Found, ErrorCode> {
            let found = match open(self.here(), name, LOOK) {
                Err(Errno::XDEV) => self.pass(name)?,
                found => found.map_err(io::Error::from)?,
            };
            match kind(&found)? {
                FileType::Symlink => Ok(Found::Link(target(&found, "")?)),
                FileType::Directory if self.passed.len() == MAX_DEPTH => Err(ErrorCode::NameTooLong),
                FileType::Directory => {
                    let found = File::from(found);
                    leave_some(&found)?;
                    self.passed.push(found.into());
                    Ok(Found::Folder)
                }
                _ => Err(ErrorCode::NotDirectory),
            }
        }

        /// Looks at what is mounted at this name, if that was checked.
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
        fn last(&self, name: &str, flags: OFlags) -> Result<Found, ErrorCode> {
            let follows = !flags.contains(OFlags::NOFOLLOW);
            match open(self.here(), name, flags | OFlags::NOFOLLOW) {
                Err(Errno::XDEV) => self.mounted(name, flags),
                // So the kernel says that it is a link.
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => match target(self.here(), name) {
                    Ok(target) if follows => Ok(Found::Link(target)),
                    _ => Err(io::Error::from(error).into()),
                },
                Err(error) => Err(io::Error::from(error).into()),
                Ok(found)
                    if follows && flags.contains(OFlags::PATH) && kind(&found)? == FileType::Symlink =>
                {
                    Ok(Found::Link(target(&found, "")?))
                }
                Ok(found) => Ok(Found::Opened(found.into())),
            }
        }

        /// Opens what is mounted there.
        fn mounted(&self, name: &str, flags: OFlags) -> Result<Found, ErrorCode> {
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
                // By its name once more, so it is looked at once more, before it is emptied.
                let flags = (flags - DOES) | OFlags::NOFOLLOW;
                let opened = resolve(self.here(), name, flags, ResolveFlags::empty());
                self.admit(opened.map_err(io::Error::from)?)?
            };
            if flags.contains(OFlags::TRUNC) && !is_folder {
                ftruncate(&opened, 0).map_err(io::Error::from)?;
            }
            Ok(Found::Opened(opened.into()))
        }
    }

    fn kind(file: &OwnedFd) -> Result<FileType, ErrorCode> {
        Ok(FileType::from_raw_mode(fstat(file).map_err(io::Error::from)?.st_mode))
    }

    /// Where a link leads.
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

    /// Each way opens, makes and refuses the same.
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
        for path in [
            "file",
            "file/",
            "file/.",
            "a",
            "a/",
            "a/b",
            "a//b/.",
            "a/b/..",
            "a/..",
            ".",
            "..",
            "../in",
            "near",
            "near/",
            "near/..",
            "a/up",
            "slash",
            "away",
            "above",
            "above/in",
            "root",
            "root/passwd",
            "loop",
            "dangling",
            "none",
            "none/x",
            "to-file",
            "to-file/",
            "through",
            "a/../../out",
            "/",
            "/etc",
            "",
            "a/none/..",
            "near/../up",
        ] {
            for flags in &kinds {
                let outcomes = ways().into_iter().map(|(way, open)| {
                    let outcome = seen(path, open(&start, path, *flags, &CheckedMounts::default()));
                    // What was made is no longer there for the next way.
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
        // Nothing of the outside was reached.
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
