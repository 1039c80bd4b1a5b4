//! Encrypts all values of the file again with the newest key, or decrypts them. Hosts that have the
//! keys keep running meanwhile.
//!
//! The old keys are marked first; then every task is examined, a few in each transaction; finally
//! the keys that are still marked are removed. A transaction that seals with a marked key meanwhile
//! removes the mark (`Counts::sealed`), so that no key is removed while a value needs it.

use super::blocking::blocking;
use super::error::SqliteError;
use super::rows::{self, id};
use super::transaction::SqliteTransaction;
use super::{SqliteStore, schema};
use crate::encryption::Column;
use crate::key_id::KeyId;
use crate::reencryption::{MAX_BYTES, MAX_TASKS, ReencryptionReport, Rekeying, SealWith, StoredValues};
use rusqlite::params;
use std::path::Path;
use std::time::Duration;
use toolyard_task::StoreError;

/// The key that stays may be marked as well, by an interrupted run that was to remove it.
const MARK: &str = "UPDATE seal SET leaving = (key IS NOT ?1)";
const TAKE_OUT: &str = "DELETE FROM seal WHERE leaving = 1";
const OTHERS: &str = "SELECT key FROM seal WHERE key IS NOT ?1 ORDER BY key";
const UPDATE_LONG: &str = "UPDATE arguments SET body = ?2 WHERE task = ?1";

/// The position of a row in its table.
type Position = (i64, i64);

/// A table with sealed values of tasks.
struct SealedTable {
    /// Selects the position of the next rows, the id of their task, and their values.
    next: &'static str,
    update: &'static str,
    /// The column of a body with this number; `None` for the table of tasks.
    column: Option<fn(i64) -> Column>,
}

/// The second number of a position says here whether the arguments are in their own table.
const TASKS: SealedTable = SealedTable {
    next: "
        SELECT seq, arguments IS NULL, id, record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)),
            outcome
        FROM task WHERE seq > ?1 ORDER BY seq LIMIT ?3",
    update: "UPDATE task SET record = ?2, arguments = ?3, outcome = ?4 WHERE seq = ?1",
    column: None,
};

const EVENTS: SealedTable = SealedTable {
    next: "
        SELECT event.task, event.seq, task.id, event.body FROM run_event AS event JOIN task ON task.seq = event.task
        WHERE (event.task, event.seq) > (?1, ?2) ORDER BY event.task, event.seq LIMIT ?3",
    update: "UPDATE run_event SET body = ?3 WHERE task = ?1 AND seq = ?2",
    column: Some(|_| Column::Event),
};

/// The number of a chunk follows from its row, so ?2 selects nothing.
const CHUNKS: SealedTable = SealedTable {
    next: "
        SELECT chunk.seq, chunk.number, task.id, chunk.body FROM journal_chunk AS chunk JOIN task ON task.seq = chunk.task
        WHERE chunk.seq > ?1 ORDER BY chunk.seq LIMIT ?3",
    update: "UPDATE journal_chunk SET body = ?3 WHERE seq = ?1 AND number = ?2",
    column: Some(|number| Column::Journal { number: u32::try_from(number).unwrap_or(u32::MAX) }),
};

/// The most bodies that one transaction examines.
const MAX_BODIES: i64 = 500;

/// Encrypts every task that is not yet encrypted as `with` says.
pub(super) async fn reseal(
    store: &SqliteStore,
    with: SealWith,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<ReencryptionReport, StoreError> {
    let keys = with.rekeying(&store.sealing);
    let key = keys.to.key().map(|key| key.0);
    let mark = move |writing: &mut SqliteTransaction<'_>| {
        // Overwritten values must disappear from the file.
        writing.on.pragma_update(None, "secure_delete", "ON")?;
        writing.execute(MARK, params![key])?;
        writing.counts.forget();
        Ok(())
    };
    store.writer.write(mark).await?;
    let mut done = ReencryptionReport::default();
    for table in [&TASKS, &EVENTS, &CHUNKS] {
        let mut after = Some((i64::MIN, i64::MIN));
        while let Some(position) = after {
            let keys = keys.clone();
            let step = move |writing: &mut SqliteTransaction<'_>| step(writing, table, position, &keys);
            let (last, report) = store.writer.write(step).await?;
            after = last;
            done.add(report);
            progress(done.seen);
        }
    }
    let all = done.unreadable.is_empty();
    let take_out = move |writing: &mut SqliteTransaction<'_>| {
        if all {
            writing.execute(TAKE_OUT, [])?;
        }
        rows::all(writing.on, OTHERS, params![key], |row| Ok(KeyId(row.get(0)?)))
    };
    done.needed = store.writer.write(take_out).await?;
    Ok(done)
}

impl SqliteStore {
    /// Rewrites the file without deleted values and truncates its log. Writers wait meanwhile, and
    /// may give up.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], if there is no room for a second copy, or the file stays in use
    /// for longer than the wait for a lock.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        let (path, busy) = (self.file.0.clone(), self.busy);
        blocking(move || Ok(vacuum(&path, busy)?)).await
    }
}

/// Rewrites the file, and then copies the log back and empties it, because its pages still contain the old values.
fn vacuum(path: &Path, busy: Duration) -> Result<(), SqliteError> {
    let on = schema::connection(path, busy)?;
    on.execute_batch("VACUUM")?;
    match on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))? {
        false => Ok(()),
        true => Err(StoreError::Unavailable("the log is in use".into()).into()),
    }
}

/// Writes the rows after this position that do not have the new form. Returns the last row that was examined; `None` at
/// the end of the table.
fn step(
    writing: &mut SqliteTransaction<'_>,
    table: &SealedTable,
    after: Position,
    keys: &Rekeying,
) -> Result<(Option<Position>, ReencryptionReport), SqliteError> {
    let most = if table.column.is_none() { MAX_TASKS as i64 } else { MAX_BODIES };
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut next = writing.on.prepare_cached(table.next)?;
    let mut rows = next.query(params![after.0, after.1, most])?;
    while bytes < MAX_BYTES
        && let Some(row) = rows.next()?
    {
        let position: Position = (row.get(0)?, row.get(1)?);
        let values = match table.column {
            None => StoredValues::of_task(row.get(3)?, row.get(4)?, row.get(5)?),
            Some(column) => StoredValues::of_body(column(position.1), row.get(3)?),
        };
        bytes += values.length();
        found.push((position, id(row, 2)?, values));
    }
    // No row may change while the walk reads it.
    drop(rows);
    let last = found.last().map(|(position, ..)| *position);
    let mut done = ReencryptionReport::default();
    for (position, id, values) in found {
        done.seen += u64::from(table.column.is_none());
        if let Some(values) = keys.values(id, values, &mut done) {
            write(writing, table, position, values)?;
            writing.counts.sealed(writing.on, keys.to.key())?;
        }
    }
    Ok((last, done))
}

fn write(
    writing: &SqliteTransaction<'_>,
    table: &SealedTable,
    (seq, number): Position,
    values: StoredValues,
) -> Result<(), SqliteError> {
    let StoredValues { record, others: [first, outcome], .. } = values;
    if table.column.is_some() {
        return writing.execute(table.update, params![seq, number, first]).map(drop);
    }
    // Arguments stay in their current table.
    let (long, short) = if number == 0 { (None, first) } else { (first, None) };
    writing.execute(table.update, params![seq, record, short, outcome])?;
    if let Some(long) = long {
        writing.execute(UPDATE_LONG, params![seq, long])?;
    }
    Ok(())
}
