//! Journals in PostgreSQL. An append joins the transaction that other callers of this host share.

use super::error::PostgresError;
use super::rows::{get, number};
use super::transaction::{PostgresTransaction, sealed};
use super::{PostgresStore, components};
use crate::codec::CodecError;
use crate::encryption::Sealing;
use crate::journal_encoding::{ChunkReader, EncodedChunks, StoredFence, decode, fence_columns, fence_in};
use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, JournalHead, JournalStore};
use toolyard_task::store::TaskStore as _;
use toolyard_task::{Digest, Fence, StoreError, Task, TaskId};

const INSERT: &str = "
    INSERT INTO journal (task, incarnation, attempt, first, next, entries, bytes, component)
    VALUES ($1, $2, $3, 0, 0, 0, 0, $4)";

/// An append locks the task before its journal, as a commit does: two hosts never wait for each other.
const APPEND: &str = "
    WITH held AS MATERIALIZED (SELECT id FROM task WHERE id = $1 FOR NO KEY UPDATE),
    moved AS (
        UPDATE journal SET next = $5, entries = entries + $6, bytes = bytes + $7 FROM held
        WHERE journal.task = held.id AND incarnation = $2 AND attempt = $3 AND next = $4
        RETURNING journal.task),
    made AS (
        INSERT INTO journal_chunk (task, number, entries, body)
        SELECT moved.task, $4 + nth - 1, new.entries, new.body
        FROM moved, unnest($8::bigint[], $9::bytea[]) WITH ORDINALITY AS new (entries, body, nth))
    SELECT task FROM moved";
/// In the commit that ends the task, whose run it is.
const APPEND_LAST: &str = "
    WITH moved AS (
        UPDATE journal SET next = $3, entries = entries + $4, bytes = bytes + $5 WHERE task = $1 AND next = $2
        RETURNING task)
    INSERT INTO journal_chunk (task, number, entries, body)
    SELECT moved.task, $2 + nth - 1, new.entries, new.body
    FROM moved, unnest($6::bigint[], $7::bytea[]) WITH ORDINALITY AS new (entries, body, nth)";
const RESTART: &str = "
    WITH held AS MATERIALIZED (SELECT id FROM task WHERE id = $1 FOR NO KEY UPDATE),
    moved AS (
        UPDATE journal SET first = $4, next = $5, entries = entries + $6, bytes = $7 FROM held
        WHERE journal.task = held.id AND incarnation = $2 AND attempt = $3 AND next = $4
        RETURNING journal.task),
    replaced AS (
        DELETE FROM journal_chunk USING moved WHERE journal_chunk.task = moved.task AND number < $4),
    made AS (
        INSERT INTO journal_chunk (task, number, entries, body)
        SELECT moved.task, $4 + nth - 1, new.entries, new.body
        FROM moved, unnest($8::bigint[], $9::bytea[]) WITH ORDINALITY AS new (entries, body, nth))
    SELECT task FROM moved";
const FENCE: &str = "SELECT incarnation, attempt, first, next FROM journal WHERE task = $1";
const STORED: &str = "
    SELECT entries, body FROM journal_chunk WHERE task = $1 AND number >= $2 AND number < $3 ORDER BY number";

const HEAD: &str = "
    SELECT incarnation, attempt, first, next, entries, bytes, component FROM journal WHERE task = $1";
/// A journal without such chunks has one row with nulls. The server reads no bodies to add up their lengths.
const CHUNKS: &str = "
    SELECT journal.first, journal.next, chunk.number, chunk.entries, chunk.body
    FROM journal LEFT JOIN (
        SELECT task, number, entries, body,
            sum(octet_length(body)) OVER (ORDER BY number) - octet_length(body) AS before
        FROM journal_chunk WHERE task = $1 AND number >= $2 ORDER BY number LIMIT $4
    ) AS chunk ON chunk.task = journal.task AND (chunk.before < $3::bigint OR chunk.number = $2)
    WHERE journal.task = $1 ORDER BY chunk.number";
/// The most chunks of one read.
const MAX_CHUNKS: i64 = 4_096;

const DROP_ENDED: &str = "
    DELETE FROM journal WHERE task = (SELECT id FROM task WHERE id = $1 AND status > 2 FOR UPDATE) RETURNING bytes";
const DROP: &str = "
    DELETE FROM journal WHERE task = (SELECT id FROM task WHERE id = $1 FOR UPDATE) RETURNING bytes";

/// Creates the journal of a new task that can resume.
pub(super) async fn insert(writing: &PostgresTransaction<'_>, task: &Task) -> Result<(), PostgresError> {
    if let Some(fence) = task.journal_fence() {
        let (incarnation, attempt) = fence_columns(Some(fence));
        writing.execute(INSERT, &[&task.id.0, &incarnation, &attempt, &task.digest.0]).await?;
    }
    Ok(())
}

