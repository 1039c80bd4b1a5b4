//! The owners of names on disk, so that they survive a restart.
//!
//! There is one file for each plugin folder, in the data folder. It is local to this machine: nodes
//! that share a database have their own plugin folders, and each node decides for itself.

use crate::folder::names::{Name, Owner, Owners};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The host never writes a larger file than this.
const MAX_BYTES: u64 = 16 << 20;
/// How long to wait for a lock of another process before continuing without it.
const LOCK_TIME: Duration = Duration::from_secs(5);

/// The file that records which plugin owns each name of one folder.
#[derive(Debug, Clone)]
pub(crate) struct NameFile {
    path: PathBuf,
    folder: PathBuf,
    /// Whether this process assigns names, or only reads them.
    writes: bool,
}

/// While it exists, no other process assigns names.
pub(crate) struct NamesLock(#[expect(dead_code, reason = "the lock goes with the file")] Option<File>);

#[derive(Serialize, Deserialize)]
struct Contents {
    /// For people who read the file.
    folder: PathBuf,
    names: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    name: Name,
    #[serde(flatten)]
    owner: Owner,
}

impl NameFile {
    /// The file for the plugin folder `folder`, in the folder `dir`.
    pub fn new(dir: &Path, folder: &Path, writes: bool) -> Self {
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder));
        let folder = folder.unwrap_or_default();
        let digest = Sha256::digest(folder.as_os_str().as_bytes());
        let name = format!("{}.json", &crate::component::cache::hex(&digest)[..16]);
        Self { path: dir.join(name), folder, writes }
    }

    /// Waits for other processes, then reads the file. Returns `None` if it does not exist yet.
    /// Blocks.
    ///
    /// # Errors
    /// If the file exists but cannot be read.
    pub fn take(&self) -> std::io::Result<(NamesLock, Option<Owners>)> {
        let turn = if self.writes { Some(self.lock()?) } else { None };
        Ok((NamesLock(turn), self.read()?))
    }

    fn lock(&self) -> std::io::Result<File> {
        if let Some(dir) = self.path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.custom_flags(NO_FOLLOW).open(self.path.with_extension("lock"))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(error),
                // Another process of this data folder is assigning names, which takes milliseconds.
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIME => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => return Err(ErrorKind::TimedOut.into()),
            }
        }
    }

    fn read(&self) -> std::io::Result<Option<Owners>> {
        let opened = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&self.path);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let contents: Contents = serde_json::from_slice(&bytes)?;
        Ok(Some(contents.names.into_iter().map(|Entry { name, owner }| (name, owner)).collect()))
    }

    /// Writes the owners atomically. Blocks.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, owners: &Owners, _turn: &NamesLock) -> std::io::Result<()> {
        if !self.writes {
            return Ok(());
        }
        let entry = |(name, owner): (&Name, &Owner)| Entry { name: name.clone(), owner: owner.clone() };
        let contents = Contents { folder: self.folder.clone(), names: owners.iter().map(entry).collect() };
        let partial = self.path.with_extension("partial");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_FOLLOW);
        let mut file = options.open(&partial)?;
        file.write_all(&serde_json::to_vec_pretty(&contents)?)?;
        file.sync_all()?;
        std::fs::rename(&partial, &self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// No other user can write to the data folder, and the host creates no link there.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::names::NameKind;

    #[test]
    fn owners_are_read_as_they_were_written_and_each_folder_has_its_own() {
        let dir = tempfile::tempdir().expect("made");
        let names = dir.path().join("names");
        let file = |folder: &str, writes| NameFile::new(&names, &dir.path().join(folder), writes);
        let (turn, owners) = file("a", true).take().expect("locked");
        assert_eq!(owners, None);
        let name = Name { kind: NameKind::Prompt, name: "x".to_owned() };
        let owner = Owner { file: "p.wasm".to_owned(), digest: "d".to_owned() };
        let owners: Owners = [(name, owner)].into();
        file("a", true).write(&owners, &turn).expect("written");
        assert_eq!(file("a", false).take().expect("read").1, Some(owners));
        assert_eq!(file("b", false).take().expect("read").1, None);
        // A process that only reads leaves the file unchanged.
        file("a", false).write(&Owners::new(), &turn).expect("nothing to do");
        assert!(file("a", false).take().expect("read").1.is_some());
        std::fs::write(file("a", true).path(), "{").expect("written");
        assert!(file("a", false).take().is_err());
    }
}
