//! Writing a backup.

use super::{HEADER, HEADER_DIGEST, Header, Member, copy, is_plain};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tar::{Builder, EntryType};

/// Packs these files of `folder` as the members of a backup.
///
/// # Errors
/// If a file cannot be read, changes meanwhile or has no plain name, or if the output cannot be written.
pub fn pack(mut header: Header, folder: &Path, names: &[String], out: impl Write) -> io::Result<()> {
    for name in names {
        if !is_plain(name) {
            return Err(io::Error::other(format!("`{name}` cannot be the name of a member")));
        }
        let (bytes, sha256) = copy(File::open(folder.join(name))?, io::sink())?;
        header.members.push(Member { name: name.clone(), bytes, sha256 });
    }
    let text = serde_json::to_string_pretty(&header)? + "\n";
    let (_, digest) = copy(text.as_bytes(), io::sink())?;
    let mut tar = Builder::new(out);
    append(&mut tar, HEADER, text.len() as u64, text.as_bytes())?;
    // As `sha256sum` writes and reads it.
    let line = format!("{digest}  {HEADER}\n");
    append(&mut tar, HEADER_DIGEST, line.len() as u64, line.as_bytes())?;
    for member in &header.members {
        append(&mut tar, &member.name, member.bytes, File::open(folder.join(&member.name))?)?;
    }
    tar.into_inner()?.flush()
}

/// Appends a file that belongs to root and is as old as 1970.
fn append(tar: &mut Builder<impl Write>, name: &str, bytes: u64, from: impl io::Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_cksum();
    tar.append(&header, from)
}
