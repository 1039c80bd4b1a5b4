//! Journals in PostgreSQL. An append joins the transaction that other callers of this host share.

use super::error::{corrupt, unreadable};
use super::rows::{count, ids, number, number_of};
use super::transaction::{PostgresTransaction, sealed};
use super::{PostgresStore, components};
use crate::codec::{self, CodecError};
use crate::encryption::Sealing;
use crate::journal_encoding::{ChunkReader, EncodedChunks, StoredFence, decode, fence_columns, fence_in};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use toolyard_task::journal::{Appended, Chunk, Flush, JournalHead, JournalStore};
use toolyard_task::store::TaskStore as _;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Digest, Fence, Owner, StoreError, Task, TaskId};

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
    DELETE FROM journal WHERE task = (SELECT id FROM task WHERE id = $1 AND status > 2 FOR UPDATE)";
const DROP: &str = "DELETE FROM journal WHERE task = (SELECT id FROM task WHERE id = $1 FOR UPDATE)";
const BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM journal";
const BYTES_OF: &str = "
    SELECT coalesce(sum(journal.bytes), 0)::bigint FROM task JOIN journal ON journal.task = task.id
    WHERE task.owner = $1 AND task.status <= 2";
const ENDED: &str = "
    SELECT task.id, journal.bytes FROM journal JOIN task ON task.id = journal.task
    WHERE task.status > 2 ORDER BY task.updated, task.id LIMIT $1";

const ASKING: &str = "SELECT id FROM task WHERE owner = $1 AND status = $2 ORDER BY created, id LIMIT $3";
const PARKED: &str = "SELECT count(*) FROM task WHERE wake IS NOT NULL";
/// Whether any parked task is due: the actual query writes, so it runs only if needed.
const ANY_DUE: &str = "SELECT 1 FROM task WHERE wake <= (SELECT store_time($1)) LIMIT 1";
/// The tasks that have been due for longest take turns by their owners. Those behind them wait, so that this
/// reads few entries of the index, however many tasks are due. Rows that another host has locked are skipped.
const WAKEABLE: &str = "
    WITH clock AS MATERIALIZED (SELECT store_time($1) AS now, engine_time() AS here),
    due AS (
        SELECT id, wake, owner FROM task
        WHERE wake <= (SELECT now FROM clock) AND told <= (SELECT here FROM clock)
        ORDER BY wake, id LIMIT $2),
    chosen AS (
        SELECT id, wake, row_number() OVER (PARTITION BY owner ORDER BY wake, id) AS place FROM due
        ORDER BY place, wake, id LIMIT $3),
    mine AS (
        SELECT task.id, chosen.place, chosen.wake FROM task JOIN chosen ON task.id = chosen.id, clock
        WHERE task.wake <= clock.now AND told <= clock.here
        FOR UPDATE OF task SKIP LOCKED),
    marked AS (UPDATE task SET told = clock.here + $4 FROM mine, clock WHERE task.id = mine.id)
    SELECT id FROM mine ORDER BY place, wake, id";

/// Creates the journal of a new task that can resume.
pub(super) async fn insert(writing: &PostgresTransaction<'_>, task: &Task) -> Result<(), Error> {
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
) -> Result<(), Error> {
    let (at, until) = (i64::from(last.at), i64::from(last.until));
    let entries: Vec<i64> = last.entries_of_each().map(i64::from).collect();
    let given: [&(dyn ToSql + Sync); 7] =
        [&last.task.0, &at, &until, &last.entries, &last.bytes, &entries, &last.bodies];
    writing.execute(APPEND_LAST, &given).await.map(drop)
}

/// Ids of parked tasks that are due. For a while, only this host learns of them.
pub(super) async fn wakeable(store: &PostgresStore, limit: u32) -> Result<Vec<TaskId>, StoreError> {
    let (floor, limit) = (store.state.floor.get(), i64::from(limit));
    if limit == 0 || store.readers.rows(ANY_DUE, &[&floor]).await?.is_empty() {
        return Ok(Vec::new());
    }
    let told = store.writer.write_to(super::waiting::LAST, move |writing| {
        Box::pin(async move {
            let floor = writing.state.floor.get();
            writing.rows(WAKEABLE, &[&floor, &codec::IN_TURNS, &limit, &super::waiting::OFFER_PAUSE_MS]).await
        })
    });
    ids(&told.await?)
}

/// Ids of tasks of an owner with an open question.
pub(super) async fn asking(
    store: &PostgresStore,
    owner: &Owner,
    limit: u32,
) -> Result<Vec<TaskId>, StoreError> {
    let (status, limit) = (number_of(TaskStatus::InputRequired), i64::from(limit));
    ids(&store.readers.rows(ASKING, &[&owner.key().into_bytes(), &status, &limit]).await?)
}

/// How many tasks are parked.
pub(super) async fn count_parked(store: &PostgresStore) -> Result<u64, StoreError> {
    count(&store.readers.rows(PARKED, &[]).await?)
}

