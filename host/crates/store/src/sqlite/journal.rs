//! Journals in SQLite. An append joins the transaction that other callers share.

use super::blocking::blocking;
use super::error::SqliteError;
use super::rows;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, components};
use crate::encryption::Sealing;
use crate::journal_encoding::{ChunkReader, EncodedChunks, StoredFence, decode, fence_columns, fence_in};
use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, Row, params};
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, JournalHead, JournalStore};
use toolyard_task::store::TaskStore as _;
use toolyard_task::{Digest, Fence, StoreError, TaskId};

const INSERT: &str = "
    INSERT INTO journal (task, incarnation, attempt, first, next, entries, bytes, component)
    VALUES (?1, ?2, ?3, 0, 0, 0, 0, ?4)";
/// Most changes do not move the fence, and then nothing is written.
const MOVE_FENCE: &str = "
    UPDATE journal SET incarnation = ?2, attempt = ?3 WHERE task = ?1 AND (incarnation <> ?2 OR attempt <> ?3)";

const APPEND: &str = "
    UPDATE journal SET next = ?5, entries = entries + ?6, bytes = bytes + ?7
    WHERE task = (SELECT seq FROM task WHERE id = ?1) AND incarnation = ?2 AND attempt = ?3 AND next = ?4
    RETURNING task";
/// In the commit that ends the task, whose run it is.
const APPEND_LAST: &str = "
    UPDATE journal SET next = ?3, entries = entries + ?4, bytes = bytes + ?5 WHERE task = ?1 AND next = ?2";
const RESTART: &str = "
    UPDATE journal SET first = ?4, next = ?5, entries = entries + ?6, bytes = ?7
    WHERE task = (SELECT seq FROM task WHERE id = ?1) AND incarnation = ?2 AND attempt = ?3 AND next = ?4
    RETURNING task";
const REPLACE: &str = "DELETE FROM journal_chunk WHERE task = ?1 AND number < ?2";
const INSERT_CHUNK: &str = "INSERT INTO journal_chunk (task, number, entries, body) VALUES (?1, ?2, ?3, ?4)";
const FENCE: &str = "
    SELECT incarnation, attempt, first, next FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?1)";

const HEAD: &str = "
    SELECT incarnation, attempt, first, next, entries, bytes, component FROM journal
    WHERE task = (SELECT seq FROM task WHERE id = ?1)";
/// A journal without such chunks has one row with nulls.
const CHUNKS: &str = "
    SELECT journal.first, journal.next, journal_chunk.number, journal_chunk.entries, journal_chunk.body
    FROM journal LEFT JOIN journal_chunk ON journal_chunk.task = journal.task AND journal_chunk.number >= ?2
    WHERE journal.task = (SELECT seq FROM task WHERE id = ?1) ORDER BY journal_chunk.number";

const DROP_ENDED: &str = "
    DELETE FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?1 AND status > 2) RETURNING bytes";
const DROP: &str = "DELETE FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?1) RETURNING bytes";

/// Creates the journal of a new task, in the row `seq`.
pub(super) fn insert(
    writing: &SqliteTransaction<'_>,
    seq: i64,
    fence: Fence,
    component: &Digest,
) -> Result<(), SqliteError> {
    let (incarnation, attempt) = fence_columns(Some(fence));
    writing.execute(INSERT, params![seq, incarnation, attempt, component.0]).map(drop)
}

/// Lets this run append to the journal of a task, in the row `seq`, and no other one.
pub(super) fn move_fence(
    writing: &SqliteTransaction<'_>,
    seq: i64,
    fence: (i64, i64),
) -> Result<(), SqliteError> {
    writing.execute(MOVE_FENCE, params![seq, fence.0, fence.1]).map(drop)
}

/// Appends the last chunks of the task in the row `seq`, which ends, if they follow the stored ones.
pub(super) fn append_last(
    writing: &SqliteTransaction<'_>,
    seq: i64,
    last: &EncodedChunks,
) -> Result<(), SqliteError> {
    match writing.execute(APPEND_LAST, params![seq, last.at, last.until, last.entries, last.bytes])? {
        0 => Ok(()),
        _ => insert_chunks(writing.on, seq, last),
    }
}

fn insert_chunks(on: &Connection, journal: i64, new: &EncodedChunks) -> Result<(), SqliteError> {
    let mut insert = on.prepare_cached(INSERT_CHUNK)?;
    for ((number, entries), body) in (new.at..).zip(new.entries_of_each()).zip(&new.bodies) {
        insert.execute(params![journal, number, entries, body])?;
    }
    Ok(())
}

