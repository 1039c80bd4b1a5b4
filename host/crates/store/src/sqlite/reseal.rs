//! Writing all values of the file anew: with the newest key, or plain. Hosts go on
//! beside it, in as far as they have the keys.
//!
//! A key that is to go is marked; then every task is looked at, a few in one
//! transaction; then the keys that are marked still are taken out. Whoever seals with
//! one meanwhile takes the mark away in the same transaction (`Counts::sealed`), so
//! that a key is never taken out while there is a value that needs it.

use super::error::{corrupt, failed};
use super::tasks::id;
use super::writer::Writing;
use super::{SqliteStore, schema};
use crate::codec::CodecError;
use crate::seal::{Column, KeyId, Sealing, record_sealed_with, sealed_with};
use rusqlite::{Connection, Row, params};
use toolyard_task::TaskId;
use toolyard_task::store::StoreError;

/// Tasks that are written in one transaction, at most, and the bytes after which
/// there are enough of them: hosts wait for no longer than that takes.
const ROWS: usize = 64;
const ENOUGH: usize = 1 << 20;

const MARK: &str = "UPDATE seal SET leaving = 1 WHERE key IS NOT ?1";
const TAKE_OUT: &str = "DELETE FROM seal WHERE leaving = 1";
const OTHERS: &str = "SELECT key FROM seal WHERE key IS NOT ?1 ORDER BY key";
const NEXT: &str = "
    SELECT seq, id, record, arguments, (SELECT body FROM arguments WHERE task = seq), outcome
    FROM task WHERE seq > ?1 ORDER BY seq";
const UPDATE: &str = "UPDATE task SET record = ?2, arguments = ?3, outcome = ?4 WHERE seq = ?1";
const UPDATE_LONG: &str = "UPDATE arguments SET body = ?2 WHERE task = ?1";

/// How values are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealWith {
    /// Encrypted with the newest key.
    Newest,
    /// Not encrypted.
    Nothing,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Tasks that were looked at.
    pub seen: u64,
    /// Tasks that were written anew.
    pub written: u64,
    /// Tasks that cannot be read, and stay as they are.
    pub unreadable: Vec<TaskId>,
    /// Other keys that are needed still: by these tasks, or because another process
    /// seals with them.
    pub needed: Vec<KeyId>,
}

/// How far one transaction got.
struct Step {
    seq: i64,
    seen: u64,
    written: u64,
    unreadable: Vec<TaskId>,
}

impl SqliteStore {
    /// Writes every task anew that is not sealed as it is to be. `progress` is told how
    /// many have been looked at.
    ///
    /// # Errors
    /// [`StoreError`]. What was written until then stays so, and no key is taken out.
    pub async fn reseal(
        &self,
        with: SealWith,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Resealed, StoreError> {
        let to = match with {
            SealWith::Newest => self.sealing.clone(),
            SealWith::Nothing => Sealing::default(),
        };
        let key = to.key().map(|key| key.0);
        let mark = move |writing: &mut Writing<'_>| {
            // What is overwritten is to be gone from the file.
            writing.on.pragma_update(None, "secure_delete", "ON")?;
            writing.on.prepare_cached(MARK)?.execute(params![key])?;
            writing.counts.forget();
            Ok(())
        };
        self.writer.write(mark).await?;
        let (mut done, mut after) = (Resealed::default(), Some(i64::MIN));
        while let Some(seq) = after {
            let (from, to) = (self.sealing.clone(), to.clone());
            let step = self.writer.write(move |writing| step(writing, seq, &from, &to)).await?;
            after = (step.seen > 0).then_some(step.seq);
            done.seen += step.seen;
            done.written += step.written;
            done.unreadable.extend(step.unreadable);
            progress(done.seen);
        }
        let all = done.unreadable.is_empty();
        let take_out = move |writing: &mut Writing<'_>| {
            if all {
                writing.on.prepare_cached(TAKE_OUT)?.execute([])?;
            }
            let mut others = writing.on.prepare_cached(OTHERS)?;
            others.query_map(params![key], |row| row.get(0).map(KeyId))?.collect()
        };
        done.needed = self.writer.write(take_out).await?;
        Ok(done)
    }

    /// Writes the file anew without what was deleted in it before, and cuts its log
    /// back. Whoever writes waits meanwhile, and may give up.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], if there is no room for a second copy, or the file
    /// is in use for longer than a lock is waited for.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        let (path, busy) = (self.file.0.clone(), self.busy);
        let vacuum = move || {
            let on = schema::connection(&path, busy).map_err(failed)?;
            on.execute_batch("VACUUM").map_err(failed)?;
            cut_log(&on)
        };
        let done = tokio::task::spawn_blocking(vacuum).await;
        done.map_err(|error| StoreError::Unavailable(error.into()))?
    }
}

