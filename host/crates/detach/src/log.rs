//! The log of a background host: a file that is renamed before it grows too large, because no operator
//! rotates it. One older file is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file of at most this many bytes, and the file before it.
#[derive(Debug)]
pub struct BoundedLog {
    path: PathBuf,
    most: u64,
    file: File,
    length: u64,
}

impl BoundedLog {
    /// Opens the log for appending.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn open(path: &Path, most: u64) -> io::Result<Self> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        let mut log = Self { path: path.to_path_buf(), most, file, length };
        log.make_room(0)?;
        Ok(log)
    }

    /// The current file, for a process that writes to it directly.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.length == 0 || self.length + bytes as u64 <= self.most {
            return Ok(());
        }
        fs::rename(&self.path, self.path.with_extension("log.old"))?;
        self.file = open(&self.path)?;
        self.length = 0;
        Ok(())
    }
}

impl Write for BoundedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.make_room(bytes.len())?;
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The last line of the log, for the relay that waits for the host.
pub(crate) fn last_line(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_takes_more_than_twice_what_it_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("host.log");
        for round in 0..3 {
            let mut log = BoundedLog::open(&path, 100).expect("a log");
            for line in 0..40 {
                writeln!(log, "{round} and {line:03}").expect("a line");
                let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
                assert!(size(&path) <= 100 && size(&path.with_extension("log.old")) <= 100);
            }
        }
        assert_eq!(last_line(&path).as_deref(), Some("2 and 039"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}
