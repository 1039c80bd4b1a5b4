//! Copies of the whole file.

use super::error::SqliteOpenError;
use super::nodes::lives;
use super::schema::{self, FILE};
use crate::backup::{BackupError, CopiedSchema};
use crate::encryption::{Keyring, Sealing};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::wire::visible::clip;

/// How long a copy waits for a lock of another process.
const BUSY: Duration = Duration::from_secs(5);
/// The remedy when there is a store already.
const ELSEWHERE: &str =
    "name an empty folder by --data, or stop its hosts and move all files of this name away";

/// Copies the store in the data folder `folder` into the new file `to`, as of one moment. Blocks.
///
/// Hosts keep writing meanwhile, since a reader does not block them; the log of the file grows until the copy
/// is complete. The copy holds no free pages, and so no remains of removed tasks.
///
/// # Errors
/// [`BackupError`], also if a page of the store is damaged.
pub fn copy(folder: &Path, to: &Path) -> Result<CopiedSchema, BackupError> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Err(BackupError::NoStore { place: path.display().to_string() });
    }
    let fault = |source| SqliteOpenError::of(path.clone(), source);
    let on = schema::plain(&path, BUSY).map_err(fault)?;
    if schema::version(&on, &path)? == 0 {
        return Err(BackupError::NoStore { place: path.display().to_string() });
    }
    let name = to.to_str().ok_or_else(|| BackupError::damaged(to, "its name is not Unicode"))?;
    on.execute("VACUUM INTO ?1", [name]).map_err(fault)?;
    // The version of the copy, because another process may have upgraded the file since.
    schema_of(&opened(to)?, to)
}

/// The digests of the components that the journals in a copy name. Blocks.
///
/// # Errors
/// [`BackupError`].
pub fn components(copy: &Path) -> Result<Vec<String>, BackupError> {
    let on = opened(copy)?;
    if schema_of(&on, copy)?.number < schema::JOURNALS {
        return Ok(Vec::new());
    }
    let fault = |source| SqliteOpenError::of(copy.to_owned(), source);
    let mut named = on.prepare("SELECT DISTINCT component FROM journal ORDER BY component").map_err(fault)?;
    let named = named.query_map([], |row| row.get::<_, String>(0)).map_err(fault)?;
    let named = named.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    // Another name could lead out of the folder.
    Ok(named.into_iter().filter(|digest| super::components::is_name(digest)).collect())
}

/// Checks a copy before it becomes a store: that it is complete, of a schema that this release knows, and
/// readable with these keys. Blocks.
///
/// # Errors
/// [`BackupError`].
pub fn check(copy: &Path, keys: Option<Arc<Keyring>>) -> Result<CopiedSchema, BackupError> {
    let on = opened(copy)?;
    let found = schema_of(&on, copy)?;
    let fault = |source| SqliteOpenError::of(copy.to_owned(), source);
    let verdict: String = on.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fault)?;
    if verdict != "ok" {
        return Err(BackupError::damaged(copy, verdict));
    }
    // A trigger or a view would act whenever the store is used.
    let mut coded =
        on.prepare("SELECT sql FROM sqlite_schema WHERE type IN ('trigger', 'view')").map_err(fault)?;
    let coded = coded.query_map([], |row| row.get::<_, String>(0)).map_err(fault)?;
    for sql in coded {
        let sql = sql.map_err(fault)?;
        if !schema::MIGRATIONS.iter().any(|script| script.contains(&sql)) {
            return Err(BackupError::damaged(
                copy,
                format!("it has `{}`, which no release makes", clip(&sql, 100)),
            ));
        }
    }
    schema::check_keys(&on, copy, found.number, &Sealing(keys))?;
    Ok(found)
}

/// Checks that the data folder holds no store and that no host uses it.
///
/// # Errors
/// [`BackupError`].
pub fn check_empty(folder: &Path) -> Result<(), BackupError> {
    // SQLite would apply a log that lies beside the restored file.
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = folder.join(format!("{FILE}{end}"));
        if path.symlink_metadata().is_ok() {
            return Err(BackupError::NotEmpty { place: path.display().to_string(), advice: ELSEWHERE });
        }
    }
    let locks = std::fs::read_dir(folder.join("nodes")).into_iter().flatten().flatten();
    let locks =
        locks.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "lock"));
    match locks.into_iter().find(|path| lives(path)) {
        Some(lock) => Err(BackupError::InUse { lock }),
        None => Ok(()),
    }
}

/// The path of the store in a data folder.
#[must_use]
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn opened(copy: &Path) -> Result<Connection, SqliteOpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fault = |source| SqliteOpenError::of(copy.to_owned(), source);
    let on = Connection::open_with_flags(copy, flags).map_err(fault)?;
    // The schema of a file from elsewhere runs no code.
    on.pragma_update(None, "trusted_schema", "OFF").map_err(fault)?;
    on.pragma_update(None, "cell_size_check", "ON").map_err(fault)?;
    Ok(on)
}

fn schema_of(on: &Connection, copy: &Path) -> Result<CopiedSchema, BackupError> {
    match schema::version(on, copy)? {
        0 => Err(BackupError::NoStore { place: copy.display().to_string() }),
        number => Ok(CopiedSchema { number, is_current: number == schema::current() }),
    }
}