/// Appends the last chunks of a task that ends, if they follow the stored ones.
pub(super) async fn append_last(
    writing: &PostgresTransaction<'_>,
    last: &EncodedChunks,
) -> Result<(), PostgresError> {
    let (at, until) = (i64::from(last.at), i64::from(last.until));
    let entries: Vec<i64> = last.entries_of_each().map(i64::from).collect();
    let given: [&(dyn ToSql + Sync); 7] =
        [&last.task.0, &at, &until, &last.entries, &last.bytes, &entries, &last.bodies];
    writing.execute(APPEND_LAST, &given).await.map(drop)
}

#[async_trait]
impl JournalStore for PostgresStore {
    async fn write_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Appended, StoreError> {
        // Always flushed: a server that crashes by itself would lose what the host already builds on.
        let new = EncodedChunks::of(&self.sealing, (task, fence), at, chunks, how)?;
        let new = (new, self.sealing.clone());
        let written = self.writer.write_to(Some(task), new, |writing, (new, sealing)| {
            Box::pin(write_chunks(writing, sealing, new))
        });
        written.await
    }

    async fn journal(&self, task: TaskId) -> Result<Option<JournalHead>, StoreError> {
        let rows = self.readers.rows(HEAD, &[&task.0]).await?;
        rows.first().map(head).transpose()
    }

    async fn chunks(&self, task: TaskId, from: u32, max_bytes: u64) -> Result<Vec<Chunk>, StoreError> {
        let (at, most) = (i64::from(from), number(max_bytes));
        let rows = self.readers.rows(CHUNKS, &[&task.0, &at, &most, &MAX_CHUNKS]).await?;
        let mut reader = ChunkReader::new(&self.sealing, task, from, max_bytes);
        for row in &rows {
            if from < short(row, 0)? {
                return Ok(Vec::new());
            }
            let Some(number) = get(row, 2)? else { return Ok(reader.end(short(row, 1)?)?) };
            reader.add(number, short(row, 3)?, get(row, 4)?)?;
        }
        Ok(reader.chunks)
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
        components::put(self, digest, &bytes).await
    }

    async fn component(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        components::read(self, digest).await
    }

    async fn sweep_components(&self, keep: &[Digest]) -> Result<u32, StoreError> {
        components::sweep(self, keep).await
    }
}

impl PostgresStore {
    async fn drop_by(&self, sql: &'static str, task: TaskId) -> Result<Option<u64>, StoreError> {
        let dropped = self.writer.write_to(Some(task), task.0, move |writing, task| {
            Box::pin(async move { writing.rows(sql, &[task]).await })
        });
        dropped.await?.first().map(|row| get(row, 0).map(i64::unsigned_abs)).transpose()
    }
}

async fn write_chunks(
    writing: &PostgresTransaction<'_>,
    sealing: &Sealing,
    new: &EncodedChunks,
) -> Result<Appended, PostgresError> {
    // Before locking a task, as commits do.
    sealed(writing, sealing.key()).await?;
    let (incarnation, attempt) = fence_columns(Some(new.fence));
    let (at, until) = (i64::from(new.at), i64::from(new.until));
    let entries: Vec<i64> = new.entries_of_each().map(i64::from).collect();
    let sql = if new.replaces { RESTART } else { APPEND };
    let given: [&(dyn ToSql + Sync); 9] =
        [&new.task.0, &incarnation, &attempt, &at, &until, &new.entries, &new.bytes, &entries, &new.bodies];
    let moved = writing.rows(sql, &given).await?;
    if moved.is_empty() { repeated(writing, sealing, new).await } else { Ok(Appended::Done) }
}

/// The answer to an append that does not follow the stored chunks.
async fn repeated(
    writing: &PostgresTransaction<'_>,
    sealing: &Sealing,
    new: &EncodedChunks,
) -> Result<Appended, PostgresError> {
    let rows = writing.rows(FENCE, &[&new.task.0]).await?;
    let stored = rows.first().map(fence).transpose()?;
    if let Some(answer) = new.unless_repeated(stored) {
        return Ok(answer);
    }
    let rows = writing.rows(STORED, &[&new.task.0, &i64::from(new.at), &i64::from(new.until)]).await?;
    let mut found = Vec::new();
    for (number, row) in (new.at..new.until).zip(&rows) {
        found.push(decode(sealing, new.task, number, short(row, 0)?, get(row, 1)?)?);
    }
    Ok(new.compared(&found, stored.map_or(new.at, |stored| stored.next)))
}

fn fence(row: &Row) -> Result<StoredFence, StoreError> {
    let fence = fence_in(get(row, 0)?, short(row, 1)?);
    Ok(StoredFence { fence, first: short(row, 2)?, next: short(row, 3)? })
}

fn head(row: &Row) -> Result<JournalHead, StoreError> {
    let StoredFence { fence, first, next } = fence(row)?;
    let count = |column| get(row, column).map(i64::unsigned_abs);
    let component = Digest(get(row, 6)?);
    Ok(JournalHead { fence, first, next, entries: count(4)?, bytes: count(5)?, component })
}

/// A number of at most 32 bits.
fn short(row: &Row, column: usize) -> Result<u32, StoreError> {
    Ok(u32::try_from(get::<i64>(row, column)?).map_err(|_| CodecError::TooManyChunks)?)
}
