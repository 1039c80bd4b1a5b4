//! The folder `detached` in the data folder: for each background host a lock, which shows that it is alive, a
//! socket, and a log. The folder does not exist before the first task.

use crate::log::BoundedLog;
use anyhow::{Context as _, bail};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest socket path, in bytes, that every supported system accepts.
const MAX_SOCKET_PATH: usize = 103;

/// The largest log of a background host, in bytes. It holds about 5,000 lines, and takes little of a user's disk.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The files of one background host: its lock, its socket and its log.
#[derive(Debug, Clone)]
pub struct RuntimeDir {
    folder: PathBuf,
    name: String,
}

/// The right to be the background host of this name. Only one process at a time holds it.
#[derive(Debug)]
pub struct Lock {
    dir: RuntimeDir,
    _file: File,
}

/// A listening socket, with the lock that protects it.
#[derive(Debug)]
pub struct Socket {
    /// The socket.
    pub listener: UnixListener,
    /// The lock of the background host.
    pub lock: Lock,
}

impl RuntimeDir {
    /// The files of the background host of this name in a data folder, whether they exist or not.
    pub(crate) fn new(data: &Path, name: &str) -> Self {
        Self { folder: data.join("detached"), name: name.to_owned() }
    }

    /// The same, but makes the folder if it is missing. Only its owner may read it.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn create(data: &Path, name: &str) -> anyhow::Result<Self> {
        let dir = Self::new(data, name);
        dir.make()?;
        Ok(dir)
    }

    pub(crate) fn make(&self) -> anyhow::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))
    }

    /// The log file of the background host.
    pub(crate) fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// Opens the log. It never takes more than 1 MiB, and the log before it takes as much at most.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open_log(&self) -> anyhow::Result<BoundedLog> {
        BoundedLog::open(&self.log(), MAX_LOG_BYTES)
            .with_context(|| format!("cannot write the log {}", self.log().display()))
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Takes the lock; `None` if a living process holds it. The lock file names the process, for people.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn lock(&self) -> anyhow::Result<Option<Lock>> {
        let path = self.file("lock");
        let wrong = || format!("cannot use the lock {}", path.display());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).with_context(wrong)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(wrong),
        }
        file.set_len(0).with_context(wrong)?;
        writeln!(file, "{}", std::process::id()).with_context(wrong)?;
        Ok(Some(Lock { dir: self.clone(), _file: file }))
    }

    /// Connects to the background host.
    ///
    /// # Errors
    /// The error of the system; `NotFound` or `ConnectionRefused` means that no process listens.
    pub(crate) fn connect(&self) -> anyhow::Result<UnixStream> {
        self.at_socket(|path| UnixStream::connect(path))
    }

    /// Calls `act` with a path to the socket that is short enough for a socket address.
    fn at_socket<T>(&self, act: impl FnOnce(&Path) -> io::Result<T>) -> anyhow::Result<T> {
        let path = self.file("sock");
        if path.as_os_str().len() <= MAX_SOCKET_PATH {
            return Ok(act(&path)?);
        }
        let folder = File::open(&self.folder)?;
        let descriptors = Path::new("/proc/self/fd");
        if !descriptors.is_dir() {
            bail!(
                "the path {} is too long for a socket, by {} bytes; name another folder by --data",
                path.display(),
                path.as_os_str().len() - MAX_SOCKET_PATH
            );
        }
        // A short path to the same file, valid while the folder is open.
        Ok(act(&descriptors.join(folder.as_raw_fd().to_string()).join(format!("{}.sock", self.name)))?)
    }
}

impl Lock {
    /// Listens for relays. A socket file that exists is replaced: the process that made it is dead.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn listen(self) -> anyhow::Result<Socket> {
        let path = self.dir.file("sock");
        let listen = || {
            remove(&path)?;
            let listener = self.dir.at_socket(|path| UnixListener::bind(path))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            anyhow::Ok(listener)
        };
        let listener = listen().with_context(|| format!("cannot use the socket {}", path.display()))?;
        Ok(Socket { listener, lock: self })
    }

    /// Removes the socket file and releases the lock, so that another process may take it at once.
    pub fn release(self) {
        if let Err(error) = remove(&self.dir.file("sock")) {
            tracing::warn!(event = "background.socket_not_removed", %error, "cannot remove socket file");
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

    fn dir(data: &Path) -> RuntimeDir {
        RuntimeDir::create(data, "0123456789abcdef").expect("a folder")
    }

    fn listen(dir: &RuntimeDir) -> Socket {
        dir.lock().expect("a lock").expect("is free").listen().expect("a socket")
    }

    #[test]
    fn one_process_has_the_lock_and_the_next_once_it_is_released() {
        let data = tempfile::tempdir().expect("a folder");
        let dir = dir(data.path());
        let socket = listen(&dir);
        assert!(dir.lock().expect("a lock").is_none());
        dir.connect().expect("a process listens");
        socket.lock.release();
        assert!(!dir.file("sock").exists());
        drop(socket.listener);
        dir.lock().expect("a lock").expect("is free again");
    }

    #[test]
    fn a_socket_that_a_dead_process_left_is_replaced() {
        let data = tempfile::tempdir().expect("a folder");
        let dir = dir(data.path());
        drop(listen(&dir));
        assert!(dir.file("sock").exists() && dir.connect().is_err(), "no process listens there");
        let _socket = listen(&dir);
        dir.connect().expect("a process listens");
    }

    #[test]
    fn a_folder_may_have_a_path_that_no_socket_can_have() {
        let data = tempfile::tempdir().expect("a folder");
        let long = data.path().join("long".repeat(30)).join("er".repeat(60));
        let dir = dir(&long);
        let _socket = listen(&dir);
        dir.connect().expect("a process listens");
        let mode = fs::metadata(dir.file("sock")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
