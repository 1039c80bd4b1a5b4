//! The file that audit entries go to, and its rotation. It is opened anew for each
//! write, since another process on the same data folder may have rotated it; who
//! writes holds the lock of the exporter, so there is one writer at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A line is shorter than this by far, so half a line at the end is found in what
/// is read back.
const LONGEST_LINE: u64 = 64 << 10;

/// A file of lines.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    rotate_at: u64,
    keep: u32,
}

impl LogFile {
    /// A file that is put aside before it grows beyond `rotate_at` bytes; `keep`
    /// files are kept beside it, `NAME.1` the latest.
    pub const fn new(path: PathBuf, rotate_at: u64, keep: u32) -> Self {
        Self { path, rotate_at, keep }
    }

    /// Appends whole lines. They are on the disk when this returns.
    ///
    /// # Errors
    /// What the system says. Half of it may be there; the next call takes that
    /// away.
    pub fn append(&self, text: &str) -> io::Result<()> {
        let (mut file, mut length, mut fresh) = self.open()?;
        if length > 0 && length + text.len() as u64 > self.rotate_at {
            drop(file);
            self.rotate()?;
            (file, length, fresh) = self.open()?;
        }
        if let Err(error) = file.write_all(text.as_bytes()) {
            // A full disk gives room back, at least.
            let _ = file.set_len(length);
            return Err(error);
        }
        file.sync_data()?;
        if fresh {
            // The name must survive a loss of power as well.
            File::open(
                self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")),
            )?
            .sync_all()?;
        }
        Ok(())
    }

    /// The file, how long it is, and whether it is new.
    fn open(&self) -> io::Result<(File, u64, bool)> {
        let fresh = match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => false,
            // Opening a pipe would wait for a reader.
            Ok(_) => return Err(io::Error::other(format!("{} is no regular file", self.path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(named(&self.path, error)),
        };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.open(&self.path).map_err(|error| named(&self.path, error))?;
        let length = mend(&mut file)?;
        Ok((file, length, fresh))
    }

    fn rotate(&self) -> io::Result<()> {
        // A gap is what a crash during an earlier rotation leaves; it is filled.
        let free = (1..self.keep).find(|number| !self.aside(*number).exists()).unwrap_or(self.keep);
        for number in (0..free).rev() {
            let (from, to) = (self.aside(number), self.aside(number + 1));
            fs::rename(&from, &to).map_err(|error| named(&from, error))?;
        }
        Ok(())
    }

    /// The file itself, or one that was put aside.
    fn aside(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Cuts off the half line that a crash, or a full disk, left at the end: its entry
/// was never marked as exported, and comes again. Gives the length.
fn mend(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LONGEST_LINE);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut tail)?;
    if tail.is_empty() || tail.ends_with(b"\n") {
        return Ok(length);
    }
    match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => {
            let whole = from + end as u64 + 1;
            file.set_len(whole)?;
            Ok(whole)
        }
        None if from == 0 => {
            file.set_len(0)?;
            Ok(0)
        }
        // Nothing that we have written.
        None => file.write_all(b"\n").map(|()| length + 1),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn log(folder: &Path, rotate_at: u64, keep: u32) -> LogFile {
        LogFile::new(folder.join("audit.jsonl"), rotate_at, keep)
    }

    fn read(folder: &Path, name: &str) -> String {
        fs::read_to_string(folder.join(name)).unwrap_or_default()
    }

    #[test]
    fn t_43_a_file_is_put_aside_before_it_is_too_long_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = log(folder.path(), 10, 2);
        for text in ["1234\n", "abcd\n", "5678\n", "a line that is longer than all\n", "9\n"] {
            log.append(text).expect("writes");
        }
        assert_eq!(read(folder.path(), "audit.jsonl"), "9\n");
        assert_eq!(read(folder.path(), "audit.jsonl.1"), "a line that is longer than all\n");
        assert_eq!(read(folder.path(), "audit.jsonl.2"), "5678\n");
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 3);
        for entry in fs::read_dir(folder.path()).expect("lists") {
            let mode = entry.expect("an entry").metadata().expect("its mode").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn t_43_half_a_line_is_cut_off_and_what_was_whole_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let log = log(folder.path(), 1 << 20, 2);
        for (before, after) in
            [("", "new\n"), ("whole\n", "whole\nnew\n"), ("whole\nhal", "whole\nnew\n"), ("hal", "new\n")]
        {
            fs::write(&file, before).expect("writes");
            log.append("new\n").expect("appends");
            assert_eq!(read(folder.path(), "audit.jsonl"), after, "{before:?}");
        }
        let foreign = "x".repeat(100_000);
        fs::write(&file, &foreign).expect("writes");
        log.append("new\n").expect("appends");
        assert_eq!(read(folder.path(), "audit.jsonl"), foreign + "\nnew\n");
    }

    #[test]
    fn what_is_no_file_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("audit.jsonl")).expect("makes");
        let error = log(folder.path(), 10, 2).append("x\n").expect_err("is a folder");
        assert!(error.to_string().contains("audit.jsonl is no regular file"), "{error}");
    }
}
