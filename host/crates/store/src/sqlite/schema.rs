//! The file: the setup of connections, the tables, and the upgrade of older files.

use super::error::SqliteOpenError;
use crate::encryption::Sealing;
use crate::key_id::KeyId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the file in the data folder.
pub(super) const FILE: &str = "toolyard.sqlite";

/// The name of the copy of an older file, without the number of its schema.
const COPY: &str = "toolyard.sqlite.schema-";
/// The name of the copy until it is complete.
const PART: &str = "toolyard.sqlite.part";

/// "tool", which distinguishes an empty database of this program from one of another program.
const APPLICATION_ID: i64 = 0x746f_6f6c;

/// The settings of every connection, with their reasons.
const PRAGMAS: &[(&str, &str)] = &[
    // Readers and the writer do not wait for each other. This setting is stored in the file.
    ("journal_mode", "WAL"),
    // A commit is on the disk when it returns, and survives a power loss.
    ("synchronous", "FULL"),
    // On macOS a plain fsync leaves data in the drive's cache; elsewhere a no-op.
    ("fullfsync", "ON"),
    // Long arguments are removed with their task.
    ("foreign_keys", "ON"),
    // Functions hidden in an edited schema are not run.
    ("trusted_schema", "OFF"),
    // Damage is noticed when a page is read, before it spreads.
    ("cell_size_check", "ON"),
    // Sorting never leaves files behind.
    ("temp_store", "MEMORY"),
    // 16 MiB of pages: the upper levels of every index of a million tasks.
    ("cache_size", "-16384"),
    // 48 MiB of log before pages are copied back: commits pay for fewer copies of the same pages of
    // the index of ids than with the default of 4 MiB.
    ("wal_autocheckpoint", "12000"),
    // A log that a burst has enlarged is truncated to this size.
    ("journal_size_limit", "67108864"),
];

/// Each entry upgrades a file from the schema of its index to the next one. A released entry is
/// never edited.
pub(super) const MIGRATIONS: &[&str] = &[
    SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5, SCHEMA_6, SCHEMA_7, SCHEMA_8, SCHEMA_9, SCHEMA_10,
    SCHEMA_11,
];

/// Rows have their own number and are not stored by their id: ids are random, rows are long, and
/// inserting long rows at random positions splits pages throughout the table. With numbers, rows
/// are appended, and the index of ids stays small.
///
/// The large columns are last, so that a listing never follows a row into its overflow pages. Long
/// arguments have their own table, since SQLite rewrites a whole row whenever any part of it
/// changes.
///
/// `status <= 2` says that a task is live (`codec::status`).
const SCHEMA_1: &str = include_str!("schema/1.sql");

/// The indexes of searches. Three of them contain the other time as well, so that a window on it is
/// read from the index, not from the table: every change writes them anyway.
/// `task_by_owner_created` is not written at every change, and is unchanged: where it is
/// insufficient, the indexes of all states are used instead.
///
/// `span` is the longest time from the creation of a task to a change of it: with it, a window on
/// one time bounds the other. It never shrinks.
const SCHEMA_2: &str = include_str!("schema/2.sql");

/// Audit entries that wait for their export: one row for each transaction, which contains JSON
/// lines. Numbers are never assigned twice, since the ids of entries contain them; `audit_log`
/// names the file, so that the ids of two files differ. `entries` is the number of entries in a
/// row.
const SCHEMA_3: &str = include_str!("schema/3.sql");

/// Permanent verdicts of users. The verdicts of an anonymous client end with its session, in the
/// transaction that ends the session, whatever ends it.
const SCHEMA_4: &str = include_str!("schema/4.sql");

/// Signed states that were valid for one use and have been used.
const SCHEMA_5: &str = include_str!("schema/5.sql");

/// The keys that seal values: a key is in this table before its first value, and until its last
/// value is gone. `leaving` is set while all values are sealed again, and cleared by a host that
/// still seals with the key.
const SCHEMA_6: &str = include_str!("schema/6.sql");

/// The bytes kept for each task: the lengths of its record, its arguments and its outcome. They are
/// at the end of an index that every change writes anyway, so sums for one owner or for all read
/// the index and not the table.
const SCHEMA_7: &str = include_str!("schema/7.sql");

/// The attempts at tasks, which outlive them, and the events of each, which do not. `bytes` is the length
/// of an attempt's events, so that the bounds on timelines read no events. A body is sealed like
/// arguments; an attempt has no content of a client or a guest.
const SCHEMA_8: &str = include_str!("schema/8.sql");

/// When a parked task is due (`codec::wake`), and the journals of tasks that resume. `incarnation` and
/// `attempt` are the run that may append, or zeros; the commit that moves the fence of a task also moves
/// this one. Chunks have the numbers from `first` to before `next`. A body is sealed like arguments.
const SCHEMA_9: &str = include_str!("schema/9.sql");

/// Attempts and events in the order in which they are written, like tasks. In the order of their task's id, which is
/// random, each change of a task wrote two pages somewhere among those of all tasks: more log for each commit, and
/// more pages to copy back. Events end with their task, so they are stored by its number, which a later task may get;
/// attempts outlive it, and have numbers of their own.
const SCHEMA_10: &str = include_str!("schema/10.sql");

/// Attempts are found by the number of their task's row, which grows, not by its random id, whose index scattered the
/// writes of changes over the file. `task_seq` is null once the task is removed: such attempts have small indexes of
/// their own, so that tidying does not look at those of stored tasks.
const SCHEMA_11: &str = include_str!("schema/11.sql");