#[async_trait]
impl JournalStore for SqliteStore {
    async fn write_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Appended, StoreError> {
        let new = EncodedChunks::of(&self.sealing, (task, fence), at, chunks, how)?;
        let sealing = self.sealing.clone();
        fail_point!("append", "before");
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let written = write_chunks(writing, &sealing, &new)?;
            fail_point!("append", "uncommitted", written == Appended::Done);
            Ok(written)
        };
        let written = self.writer.write_by(how.flush(), operation).await?;
        fail_point!("append", "committed", written == Appended::Done);
        Ok(written)
    }

    async fn journal(&self, task: TaskId) -> Result<Option<JournalHead>, StoreError> {
        self.readers.read(move |on| rows::first(on, HEAD, params![task.0.as_bytes()], head)).await
    }

    async fn chunks(&self, task: TaskId, from: u32, max_bytes: u64) -> Result<Vec<Chunk>, StoreError> {
        let sealing = self.sealing.clone();
        self.readers.read(move |on| chunks(on, &sealing, task, from, max_bytes)).await
    }

    async fn drop_journal(&self, task: TaskId) -> Result<Option<u64>, StoreError> {
        let dropped = self.drop_by(DROP_ENDED, task).await?;
        if dropped.is_some() {
            return Ok(dropped);
        }
        // A task that cannot resume never can again, so it may be read before the write.
        match self.read(task, None).await? {
            Some(read) if read.task.resume.is_none() => self.drop_by(DROP, task).await,
            _ => Ok(None),
        }
    }

    async fn put_component(&self, digest: &Digest, bytes: Bytes) -> Result<(), StoreError> {
        let (components, digest, now) = (self.components.clone(), digest.clone(), self.state.clock.now());
        blocking(move || components.put(&digest, &bytes, now)).await
    }

    async fn component(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let (components, digest) = (self.components.clone(), digest.clone());
        blocking(move || components.read(&digest)).await
    }

    async fn sweep_components(&self, keep: &[Digest]) -> Result<u32, StoreError> {
        let (components, keep, now) = (self.components.clone(), keep.to_vec(), self.state.clock.now());
        self.readers.read(move |on| components::sweep(on, &components, &keep, now)).await
    }
}

impl SqliteStore {
    async fn drop_by(&self, sql: &'static str, task: TaskId) -> Result<Option<u64>, StoreError> {
        let bytes = |row: &Row<'_>| Ok(row.get::<_, i64>(0)?.unsigned_abs());
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            rows::first(writing.on, sql, params![task.0.as_bytes()], bytes)
        };
        self.writer.write(operation).await
    }
}

fn write_chunks(
    writing: &mut SqliteTransaction<'_>,
    sealing: &Sealing,
    new: &EncodedChunks,
) -> Result<Appended, SqliteError> {
    let (incarnation, attempt) = fence_columns(Some(new.fence));
    let sql = if new.replaces { RESTART } else { APPEND };
    let id = new.task.0.as_bytes();
    let given = params![id, incarnation, attempt, new.at, new.until, new.entries, new.bytes];
    let journal = rows::first(writing.on, sql, given, |row| Ok(row.get::<_, i64>(0)?))?;
    let Some(journal) = journal else { return repeated(writing.on, sealing, new) };
    if new.replaces {
        writing.execute(REPLACE, params![journal, new.at])?;
    }
    insert_chunks(writing.on, journal, new)?;
    writing.counts.sealed(writing.on, sealing.key())?;
    Ok(Appended::Done)
}

/// The answer to an append that does not follow the stored chunks.
fn repeated(on: &Connection, sealing: &Sealing, new: &EncodedChunks) -> Result<Appended, SqliteError> {
    let fence = |row: &Row<'_>| {
        let fence = fence_in(row.get(0)?, row.get(1)?);
        Ok(StoredFence { fence, first: row.get(2)?, next: row.get(3)? })
    };
    let stored = rows::first(on, FENCE, params![new.task.0.as_bytes()], fence)?;
    if let Some(answer) = new.unless_repeated(stored) {
        return Ok(answer);
    }
    let mut found = Vec::new();
    let mut statement = on.prepare_cached(CHUNKS)?;
    let mut rows = statement.query(params![new.task.0.as_bytes(), new.at])?;
    for number in new.at..new.until {
        let Some(row) = rows.next()? else { break };
        found.push(decode(sealing, new.task, number, row.get(3)?, row.get(4)?)?);
    }
    Ok(new.compared(&found, stored.map_or(new.at, |stored| stored.next)))
}

fn head(row: &Row<'_>) -> Result<JournalHead, SqliteError> {
    Ok(JournalHead {
        fence: fence_in(row.get(0)?, row.get(1)?),
        first: row.get(2)?,
        next: row.get(3)?,
        entries: row.get::<_, i64>(4)?.unsigned_abs(),
        bytes: row.get::<_, i64>(5)?.unsigned_abs(),
        component: Digest(row.get(6)?),
    })
}

fn chunks(
    on: &Connection,
    sealing: &Sealing,
    task: TaskId,
    from: u32,
    max_bytes: u64,
) -> Result<Vec<Chunk>, SqliteError> {
    let mut statement = on.prepare_cached(CHUNKS)?;
    let mut rows = statement.query(params![task.0.as_bytes(), from])?;
    let mut reader = ChunkReader::new(sealing, task, from, max_bytes);
    let mut end = 0;
    while let Some(row) = rows.next()? {
        if from < row.get::<_, u32>(0)? {
            return Ok(Vec::new());
        }
        end = row.get(1)?;
        let Some(number) = row.get(2)? else { break };
        if !reader.add(number, row.get(3)?, row.get(4)?)? {
            return Ok(reader.chunks);
        }
    }
    Ok(reader.end(end)?)
}
