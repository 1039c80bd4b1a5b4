//! The file that receives audit entries, and its rotation. Each write opens it again, since another process
//! may have rotated it. Each write holds the lock beside the file, so there is one writer at a time.

use super::folder::Folder;
use super::lock;
use rustix::fs::{AtFlags, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// All lines are far shorter than this, so reading this much from the end finds a half line there.
const LONGEST_LINE: u64 = 64 << 10;

/// The most rotated files that the host checks at its start.
const MAX_LOOKED_AT: u32 = 1_000;

/// A file of lines.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    rotate_at: u64,
    keep: u32,
    /// Whether other users may write there (`data.others-may-write`).
    shared: bool,
}

impl LogFile {
    /// A log file that is rotated before it grows beyond `rotate_at` bytes. `keep` rotated files stay beside
    /// it; `NAME.1` is the latest.
    pub const fn new(path: PathBuf, rotate_at: u64, keep: u32) -> Self {
        Self { path, rotate_at, keep, shared: false }
    }

    /// With `shared`, its folder and the files in it may belong to anybody.
    #[must_use]
    pub fn shared(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// Checks the folder and the existing files of the log.
    ///
    /// # Errors
    /// The reason why entries cannot be appended: the error of the system, or that others could
    /// have written there.
    pub fn check(&self) -> io::Result<()> {
        let folder = self.folder()?;
        for number in 0..=self.keep.min(MAX_LOOKED_AT) {
            let name = self.aside(number)?;
            if folder.holds(&name)? {
                folder.file(&name, OFlags::WRONLY | OFlags::APPEND, self.shared)?;
            }
        }
        if folder.holds(&self.lock_name()?)? {
            folder.file(&self.lock_name()?, OFlags::RDWR, self.shared)?;
        }
        Ok(())
    }

    /// Appends whole lines. They are on the disk when this returns.
    ///
    /// # Errors
    /// The error of the system, or that others could have written there. Half of the text may be in
    /// the file; the next call removes it.
    pub fn append(&self, text: &str) -> io::Result<()> {
        // Open during the write: all names below are looked up in this very folder.
        let folder = self.folder()?;
        let _lock = lock::take(&folder, &self.lock_name()?, self.shared)?;
        let (mut file, mut length, mut fresh) = self.open(&folder)?;
        if length > 0 && length + text.len() as u64 > self.rotate_at {
            drop(file);
            self.rotate(&folder)?;
            (file, length, fresh) = self.open(&folder)?;
        }
        if let Err(error) = file.write_all(text.as_bytes()) {
            // On a full disk this frees at least the space of the partial write.
            let _ = file.set_len(length);
            return Err(error);
        }
        file.sync_data()?;
        if fresh {
            // The name must survive a loss of power as well.
            folder.handle.sync_all()?;
        }
        Ok(())
    }

    fn folder(&self) -> io::Result<Folder> {
        let path = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        Folder::open(path, self.shared)
    }

    /// The file, its length in bytes, and whether it is new.
    fn open(&self, folder: &Folder) -> io::Result<(File, u64, bool)> {
        let name = self.aside(0)?;
        let fresh = !folder.holds(&name)?;
        let access = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let mut file = folder.file(&name, access, self.shared)?;
        if !begins_with_an_entry(&mut file)? {
            let path = folder.path(&name);
            let what = "is not an audit log: it does not begin with an entry; `audit.file` names another";
            return Err(io::Error::other(format!("{} {what}", path.display())));
        }
        let length = mend(&mut file)?;
        Ok((file, length, fresh))
    }

    fn rotate(&self, folder: &Folder) -> io::Result<()> {
        // A crash during an earlier rotation leaves a gap in the numbers; this rotation fills it.
        let mut free = 1;
        while free < self.keep && folder.holds(&self.aside(free)?)? {
            free += 1;
        }
        // The oldest file is removed by name: no rename may replace a file.
        let oldest = self.aside(free)?;
        if folder.holds(&oldest)? {
            let removed = rustix::fs::unlinkat(&folder.handle, &oldest, AtFlags::empty());
            removed.map_err(|error| folder.named(&oldest, error.into()))?;
        }
        for number in (0..free).rev() {
            folder.rename(&self.aside(number)?, &self.aside(number + 1)?)?;
        }
        Ok(())
    }

    fn lock_name(&self) -> io::Result<OsString> {
        let mut name = self.aside(0)?;
        name.push(".lock");
        Ok(name)
    }

    /// The name of the file itself (0) or of a rotated one.
    fn aside(&self, number: u32) -> io::Result<OsString> {
        let no_name = || io::Error::other(format!("{} is not a file name", self.path.display()));
        Ok(numbered(self.path.file_name().ok_or_else(no_name)?, number))
    }
}

/// The name of the file itself (0) or of a rotated one.
pub(super) fn numbered(name: &OsStr, number: u32) -> OsString {
    let mut name = name.to_owned();
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name
}

/// Whether the file is empty or begins like an audit entry. Otherwise [`mend`] would cut the end off a
/// foreign file, and rotation would in time remove it.
fn begins_with_an_entry(file: &mut File) -> io::Result<bool> {
    let mut first = [b'{'];
    file.seek(SeekFrom::Start(0))?;
    // An empty file leaves the byte as it is.
    let _ = file.read(&mut first)?;
    Ok(first == [b'{'])
}

/// Cuts off the half line that a crash or a full disk left at the end. Its entry was never marked as
/// exported, so it comes again. Returns the length.
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
        // No entry is so long. The host leaves it, and starts later entries on lines of their own.
        None => file.write_all(b"\n").map(|()| length + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outsiders::OVERRIDE;
    use rustix::fs::Mode;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn log(folder: &Path, rotate_at: u64, keep: u32) -> LogFile {
        LogFile::new(folder.join("audit.jsonl"), rotate_at, keep)
    }

    fn read(folder: &Path, name: &str) -> String {
        fs::read_to_string(folder.join(name)).unwrap_or_default()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets");
    }

    #[test]
    fn t_43_a_file_is_put_aside_before_it_is_too_long_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = log(folder.path(), 10, 2);
        for text in ["{34}\n", "{cd}\n", "{78}\n", "{ line that is longer than all\n", "{\n"] {
            log.append(text).expect("writes");
        }
        assert_eq!(read(folder.path(), "audit.jsonl"), "{\n");
        assert_eq!(read(folder.path(), "audit.jsonl.1"), "{ line that is longer than all\n");
        assert_eq!(read(folder.path(), "audit.jsonl.2"), "{78}\n");
        // The three files and the lock.
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 4);
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
            [("", "{ew\n"), ("{hole\n", "{hole\n{ew\n"), ("{hole\n{al", "{hole\n{ew\n"), ("{al", "{ew\n")]
        {
            fs::write(&file, before).expect("writes");
            log.append("{ew\n").expect("appends");
            assert_eq!(read(folder.path(), "audit.jsonl"), after, "{before:?}");
        }
        let foreign = format!("{{{}", "x".repeat(100_000));
        fs::write(&file, &foreign).expect("writes");
        log.append("{ew\n").expect("appends");
        assert_eq!(read(folder.path(), "audit.jsonl"), foreign + "\n{ew\n");
    }

    #[test]
    fn what_is_no_file_is_refused_by_name_and_a_file_that_is_not_a_log_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let refusal = || log(folder.path(), 10, 2).append("{x\n").expect_err("is refused").to_string();
        let refused = || {
            assert!(refusal().contains("audit.jsonl is no regular file"), "{}", refusal());
            log(folder.path(), 10, 2).check().expect_err("it is not a file");
        };
        fs::create_dir(&path).expect("makes");
        refused();
        fs::remove_dir(&path).expect("removes");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .expect("makes");
        refused();
        fs::remove_file(&path).expect("removes");
        // A link to an existing file, and a link to a file that opening it would create.
        for target in ["other", "none"] {
            fs::write(folder.path().join("other"), "before\n").expect("writes");
            std::os::unix::fs::symlink(target, &path).expect("links");
            refused();
            fs::remove_file(&path).expect("removes");
        }
        assert_eq!(read(folder.path(), "other"), "before\n");
        assert!(!folder.path().join("none").exists());
        for other in ["127.0.0.1 localhost\n", "a key without an end of line"] {
            fs::write(&path, other).expect("writes");
            assert!(refusal().contains("is not an audit log"), "{}", refusal());
            assert_eq!(read(folder.path(), "audit.jsonl"), other);
        }
    }

    #[test]
    fn a_log_that_others_can_change_is_not_written_unless_that_is_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let open = log(folder.path(), 10, 2);
        open.append("{34}\n").expect("ours alone");
        for (path, kept, modes) in [(&*file, 0o600, [0o660, 0o602]), (folder.path(), 0o700, [0o770, 0o777])] {
            for mode in modes {
                set_mode(path, mode);
                for error in [open.append("{cd}\n").expect_err("others"), open.check().expect_err("others")] {
                    let error = error.to_string();
                    assert!(error.contains("chmod go-w") && error.contains(OVERRIDE), "{error}");
                }
                log(folder.path(), 100, 2).shared(true).check().expect("it is meant");
            }
            set_mode(path, kept);
        }
        assert_eq!(read(folder.path(), "audit.jsonl"), "{34}\n");
        // The check covers rotated files as well.
        open.append("{ line that is longer\n").expect("ours again");
        set_mode(&folder.path().join("audit.jsonl.1"), 0o666);
        open.check().expect_err("others may change it");
    }

    #[test]
    fn a_rename_replaces_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = log(folder.path(), 10, 3);
        for (name, text) in [("from", "new\n"), ("to", "old\n")] {
            fs::write(folder.path().join(name), text).expect("writes");
        }
        let held = log.folder().expect("opens");
        let error = held.rename("from".as_ref(), "to".as_ref()).expect_err("is there").to_string();
        assert!(error.contains("/to: "), "{error}");
        assert_eq!(["from", "to"].map(|name| read(folder.path(), name)), ["new\n", "old\n"]);
        held.rename("from".as_ref(), "free".as_ref()).expect("renames");
        assert_eq!(read(folder.path(), "free"), "new\n");
    }

    #[test]
    fn rotation_moves_a_link_and_never_follows_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = log(folder.path(), 10, 3);
        for text in ["{34}\n", "{ line that is longer\n"] {
            log.append(text).expect("writes");
        }
        fs::write(folder.path().join("other"), "before\n").expect("writes");
        fs::remove_file(folder.path().join("audit.jsonl.1")).expect("removes");
        std::os::unix::fs::symlink("other", folder.path().join("audit.jsonl.1")).expect("links");
        log.append("{ line that is longer too\n").expect("writes");
        assert_eq!(read(folder.path(), "audit.jsonl.1"), "{ line that is longer\n");
        assert_eq!(read(folder.path(), "other"), "before\n");
    }
}