#[async_trait]
impl JournalStore for PostgresStore {
    async fn append_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        // Always at once: a server that crashes by itself would lose what the host already builds on.
        _: Flush,
    ) -> Result<Appended, StoreError> {
        let new = EncodedChunks::of(&self.sealing, task, fence, at, chunks).map_err(corrupt)?;
        self.write_chunks(new).await
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
            let number: Option<i64> = row.try_get(2).map_err(unreadable)?;
            match number {
                None => return reader.end(short(row, 1)?).map_err(corrupt),
                Some(number) => {
                    reader
                        .add(number, short(row, 3)?, row.try_get(4).map_err(unreadable)?)
                        .map_err(corrupt)?;
                }
            }
        }
        Ok(reader.chunks)
    }

    async fn restart_journal(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
    ) -> Result<Appended, StoreError> {
        let new = EncodedChunks::of(&self.sealing, task, fence, at, chunks).map_err(corrupt)?;
        self.write_chunks(EncodedChunks { replaces: true, ..new }).await
    }

    async fn drop_journal(&self, task: TaskId) -> Result<bool, StoreError> {
        if self.drop_by(DROP_ENDED, task).await? {
            return Ok(true);
        }
        // A task that cannot resume never can again, so it may be read before the write.
        match self.read(task, None).await? {
            Some(read) if read.task.resume.is_none() => self.drop_by(DROP, task).await,
            _ => Ok(false),
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

    async fn journal_bytes(&self, of: Option<&Owner>) -> Result<u64, StoreError> {
        count(&match of {
            None => self.readers.rows(BYTES, &[]).await?,
            Some(owner) => self.readers.rows(BYTES_OF, &[&owner.key().into_bytes()]).await?,
        })
    }

    async fn ended_journals(&self, limit: u32) -> Result<Vec<(TaskId, u64)>, StoreError> {
        let rows = self.readers.rows(ENDED, &[&i64::from(limit)]).await?;
        let ended = |row: &Row| Ok((TaskId(row.try_get(0)?), row.try_get::<_, i64>(1)?.unsigned_abs()));
        rows.iter().map(|row| ended(row).map_err(unreadable)).collect()
    }
}

impl PostgresStore {
    async fn write_chunks(&self, new: EncodedChunks) -> Result<Appended, StoreError> {
        let new = Arc::new((new, self.sealing.clone()));
        let written = self.writer.write_to(Some(new.0.task), move |writing| {
            let new = new.clone();
            Box::pin(async move { write_chunks(writing, &new.1, &new.0).await })
        });
        written.await?
    }

    async fn drop_by(&self, sql: &'static str, task: TaskId) -> Result<bool, StoreError> {
        let dropped = self.writer.write_to(Some(task), move |writing| {
            Box::pin(async move { writing.execute(sql, &[&task.0]).await })
        });
        Ok(dropped.await? > 0)
    }
}

async fn write_chunks(
    writing: &PostgresTransaction<'_>,
    sealing: &Sealing,
    new: &EncodedChunks,
) -> Result<Result<Appended, StoreError>, Error> {
    // Before locking a task, as commits do.
    sealed(writing, sealing.key()).await?;
    let (incarnation, attempt) = fence_columns(Some(new.fence));
    let (at, until) = (i64::from(new.at), i64::from(new.until));
    let entries: Vec<i64> = new.entries_of_each().map(i64::from).collect();
    let sql = if new.replaces { RESTART } else { APPEND };
    let moved = writing
        .rows(
            sql,
            &[
                &new.task.0,
                &incarnation,
                &attempt,
                &at,
                &until,
                &new.entries,
                &new.bytes,
                &entries,
                &new.bodies,
            ],
        )
        .await?;
    if moved.is_empty() { repeated(writing, sealing, new).await } else { Ok(Ok(Appended::Done)) }
}

/// The answer to an append that does not follow the stored chunks.
async fn repeated(
    writing: &PostgresTransaction<'_>,
    sealing: &Sealing,
    new: &EncodedChunks,
) -> Result<Result<Appended, StoreError>, Error> {
    let rows = writing.rows(FENCE, &[&new.task.0]).await?;
    let stored = match rows.first().map(fence).transpose() {
        Ok(stored) => stored,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(answer) = new.unless_repeated(stored) {
        return Ok(Ok(answer));
    }
    let rows = writing.rows(STORED, &[&new.task.0, &i64::from(new.at), &i64::from(new.until)]).await?;
    let chunk = |(number, row): (u32, &Row)| {
        let body = row.try_get(1).map_err(unreadable)?;
        decode(sealing, new.task, number, short(row, 0)?, body).map_err(corrupt)
    };
    let found = (new.at..new.until).zip(&rows).map(chunk).collect::<Result<Vec<_>, _>>();
    Ok(found.map(|found| new.compared(&found, stored.map_or(new.at, |stored| stored.next))))
}

fn fence(row: &Row) -> Result<StoredFence, StoreError> {
    let fence = fence_in(row.try_get(0).map_err(unreadable)?, short(row, 1)?);
    Ok(StoredFence { fence, first: short(row, 2)?, next: short(row, 3)? })
}

fn head(row: &Row) -> Result<JournalHead, StoreError> {
    let StoredFence { fence, first, next } = fence(row)?;
    let count = |column| row.try_get::<_, i64>(column).map(i64::unsigned_abs).map_err(unreadable);
    let component = Digest(row.try_get(6).map_err(unreadable)?);
    Ok(JournalHead { fence, first, next, entries: count(4)?, bytes: count(5)?, component })
}

/// A number of at most 32 bits.
fn short(row: &Row, column: usize) -> Result<u32, StoreError> {
    let number: i64 = row.try_get(column).map_err(unreadable)?;
    u32::try_from(number).map_err(|_| corrupt(CodecError::TooManyChunks))
}