/// Creates the folder and the file if they are missing, with rights for the owner only, and
/// upgrades the file to the schema of this release. Returns its path.
///
/// A file with values that none of these keys can open is refused before anything in it is changed.
pub(super) fn prepare(
    folder: &Path,
    busy: Duration,
    sealing: &Sealing,
) -> Result<(PathBuf, Connection), SqliteOpenError> {
    let no_folder = |source| SqliteOpenError::Folder { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(no_folder)?;
    let path = folder.join(FILE);
    // SQLite gives its log and its shared memory the same permissions as the file.
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
    drop(file.map_err(|source: io::Error| SqliteOpenError::NotWritable {
        path: path.clone(),
        source: source.into(),
    })?);

    let fault = |source| SqliteOpenError::of(path.clone(), source);
    let mut connection = plain(&path, busy).map_err(fault)?;
    // Checked before any setting, because some settings are stored in the file, which may belong to
    // another program.
    let found = version(&connection, &path)?;
    check_keys(&connection, &path, found, sealing)?;
    set_up(&connection, busy).map_err(fault)?;
    migrate(&mut connection, &path)?;
    Ok((path, connection))
}

/// The first schema with journals.
pub(super) const JOURNALS: i64 = 9;
/// The first schema with sealed values.
const SEALING: i64 = 6;

/// Refuses a file of the schema `found` with values that none of these keys can open.
pub(super) fn check_keys(
    on: &Connection,
    path: &Path,
    found: i64,
    sealing: &Sealing,
) -> Result<(), SqliteOpenError> {
    if found < SEALING {
        return Ok(());
    }
    let sealed_with = sealed_with(on).map_err(|source| SqliteOpenError::of(path.to_owned(), source))?;
    match sealed_with.into_iter().find(|key| !sealing.opens(*key)) {
        Some(key) => Err(SqliteOpenError::Sealed { path: path.to_owned(), key }),
        None => Ok(()),
    }
}

/// The keys that are needed to read the file.
fn sealed_with(on: &Connection) -> rusqlite::Result<Vec<KeyId>> {
    let mut statement = on.prepare("SELECT key FROM seal ORDER BY key")?;
    let keys = statement.query_map([], |row| row.get(0).map(KeyId))?;
    keys.collect()
}

/// A connection to the prepared file.
pub(super) fn connection(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let connection = plain(path, busy)?;
    set_up(&connection, busy)?;
    Ok(connection)
}

/// The connection needs no mutex, because each one stays on one thread.
pub(super) fn plain(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy)?;
    Ok(connection)
}

fn set_up(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(96);
    // Without this, SQLite plans some statements again each time that values are bound to them. The new plan is no
    // better, because the indexes have no statistics.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // While another process switches a new file to WAL, SQLite returns "busy" without waiting, to
    // avoid a deadlock.
    let until = Instant::now() + busy;
    for (name, value) in PRAGMAS {
        while let Err(error) = connection.pragma_update(None, name, value) {
            if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || Instant::now() >= until {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), SqliteOpenError> {
    let fault = |source| SqliteOpenError::of(path.to_owned(), source);
    let known = current();
    if version(connection, path)? == known {
        return Ok(());
    }
    // A second process waits here and then finds the tables ready.
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    let from = version(&step, path)?;
    if from == known {
        return Ok(());
    }
    if from > 0 {
        let copy = keep_copy(path, from)?;
        tracing::warn!(
            event = "store.upgraded", from, to = known, copy = %copy.display(),
            "store of an earlier release is upgraded"
        );
    }
    for migration in &MIGRATIONS[usize::try_from(from).unwrap_or(0)..] {
        step.execute_batch(migration).map_err(fault)?;
    }
    step.pragma_update(None, "application_id", APPLICATION_ID).map_err(fault)?;
    step.pragma_update(None, "user_version", known).map_err(fault)?;
    step.commit().map_err(fault)
}

/// Copies the file, of the schema `from`, to a file beside it, with which the release that wrote it can go on. The
/// caller's transaction keeps others from writing.
fn keep_copy(path: &Path, from: i64) -> Result<PathBuf, SqliteOpenError> {
    let copy = path.with_file_name(format!("{COPY}{from}"));
    // It has its name only once it is complete and on the disk.
    let part = path.with_file_name(PART);
    let kept = || {
        match std::fs::remove_file(&part) {
            // A crash has left it.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let name = part.to_str().ok_or("its name is not Unicode")?;
        plain(path, Duration::ZERO)?.execute("VACUUM INTO ?1", [name])?;
        file.sync_all()?;
        std::fs::rename(&part, &copy)?;
        std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    };
    kept().map_err(|source| {
        // Its rest would take the room that is missing.
        drop(std::fs::remove_file(&part));
        SqliteOpenError::NotCopied { path: path.to_owned(), copy: copy.clone(), source }
    })?;
    Ok(copy)
}

/// The copies in a data folder that upgrades have kept.
///
/// # Errors
/// If the folder cannot be read.
pub fn kept_copies(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let is_copy = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with(COPY);
    Ok(files.into_iter().filter(is_copy).map(|file| file.path()).collect())
}

/// A single statement reads all three in the same snapshot, because another process may be creating the
/// tables at the moment.
const VERSION: &str = "
    SELECT (SELECT count(*) FROM sqlite_schema),
           (SELECT application_id FROM pragma_application_id),
           (SELECT user_version FROM pragma_user_version)";

/// The schema of this release.
pub(super) const fn current() -> i64 {
    MIGRATIONS.len() as i64
}

/// The schema of the file: 0 for a new file.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<i64, SqliteOpenError> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (tables, application, found): (i64, i64, i64) = connection
        .query_row(VERSION, [], row)
        .map_err(|source| SqliteOpenError::of(path.to_owned(), source))?;
    if application != APPLICATION_ID && (tables > 0 || found != 0) {
        return Err(SqliteOpenError::Foreign { path: path.to_owned() });
    }
    let known = current();
    if found > known || found < 0 {
        return Err(SqliteOpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