/// Copies the log back and empties it. Its pages are of the time before.
fn cut_log(on: &Connection) -> Result<(), StoreError> {
    let cut = on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    match cut.map_err(failed)? {
        false => Ok(()),
        true => Err(StoreError::Unavailable("the log is in use".into())),
    }
}

fn step(writing: &mut Writing<'_>, after: i64, from: &Sealing, to: &Sealing) -> rusqlite::Result<Step> {
    let mut step = Step { seq: after, seen: 0, written: 0, unreadable: Vec::new() };
    let mut bytes = 0;
    let mut statement = writing.on.prepare_cached(NEXT)?;
    let mut rows = statement.query(params![after])?;
    let mut found = Vec::new();
    while found.len() < ROWS && bytes < ENOUGH {
        let Some(row) = rows.next()? else { break };
        let values = Values::of(row)?;
        bytes += values.length();
        found.push((row.get::<_, i64>(0)?, id(row, 1)?, values));
    }
    // No row may change while the walk stands on it.
    drop(rows);
    for (seq, id, values) in found {
        step.seq = seq;
        step.seen += 1;
        if values.are_sealed_with(to.key()) {
            continue;
        }
        match values.resealed(id, from, to) {
            Ok(values) => values.write(writing.on, seq)?,
            Err(error) => {
                tracing::error!(task = %id, error = &corrupt(error) as &dyn std::error::Error, "left as it is");
                step.unreadable.push(id);
                continue;
            }
        }
        step.written += 1;
    }
    if step.written > 0 {
        writing.counts.sealed(writing.on, to.key())?;
    }
    Ok(step)
}

/// What is sealed of a task, if anything is.
struct Values {
    record: String,
    arguments: Option<Vec<u8>>,
    long: Option<Vec<u8>>,
    outcome: Option<Vec<u8>>,
}

impl Values {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { record: row.get(2)?, arguments: row.get(3)?, long: row.get(4)?, outcome: row.get(5)? })
    }

    fn others(&self) -> impl Iterator<Item = &Vec<u8>> {
        [&self.arguments, &self.long, &self.outcome].into_iter().flatten()
    }

    fn length(&self) -> usize {
        self.record.len() + self.others().map(Vec::len).sum::<usize>()
    }

    fn are_sealed_with(&self, key: Option<KeyId>) -> bool {
        record_sealed_with(&self.record) == key && self.others().all(|value| sealed_with(value) == key)
    }

    fn resealed(self, id: TaskId, from: &Sealing, to: &Sealing) -> Result<Self, CodecError> {
        let anew = |column, value: Option<Vec<u8>>| -> Result<_, CodecError> {
            let Some(value) = value else { return Ok(None) };
            let plain = from.open(id, column, value)?;
            Ok(Some(to.bytes(id, column, plain)?.into_owned()))
        };
        let record = from.open_record(id, &self.record)?.into_owned();
        Ok(Self {
            record: to.record(id, record)?,
            arguments: anew(Column::Arguments, self.arguments)?,
            long: anew(Column::Arguments, self.long)?,
            outcome: anew(Column::Outcome, self.outcome)?,
        })
    }

    /// Arguments stay in the table that they stand in.
    fn write(&self, on: &Connection, seq: i64) -> rusqlite::Result<()> {
        on.prepare_cached(UPDATE)?.execute(params![seq, self.record, self.arguments, self.outcome])?;
        if let Some(long) = &self.long {
            on.prepare_cached(UPDATE_LONG)?.execute(params![seq, long])?;
        }
        Ok(())
    }
}
