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
const NEXT: &str = "
    SELECT seq, id, record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)), outcome,
        arguments IS NULL
    FROM task WHERE seq > ?1 ORDER BY seq";
const UPDATE: &str = "UPDATE task SET record = ?2, arguments = ?3, outcome = ?4 WHERE seq = ?1";
const UPDATE_LONG: &str = "UPDATE arguments SET body = ?2 WHERE task = ?1";

/// The position of a row in its table.
type Position = (i64, i64);

/// A table with sealed bodies of tasks.
struct BodyTable {
    /// Selects the position, the body and the id of the task.
    next: &'static str,
    update: &'static str,
    column: fn(i64) -> Column,
}

const EVENTS: BodyTable = BodyTable {
    next: "
        SELECT event.task, event.seq, event.body, task.id FROM run_event AS event JOIN task ON task.seq = event.task
        WHERE (event.task, event.seq) > (?1, ?2) ORDER BY event.task, event.seq LIMIT ?3",
    update: "UPDATE run_event SET body = ?3 WHERE task = ?1 AND seq = ?2",
    column: |_| Column::Event,
};

/// The number of a chunk follows from its row, so ?2 selects nothing.
const CHUNKS: BodyTable = BodyTable {
    next: "
        SELECT chunk.seq, chunk.number, chunk.body, task.id FROM journal_chunk AS chunk JOIN task ON task.seq = chunk.task
        WHERE chunk.seq > ?1 ORDER BY chunk.seq LIMIT ?3",
    update: "UPDATE journal_chunk SET body = ?3 WHERE seq = ?1 AND number = ?2",
    column: |number| Column::Journal { number: u32::try_from(number).unwrap_or(u32::MAX) },
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
    let steps: [Step; 3] = [
        step_tasks,
        |writing, after, keys, done| step_bodies(writing, &EVENTS, after, keys, done),
        |writing, after, keys, done| step_bodies(writing, &CHUNKS, after, keys, done),
    ];
    for step in steps {
        let mut after = Some((i64::MIN, i64::MIN));
        while let Some(position) = after {
            let keys = keys.clone();
            let step = move |writing: &mut SqliteTransaction<'_>| {
                let mut report = ReencryptionReport::default();
                let last = step(writing, position, &keys, &mut report)?;
                Ok((last, report))
            };
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

/// The rows after this position, in one transaction. Returns the last one that was examined; `None` at the end of the
/// table.
type Step = fn(
    &mut SqliteTransaction<'_>,
    Position,
    &Rekeying,
    &mut ReencryptionReport,
) -> Result<Option<Position>, SqliteError>;

fn step_tasks(
    writing: &mut SqliteTransaction<'_>,
    (after, _): Position,
    keys: &Rekeying,
    done: &mut ReencryptionReport,
) -> Result<Option<Position>, SqliteError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut next = writing.on.prepare_cached(NEXT)?;
    let mut rows = next.query(params![after])?;
    while found.len() < MAX_TASKS
        && bytes < MAX_BYTES
        && let Some(row) = rows.next()?
    {
        let values = StoredValues { record: row.get(2)?, arguments: row.get(3)?, outcome: row.get(4)? };
        bytes += values.length();
        found.push((row.get::<_, i64>(0)?, id(row, 1)?, row.get(5)?, values));
    }
    // No row may change while the walk reads it.
    drop(rows);
    let last = found.last().map(|(seq, ..)| (*seq, 0));
    for (seq, id, apart, values) in found {
        done.seen += 1;
        if let Some(values) = keys.values(id, values, done) {
            write(writing, seq, apart, values)?;
            writing.counts.sealed(writing.on, keys.to.key())?;
        }
    }
    Ok(last)
}

fn step_bodies(
    writing: &mut SqliteTransaction<'_>,
    table: &BodyTable,
    after: Position,
    keys: &Rekeying,
    done: &mut ReencryptionReport,
) -> Result<Option<Position>, SqliteError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut next = writing.on.prepare_cached(table.next)?;
    let mut rows = next.query(params![after.0, after.1, MAX_BODIES])?;
    while bytes < MAX_BYTES
        && let Some(row) = rows.next()?
    {
        let body: Vec<u8> = row.get(2)?;
        bytes += body.len();
        found.push(((row.get(0)?, row.get(1)?), id(row, 3)?, body));
    }
    // As above.
    drop(rows);
    let last = found.last().map(|(position, ..)| *position);
    for (position, id, body) in found {
        if let Some(body) = keys.body(id, (table.column)(position.1), body, done) {
            writing.execute(table.update, params![position.0, position.1, body])?;
            writing.counts.sealed(writing.on, keys.to.key())?;
        }
    }
    Ok(last)
}

/// Arguments stay in their current table.
fn write(
    writing: &SqliteTransaction<'_>,
    seq: i64,
    apart: bool,
    values: StoredValues,
) -> Result<(), SqliteError> {
    let (long, short) = if apart { (values.arguments, None) } else { (None, values.arguments) };
    writing.execute(UPDATE, params![seq, values.record, short, values.outcome])?;
    if let Some(long) = long {
        writing.execute(UPDATE_LONG, params![seq, long])?;
    }
    Ok(())
}
