//! The folder of the audit log, held open: all names are looked up in this very folder.

use crate::outsiders::{OVERRIDE, outsiders_of, remedy};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the log, held open.
pub(super) struct Folder {
    pub(super) handle: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of this path. With `shared`, it may belong to anybody.
    pub(super) fn open(path: &Path, shared: bool) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty());
        let handle = File::from(handle.map_err(|error| named(path, error.into()))?);
        if !shared {
            refuse_outsiders(path, &handle.metadata()?)?;
        }
        Ok(Self { handle, path: path.to_owned() })
    }

    /// The path of a file of the folder.
    pub(super) fn path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// An error that names a file of the folder.
    pub(super) fn named(&self, name: &OsStr, error: io::Error) -> io::Error {
        named(&self.path(name), error)
    }

    /// Renames a file, unless there is one of the new name.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let never_over = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.handle, from, &self.handle, to, never_over) {
            Ok(()) => Ok(()),
            // Some file systems lack this flag. The lock still keeps other hosts away.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if !self.holds(to)? => {
                let renamed = rustix::fs::renameat(&self.handle, from, &self.handle, to);
                renamed.map_err(|error| self.named(from, error.into()))
            }
            Err(Errno::EXIST) => Err(self.named(to, Errno::EXIST.into())),
            Err(error) => Err(self.named(from, error.into())),
        }
    }

    /// Whether a file, folder or link has this name.
    pub(super) fn holds(&self, name: &OsStr) -> io::Result<bool> {
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.named(name, error.into())),
        }
    }

    /// Opens a file. Does not follow a link: otherwise entries would go to any file that the link's maker
    /// chose. Does not wait for a pipe's other end.
    pub(super) fn file(&self, name: &OsStr, access: OFlags, shared: bool) -> io::Result<File> {
        let path = self.path(name);
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let not_regular = || io::Error::other(format!("{} is no regular file", path.display()));
        let file = match rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            // A link, a folder, or a pipe or device with nothing at its other end.
            Err(Errno::LOOP | Errno::MLINK | Errno::ISDIR | Errno::NXIO) => return Err(not_regular()),
            Err(error) => return Err(named(&path, error.into())),
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(not_regular());
        }
        if !shared {
            refuse_outsiders(&path, &found)?;
        }
        Ok(file)
    }
}

fn refuse_outsiders(path: &Path, found: &Metadata) -> io::Result<()> {
    let Some(outsiders) = outsiders_of(found) else { return Ok(()) };
    Err(io::Error::other(format!(
        "{}: {outsiders}, and could change what the audit log says; {}, or set {} if that is intended",
        path.display(),
        remedy(outsiders),
        OVERRIDE,
    )))
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
