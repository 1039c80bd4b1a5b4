//! Encrypts all values of the file again with the newest key, or decrypts them. Hosts that have the
//! keys keep running meanwhile.
//!
//! The old keys are marked first; then every task is examined, a few in each transaction; finally
//! the keys that are still marked are removed. A transaction that seals with a marked key meanwhile
//! removes the mark (`Counts::sealed`), so that no key is removed while a value needs it.

use super::error::failed;
use super::rows::id;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, journal, schema, timeline};
use crate::encryption::Sealing;
use crate::key_id::KeyId;
use crate::reencryption::{MAX_BYTES, MAX_TASKS, ReencryptionReport, SealWith, StoredValues};
use rusqlite::{Connection, Row, params};
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

/// How far one transaction got.
struct ReencryptionStep {
    seq: i64,
    done: ReencryptionReport,
}

impl SqliteStore {
    /// Encrypts every task that is not yet encrypted as `with` says. Calls `progress` with the
    /// number of tasks read.
    ///
    /// # Errors
    /// [`StoreError`]. Tasks that were already written stay as written, and no key is removed.
    pub async fn reseal(
        &self,
        with: SealWith,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<ReencryptionReport, StoreError> {
        let to = with.sealing(&self.sealing);
        let key = to.key().map(|key| key.0);
        let mark = move |writing: &mut SqliteTransaction<'_>| {
            // Overwritten values must disappear from the file.
            writing.on.pragma_update(None, "secure_delete", "ON")?;
            writing.on.prepare_cached(MARK)?.execute(params![key])?;
            writing.counts.forget();
            Ok(())
        };
        self.writer.write(mark).await?;
        let (mut done, mut after) = (ReencryptionReport::default(), Some(i64::MIN));
        while let Some(seq) = after {
            let (from, to) = (self.sealing.clone(), to.clone());
            let step = self.writer.write(move |writing| step(writing, seq, &from, &to)).await?;
            after = (step.done.seen > 0).then_some(step.seq);
            done.add(step.done);
            progress(done.seen);
        }
        let mut after = Some((i64::MIN, i64::MIN));
        while let Some(position) = after {
            let (from, to) = (self.sealing.clone(), to.clone());
            let step = move |writing: &mut SqliteTransaction<'_>| {
                let mut unreadable = ReencryptionReport::default();
                let after = timeline::reseal(writing, position, &from, &to, &mut unreadable)?;
                Ok((after, unreadable))
            };
            let (next, unreadable) = self.writer.write(step).await?;
            done.add(unreadable);
            after = next;
        }
        let mut after = Some(i64::MIN);
        while let Some(seq) = after {
            let (from, to) = (self.sealing.clone(), to.clone());
            let step = move |writing: &mut SqliteTransaction<'_>| {
                let mut unreadable = ReencryptionReport::default();
                let after = journal::reseal(writing, seq, &from, &to, &mut unreadable)?;
                Ok((after, unreadable))
            };
            let (next, unreadable) = self.writer.write(step).await?;
            done.add(unreadable);
            after = next;
        }
        let all = done.unreadable.is_empty();
        let take_out = move |writing: &mut SqliteTransaction<'_>| {
            if all {
                writing.on.prepare_cached(TAKE_OUT)?.execute([])?;
            }
            let mut others = writing.on.prepare_cached(OTHERS)?;
            others.query_map(params![key], |row| row.get(0).map(KeyId))?.collect()
        };
        done.needed = self.writer.write(take_out).await?;
        Ok(done)
    }

    /// Rewrites the file without deleted values and truncates its log. Writers wait meanwhile, and
    /// may give up.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], if there is no room for a second copy, or the file stays in use
    /// for longer than the wait for a lock.
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

/// Copies the log back and empties it. Its pages still contain the old values.
fn cut_log(on: &Connection) -> Result<(), StoreError> {
    let cut = on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    match cut.map_err(failed)? {
        false => Ok(()),
        true => Err(StoreError::Unavailable("the log is in use".into())),
    }
}

fn step(
    writing: &mut SqliteTransaction<'_>,
    after: i64,
    from: &Sealing,
    to: &Sealing,
) -> rusqlite::Result<ReencryptionStep> {
    let mut step = ReencryptionStep { seq: after, done: ReencryptionReport::default() };
    let mut bytes = 0;
    let mut statement = writing.on.prepare_cached(NEXT)?;
    let mut rows = statement.query(params![after])?;
    let mut found = Vec::new();
    while found.len() < MAX_TASKS && bytes < MAX_BYTES {
        let Some(row) = rows.next()? else { break };
        let values = values(row)?;
        bytes += values.length();
        found.push((row.get::<_, i64>(0)?, id(row, 1)?, row.get::<_, bool>(5)?, values));
    }
    // No row may change while the walk reads it.
    drop(rows);
    for (seq, id, apart, values) in found {
        step.seq = seq;
        step.done.seen += 1;
        if let Some(values) = values.anew(id, from, to, &mut step.done) {
            write(writing.on, seq, apart, values)?;
        }
    }
    if step.done.written > 0 {
        writing.counts.sealed(writing.on, to.key())?;
    }
    Ok(step)
}

fn values(row: &Row<'_>) -> rusqlite::Result<StoredValues> {
    Ok(StoredValues { record: row.get(2)?, arguments: row.get(3)?, outcome: row.get(4)? })
}

/// Arguments stay in their current table.
fn write(on: &Connection, seq: i64, apart: bool, values: StoredValues) -> rusqlite::Result<()> {
    let (long, short) = if apart { (values.arguments, None) } else { (None, values.arguments) };
    on.prepare_cached(UPDATE)?.execute(params![seq, values.record, short, values.outcome])?;
    if let Some(long) = long {
        on.prepare_cached(UPDATE_LONG)?.execute(params![seq, long])?;
    }
    Ok(())
}
