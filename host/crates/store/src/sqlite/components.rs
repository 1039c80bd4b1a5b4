//! Components in `DATA/components`, one file each, named by its digest. The time of a file is the time at which
//! the component was last put, by the store's clock.

use super::error::SqliteError;
use crate::components::{check, is_old};
use bytes::Bytes;
use rusqlite::{Connection, params};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, StoreError};

const NAMED: &str = "SELECT 1 FROM journal WHERE component = ?1 LIMIT 1";
/// The end of the name of a file that is not complete.
const PARTIAL: &str = ".partial";

/// The name of the folder in the data folder.
pub const FOLDER: &str = "components";

/// Whether this is the name of a complete file.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The folder. Its methods block.
#[derive(Debug, Clone)]
pub(super) struct Components(pub(super) PathBuf);

impl Components {
    pub(super) fn put(&self, digest: &Digest, bytes: &[u8], now: Timestamp) -> Result<(), StoreError> {
        // It also makes sure that the digest is safe as a name.
        check(digest, bytes)?;
        self.write(digest, bytes, now).map_err(unavailable)
    }

    fn write(&self, digest: &Digest, bytes: &[u8], now: Timestamp) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.0.join(&digest.0);
        // A damaged file is replaced.
        if !fs::read(&path).is_ok_and(|found| found == bytes) {
            let partial = self.0.join(format!("{digest}.{}{PARTIAL}", uuid::Uuid::from_u128(chance()?)));
            let written = write_new(&partial, bytes).and_then(|()| fs::rename(&partial, &path));
            if written.is_err() {
                // A later sweep removes it otherwise.
                let _ = fs::remove_file(&partial);
            }
            written?;
        }
        File::open(&path)?.set_modified(time(now))?;
        // The names must be durable as well.
        File::open(&self.0)?.sync_all()?;
        self.0.parent().map_or(Ok(()), |data| File::open(data)?.sync_all())
    }

    pub(super) fn read(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        if !is_name(&digest.0) {
            return Ok(None);
        }
        let bytes = match fs::read(self.0.join(&digest.0)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(unavailable)?,
        };
        check(digest, &bytes)?;
        Ok(Some(bytes.into()))
    }

    /// The files that were put so long ago that they may be removed.
    fn old(&self, now: Timestamp) -> io::Result<Vec<String>> {
        let files = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut old = Vec::new();
        for file in files {
            let file = file?;
            let put = match file.metadata().and_then(|found| found.modified()) {
                // Another process has removed it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                put => timestamp(put?),
            };
            let name = file.file_name().to_string_lossy().into_owned();
            if is_old(put, now) && (is_name(&name) || name.ends_with(PARTIAL)) {
                old.push(name);
            }
        }
        Ok(old)
    }
}

/// Removes the components that nothing needs. Returns how many.
pub(super) fn sweep(
    on: &Connection,
    components: &Components,
    keep: &[Digest],
    now: Timestamp,
) -> Result<u32, SqliteError> {
    let mut removed = 0;
    for digest in keep.iter().filter(|digest| is_name(&digest.0)) {
        match File::open(components.0.join(&digest.0)).and_then(|file| file.set_modified(time(now))) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done.map_err(unavailable)?,
        }
    }
    for name in components.old(now).map_err(unavailable)? {
        let is_component = is_name(&name);
        if is_component && on.prepare_cached(NAMED)?.exists(params![name])? {
            continue;
        }
        match fs::remove_file(components.0.join(&name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => {
                done.map_err(unavailable)?;
                removed += u32::from(is_component);
            }
        }
    }
    Ok(removed)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn chance() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u128::from_le_bytes(bytes))
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.max(0).unsigned_abs())
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.into())
}
