//! The file of a backup: a tar with a header, the digest of the header, and the members that the header lists.
//!
//! The members are plain files, so the tar is never larger unpacked than packed. A member that the header does
//! not list, or in another order, makes the file unreadable, and so does a link, a folder or an extension.

mod read;
mod write;

pub use read::unpack;
pub use write::pack;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read, Write};

/// The format that this release writes and reads.
const FORMAT: u32 = 1;
const HEADER: &str = "backup.json";
const HEADER_DIGEST: &str = "backup.json.sha256";
/// The longest header, in bytes.
const MAX_HEADER: u64 = 1 << 20;
/// The most members that a header lists.
const MAX_MEMBERS: usize = 1024;

/// The kind of a store in a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A single file.
    Sqlite,
    /// A schema of a database.
    Postgres,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// The first member of the tar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    format: u32,
    /// The release that wrote it.
    pub toolyard: String,
    /// The time of the backup.
    pub at: String,
    /// The kind of the store.
    pub store: StoreKind,
    /// The number of the store's schema.
    pub schema: i64,
    /// The other members, in their order.
    members: Vec<Member>,
}

impl Header {
    /// A header without members.
    pub const fn new(toolyard: String, at: String, store: StoreKind, schema: i64) -> Self {
        Self { format: FORMAT, toolyard, at, store, schema, members: Vec::new() }
    }

    /// The names of the other members.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// A member that the header lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    name: String,
    bytes: u64,
    /// In hexadecimal digits.
    sha256: String,
}

/// Whether this is a name of the files that a backup may hold: `a` or `a/b`, of plain letters.
fn is_plain(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'_' | b'-');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_letter)
    };
    name.len() < 100 && name.split('/').count() <= 2 && name.split('/').all(is_part)
}

/// The number of bytes that one read takes from a member.
const CHUNK: usize = 256 << 10;

/// Copies until the end. Returns the number of bytes and their SHA-256, in hexadecimal digits.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<(u64, String)> {
    let (mut digest, mut bytes, mut part) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let length = match from.read(&mut part) {
            Ok(0) => return Ok((bytes, hex(&digest.finalize()))),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digest.update(&part[..length]);
        to.write_all(&part[..length])?;
        bytes += length as u64;
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
