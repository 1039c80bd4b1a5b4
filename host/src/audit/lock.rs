//! The lock of an audit file. It lies beside the file, not in a data folder: hosts with
//! different data folders may write the same file.

use super::folder::Folder;
use rustix::fs::{AtFlags, OFlags};
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// The longest wait. A holder keeps the lock for one write and one flush of the disk, so
/// a longer wait means that the process was stopped or its disk hangs.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of this name. The kernel releases it when the file is closed.
///
/// # Errors
/// The error of the system, that others could have written there, or that another process
/// has kept the lock for too long.
pub(super) fn take(folder: &Folder, name: &OsStr, shared: bool) -> io::Result<File> {
    let started = Instant::now();
    loop {
        let file = folder.file(name, OFlags::RDWR | OFlags::CREATE, shared)?;
        match file.try_lock() {
            // A lock on a file that was removed in the meantime excludes no other process.
            Ok(()) if is_current(folder, name, &file)? => return Ok(file),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(folder.named(name, error)),
        }
        if started.elapsed() >= MAX_WAIT {
            let held = format!("another process has held this lock for {} s", MAX_WAIT.as_secs());
            return Err(folder.named(name, io::Error::new(io::ErrorKind::TimedOut, held)));
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_current(folder: &Folder, name: &OsStr, file: &File) -> io::Result<bool> {
    let held = file.metadata()?;
    match rustix::fs::statat(&folder.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
        #[allow(clippy::unnecessary_cast, reason = "the type of `st_dev` differs between systems")]
        Ok(found) => Ok(found.st_dev as u64 == held.dev() && found.st_ino == held.ino()),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(folder.named(name, error.into())),
    }
}

#[cfg(test)]
mod tests {
    use crate::audit::LogFile;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn log(folder: &Path) -> LogFile {
        LogFile::new(folder.join("audit.jsonl"), 100, 1_000)
    }

    #[test]
    fn two_writers_of_one_file_lose_double_and_tear_no_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |writer: &'static str| {
            let log = log(folder.path());
            move || (0..300).for_each(|n| log.append(&format!("{{{writer} {n}\n")).expect("appends"))
        };
        let writers = ["first", "second"].map(|writer| std::thread::spawn(write(writer)));
        writers.into_iter().for_each(|writer| writer.join().expect("writes"));
        let files = fs::read_dir(folder.path()).expect("lists").map(|entry| entry.expect("an entry").path());
        let text: String = files.map(|file| fs::read_to_string(file).expect("reads")).collect();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let lines_of = |writer| (0..300).map(move |n| format!("{{{writer} {n}"));
        let mut expected: Vec<_> = lines_of("first").chain(lines_of("second")).collect();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_lock_that_another_process_keeps_is_waited_for_and_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl.lock");
        let held = fs::File::create(&path).expect("creates");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("sets");
        held.lock().expect("locks");
        let error = log(folder.path()).append("{a\n").expect_err("is locked").to_string();
        assert!(error.contains("audit.jsonl.lock: another process has held"), "{error}");
        // The lock of a file that was removed holds up no other writer.
        fs::remove_file(&path).expect("removes");
        log(folder.path()).append("{b\n").expect("appends");
        assert_eq!(fs::read_to_string(folder.path().join("audit.jsonl")).expect("reads"), "{b\n");
        assert_eq!(fs::metadata(&path).expect("is there again").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_lock_that_is_a_link_or_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl.lock");
        let refused = |says: &str| {
            for refused in [log(folder.path()).append("{a\n"), log(folder.path()).check()] {
                let error = refused.expect_err(says).to_string();
                assert!(error.contains("audit.jsonl.lock") && error.contains(says), "{error}");
            }
        };
        std::os::unix::fs::symlink("other", &path).expect("links");
        refused("is no regular file");
        assert!(!folder.path().join("other").exists());
        fs::remove_file(&path).expect("removes");
        fs::write(&path, "").expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("sets");
        refused("chmod go-w");
    }
}
