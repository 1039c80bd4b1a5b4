//! Reading a backup. The file may come from anywhere.

use super::{FORMAT, HEADER, HEADER_DIGEST, Header, MAX_HEADER, MAX_MEMBERS, copy, is_plain};
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use tar::{Archive, Entries, Entry, EntryType};

/// A file that ends early.
const ENDS_EARLY: &str = "it ends early";

/// Reads the header, and unpacks the members into `folder` if `accept` does not refuse it. The files are on the
/// disk, and as they were packed, when this returns.
///
/// # Errors
/// If the file is not a whole backup, byte for byte as it was written, or `accept` refuses it.
pub fn unpack(
    file: impl Read,
    folder: &Path,
    accept: impl FnOnce(&Header) -> anyhow::Result<()>,
) -> anyhow::Result<Header> {
    let mut archive = Archive::new(file);
    // Members are files with short names; any extension of the format counts as a member, which is refused.
    let mut entries = archive.entries().context("it is not a tar")?.raw(true);
    let text = small(&mut entries, HEADER)?;
    let line = small(&mut entries, HEADER_DIGEST)?;
    let (_, digest) = copy(text.as_slice(), io::sink())?;
    ensure!(line == format!("{digest}  {HEADER}\n").as_bytes(), "`{HEADER}` is not as it was written");
    let header = header(&text)?;
    accept(&header)?;
    for member in &header.members {
        let name = &member.name;
        let mut entry = next(&mut entries, name)?;
        ensure!(entry.size() == member.bytes, "`{name}` has another size than `{HEADER}` says");
        let path = folder.join(name);
        let cannot = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(cannot)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(cannot)?;
        let (bytes, sha256) =
            copy(&mut entry, &mut file).with_context(|| format!("cannot unpack `{name}`"))?;
        ensure!(bytes == member.bytes, ENDS_EARLY);
        ensure!(sha256 == member.sha256, "`{name}` is not as it was written");
        file.flush().and_then(|()| file.sync_all()).with_context(cannot)?;
    }
    ensure!(entries.next().is_none(), "it has more members than `{HEADER}` lists");
    Ok(header)
}

fn header(text: &[u8]) -> anyhow::Result<Header> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let cannot = || format!("cannot read `{HEADER}`");
    // First, because a later format may have another header.
    let Format { format } = serde_json::from_slice(text).with_context(cannot)?;
    ensure!(format == FORMAT, "it has format {format}, and this release reads format {FORMAT} only");
    let header: Header = serde_json::from_slice(text).with_context(cannot)?;
    ensure!(header.schema >= 1, "`{HEADER}` names no schema");
    ensure!(header.members.len() <= MAX_MEMBERS, "it has more than {MAX_MEMBERS} members");
    let names: HashSet<&str> = header.names().collect();
    ensure!(names.len() == header.members.len(), "`{HEADER}` lists a member twice");
    if let Some(name) = header.names().find(|name| !is_plain(name)) {
        bail!("`{HEADER}` lists `{name}`, which cannot be the name of a member");
    }
    Ok(header)
}

/// The content of the next member, which is a short one of this name.
fn small(entries: &mut Entries<'_, impl Read>, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut entry = next(entries, name)?;
    let size = entry.size();
    ensure!(size <= MAX_HEADER, "`{name}` is too long");
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).with_context(|| format!("cannot read `{name}`"))?;
    ensure!(bytes.len() as u64 == size, ENDS_EARLY);
    Ok(bytes)
}

/// The next member, which is a file of this name.
fn next<'a, R: Read>(entries: &mut Entries<'a, R>, name: &str) -> anyhow::Result<Entry<'a, R>> {
    let entry = entries.next().context(ENDS_EARLY)?.context("it is not a tar, or it is damaged")?;
    ensure!(
        entry.header().entry_type() == EntryType::Regular && *entry.path_bytes() == *name.as_bytes(),
        "it has no file `{name}` where a backup has one"
    );
    Ok(entry)
}
