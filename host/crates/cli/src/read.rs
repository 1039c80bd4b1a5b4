//! Reads whole files that a person names or that are in a folder made by others: regular files only, up to a
//! size. It never waits for the writer of a pipe, and never reads an endless device.

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file.
///
/// # Errors
/// The error of the system, or the file is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// The outcome of an operation on a file; `None` if there is no such file.
///
/// # Errors
/// Every other error of the operation.
pub fn if_exists<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Reads a regular file of at most this many bytes.
///
/// # Errors
/// The errors of [`open`], or the file is larger.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    rest(open(path)?, most)
}

/// As [`bytes`], for text.
///
/// # Errors
/// The errors of [`bytes`], or the content is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    utf8(bytes(path, most)?)
}

/// Reads the rest of an open file as text.
///
/// # Errors
/// As [`text`].
pub fn text_of(file: File, most: u64) -> io::Result<String> {
    utf8(rest(file, most)?)
}

fn rest(file: File, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::other(format!("it is larger than {most} bytes"));
    // A sparse file takes no disk space, but would take memory.
    if file.metadata()?.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_what_is_too_large_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let error = bytes(path, 100).expect_err("not a file").to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let sparse = folder.path().join("sparse");
        File::create(&sparse).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert!(bytes(&sparse, 1 << 20).expect_err("too large").to_string().contains("1048576 bytes"));
        std::fs::write(&sparse, "text").expect("writes");
        assert_eq!(text(&sparse, 4).expect("fits"), "text");
        assert!(text(&sparse, 3).is_err());
    }
}
