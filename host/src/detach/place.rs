//! The folder `detached` in the data folder: for each background host a lock, which says
//! that it lives, a socket, and a log. Nothing of it is there before the first task.

use anyhow::{Context as _, bail};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path in the address of a socket, on every system that we run on.
const LONGEST: usize = 103;

/// Where one background host is found.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
    name: String,
}

/// The right to listen at a place; there is one.
#[derive(Debug)]
pub struct Held {
    place: Place,
    _lock: File,
}

impl Place {
    /// The place of this name in a data folder.
    pub fn new(data: &Path, name: &str) -> Self {
        Self { folder: data.join("detached"), name: name.to_owned() }
    }

    /// The file that it logs to.
    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Makes the folder, into which nobody else may look.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&self) -> anyhow::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .with_context(|| format!("the folder {} cannot be made", self.folder.display()))
    }

    /// Takes the place, unless somebody has it who lives. The file of the lock names the
    /// process, for people.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn hold(&self) -> anyhow::Result<Option<Held>> {
        let path = self.file("lock");
        let wrong = || format!("the lock {} cannot be used", path.display());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(&path).with_context(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(wrong),
        }
        lock.set_len(0).with_context(wrong)?;
        writeln!(lock, "{}", std::process::id()).with_context(wrong)?;
        Ok(Some(Held { place: self.clone(), _lock: lock }))
    }

    /// A connection to whoever listens here.
    ///
    /// # Errors
    /// What the system says; nobody listens if it is `NotFound` or `ConnectionRefused`.
    pub fn connect(&self) -> anyhow::Result<UnixStream> {
        self.at_socket(|path| UnixStream::connect(path))
    }

    /// Does something with the path of the socket, which must be a short one.
    fn at_socket<T>(&self, act: impl FnOnce(&Path) -> io::Result<T>) -> anyhow::Result<T> {
        let path = self.file("sock");
        if path.as_os_str().len() <= LONGEST {
            return Ok(act(&path)?);
        }
        let folder = File::open(&self.folder)?;
        let descriptors = Path::new("/proc/self/fd");
        if !descriptors.is_dir() {
            bail!(
                "the path {} is too long for a socket, by {} bytes; --data names another folder",
                path.display(),
                path.as_os_str().len() - LONGEST
            );
        }
        // The same file by a short way, for as long as the folder is open.
        Ok(act(&descriptors.join(folder.as_raw_fd().to_string()).join(format!("{}.sock", self.name)))?)
    }
}

impl Held {
    /// Listens. A socket that is there was left by a process that is dead.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn listen(&self) -> anyhow::Result<UnixListener> {
        let path = self.place.file("sock");
        let listen = || {
            remove(&path)?;
            let listener = self.place.at_socket(|path| UnixListener::bind(path))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            anyhow::Ok(listener)
        };
        listen().with_context(|| format!("the socket {} cannot be used", path.display()))
    }

    /// Gives the place up: the next one may have it at once.
    pub fn release(self) {
        if let Err(error) = remove(&self.place.file("sock")) {
            tracing::warn!(%error, "the socket stays behind");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(data: &Path) -> Place {
        let place = Place::new(data, "0123456789abcdef");
        place.make().expect("a folder");
        place
    }

    #[test]
    fn a_place_is_held_by_one_and_by_the_next_once_it_is_given_up() {
        let data = tempfile::tempdir().expect("a folder");
        let place = place(data.path());
        let held = place.hold().expect("a lock").expect("nobody has it");
        assert!(place.hold().expect("a lock").is_none());
        let listener = held.listen().expect("a socket");
        place.connect().expect("somebody listens");
        held.release();
        assert!(!place.file("sock").exists());
        drop(listener);
        place.hold().expect("a lock").expect("nobody has it any more");
    }

    #[test]
    fn a_socket_that_a_dead_process_left_is_replaced() {
        let data = tempfile::tempdir().expect("a folder");
        let place = place(data.path());
        drop(place.hold().expect("a lock").expect("free").listen().expect("a socket"));
        assert!(place.file("sock").exists() && place.connect().is_err(), "nobody listens there");
        let held = place.hold().expect("a lock").expect("free");
        let _listener = held.listen().expect("a socket");
        place.connect().expect("somebody listens");
    }

    #[test]
    fn a_folder_may_have_a_path_that_no_socket_can_have() {
        let data = tempfile::tempdir().expect("a folder");
        let long = data.path().join("long".repeat(30)).join("er".repeat(60));
        let place = place(&long);
        let held = place.hold().expect("a lock").expect("free");
        let _listener = held.listen().expect("a socket");
        place.connect().expect("somebody listens");
        let mode = fs::metadata(place.file("sock")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
