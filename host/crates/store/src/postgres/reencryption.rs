//! Encrypts all values of the schema again with the newest key, or decrypts them. Hosts that have
//! the keys keep running meanwhile.
//!
//! As in SQLite, the old keys are marked first. Then the walk reads every task, event and chunk, and rewrites
//! those that need it, a few in each transaction. Finally, the keys that are still marked are removed. A
//! host that seals with a marked key removes the mark in the same transaction (`SEALED`). Here
//! several hosts write concurrently, so marking waits for them: a transaction that found its key
//! unmarked has ended before the walk begins.
//!
//! Versions stay the same, so that no host gets a hint and no host's change becomes stale. A host
//! that changes a task at that moment waits for the lock on its row, and changes the row that it
//! finds.

use super::PostgresStore;
use super::error::failed;
use super::schema::sealed_with;
use super::transaction::SEALED;
use crate::encryption::{Column, HEAD, RECORD_HEAD, Sealing, sealed_with as sealed_with_key};
use crate::key_id::KeyId;
use crate::reencryption::{MAX_BYTES, MAX_TASKS, ReencryptionReport, SealWith, StoredBody, StoredValues};
use crate::refusal::StoreRefusal;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use toolyard_task::{StoreError, TaskId};
use uuid::Uuid;

/// The number of tasks that are examined at once.
const MAX_EXAMINED: i64 = 256;

/// Hosts that wait for this process give up after five seconds; it gives up before they do.
const PATIENT: &str = "SET lock_timeout = '4s'";
/// Only one process may do this at a time, because it removes the keys that another has marked. The
/// lock is held until the connection ends, by a transaction that writes nothing, so that it does
/// not prevent the cleanup of any row.
const TURN: &str = "
    SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE turn_reseal IN SHARE UPDATE EXCLUSIVE MODE";

/// A transaction that seals locks this table until its end, even if its key already exists. This
/// lock waits for all of them, and later ones wait until the keys are marked.
const ALONE: &str = "LOCK TABLE seal IN SHARE ROW EXCLUSIVE MODE";
/// The key that stays may be marked as well, by an interrupted run that was to remove it.
const MARK: &str = "UPDATE seal SET leaving = (key IS DISTINCT FROM $1::bytea)";
const TAKE_OUT: &str = "DELETE FROM seal WHERE leaving";

/// The heads of values, which identify their keys. The query neither locks nor writes anything,
/// because most tasks may already have the new form.
const HEADS: &str = "
    SELECT id, left(record, $3), substring(arguments FROM 1 FOR $4), substring(outcome FROM 1 FOR $4),
        octet_length(record)::bigint + octet_length(arguments) + coalesce(octet_length(outcome), 0)
    FROM task WHERE id > $1 ORDER BY id LIMIT $2";
/// In the order of their ids, like every statement that locks several.
const VALUES: &str = "
    SELECT id, record, arguments, outcome FROM task WHERE id = ANY($1) ORDER BY id FOR UPDATE";
const UPDATE: &str = "UPDATE task SET record = $2, arguments = $3, outcome = $4 WHERE id = $1";

const LOCK_TASKS: &str = "SELECT FROM task WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// A table with sealed bodies of tasks, each with a number.
struct BodyTable {
    heads: &'static str,
    bodies: &'static str,
    update: &'static str,
    column: fn(i64) -> Column,
}

const EVENTS: BodyTable = BodyTable {
    heads: "
        SELECT task, seq, substring(body FROM 1 FOR $4), octet_length(body)::bigint FROM run_event
        WHERE (task, seq) > ($1, $2) ORDER BY task, seq LIMIT $3",
    bodies: "
        SELECT task, seq, body FROM run_event
        WHERE (task, seq) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[])) ORDER BY task, seq",
    update: "UPDATE run_event SET body = $3 WHERE task = $1 AND seq = $2",
    column: |_| Column::Event,
};

const CHUNKS: BodyTable = BodyTable {
    heads: "
        SELECT task, number, substring(body FROM 1 FOR $4), octet_length(body)::bigint FROM journal_chunk
        WHERE (task, number) > ($1, $2) ORDER BY task, number LIMIT $3",
    bodies: "
        SELECT task, number, body FROM journal_chunk
        WHERE (task, number) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[])) ORDER BY task, number",
    update: "UPDATE journal_chunk SET body = $3 WHERE task = $1 AND number = $2",
    column: |number| Column::Journal { number: u32::try_from(number).unwrap_or(u32::MAX) },
};

impl PostgresStore {
    /// Encrypts every task that is not yet encrypted as `with` says. Calls `progress` with the
    /// number of tasks read. After an interruption, the next call continues with the rest.
    ///
    /// # Errors
    /// [`StoreError`], also while another process does the same. Tasks that were already written
    /// stay as written, and no key is removed.
    pub async fn reseal(
        &self,
        with: SealWith,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<ReencryptionReport, StoreError> {
        // It has its own connections. One of them holds the turn and releases it by closing.
        let on = self.place.client().await.map_err(failed)?;
        let turn = self.place.client().await.map_err(failed)?;
        let mut walk =
            ReencryptionWalk { on, turn, from: self.sealing.clone(), to: with.sealing(&self.sealing) };
        walk.begin().await?;
        let (mut done, mut after) = (ReencryptionReport::default(), Uuid::nil());
        loop {
            let heads = walk.heads(after).await.map_err(failed)?;
            let Some(last) = heads.last() else { break };
            after = last.id;
            done.seen += heads.len() as u64;
            for batch in walk.batches(&heads) {
                if walk.turn.is_closed() {
                    return Err(StoreError::Unavailable(StoreRefusal::LostTurn.into()));
                }
                done.add(walk.rewritten(&batch).await?);
            }
            progress(done.seen);
        }
        for table in [&EVENTS, &CHUNKS] {
            let mut after = Some((Uuid::nil(), i64::MIN));
            while let Some(position) = after {
                if walk.turn.is_closed() {
                    return Err(StoreError::Unavailable(StoreRefusal::LostTurn.into()));
                }
                let (next, unreadable) = walk.next_bodies(table, position).await?;
                done.add(unreadable);
                after = next;
            }
        }
        let all = done.unreadable.is_empty();
        if walk.turn.is_closed() {
            return Err(StoreError::Unavailable(StoreRefusal::LostTurn.into()));
        }
        done.needed = walk.end(all).await.map_err(failed)?;
        Ok(done)
    }
}

/// The part of a task that the walk reads without a lock.
struct Head {
    id: Uuid,
    values: StoredValues,
    /// The full length of its values.
    length: usize,
}

/// The task and the number of a body.
type BodyPosition = (Uuid, i64);

/// A walk over all tasks.
struct ReencryptionWalk {
    on: ClientWrapper,
    turn: ClientWrapper,
    from: Sealing,
    to: Sealing,
}

impl ReencryptionWalk {
    /// Takes the turn and marks the old keys.
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.on.batch_execute(PATIENT).await.map_err(failed)?;
        self.turn.batch_execute(PATIENT).await.map_err(failed)?;
        self.turn.batch_execute(TURN).await.map_err(|error| match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => StoreError::Unavailable(StoreRefusal::Resealing.into()),
            _ => failed(error),
        })?;
        self.mark().await.map_err(failed)
    }

    async fn mark(&mut self) -> Result<(), Error> {
        let key = self.to.key().map(|key| key.0.to_vec());
        let step = self.on.transaction().await?;
        step.batch_execute(ALONE).await?;
        step.execute(MARK, &[&key]).await?;
        step.commit().await
    }

    /// The next tasks, in the order of their ids.
    async fn heads(&self, after: Uuid) -> Result<Vec<Head>, Error> {
        let statement = self.on.prepare_cached(HEADS).await?;
        let (record, value) = (RECORD_HEAD as i32, HEAD as i32);
        let rows = self.on.query(&statement, &[&after, &MAX_EXAMINED, &record, &value]).await?;
        let head = |row: &Row| {
            let length: i64 = row.try_get(4)?;
            Ok(Head { id: row.try_get(0)?, values: values(row)?, length: length.unsigned_abs() as usize })
        };
        rows.iter().map(head).collect()
    }

    /// The tasks that do not have the new form, in batches of one transaction each.
    fn batches(&self, heads: &[Head]) -> Vec<Vec<Uuid>> {
        let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        for head in heads.iter().filter(|head| !head.values.are_sealed_with(self.to.key())) {
            batch.push(head.id);
            bytes += head.length;
            if batch.len() >= MAX_TASKS || bytes >= MAX_BYTES {
                batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            batches.push(batch);
        }
        batches
    }

    /// Writes these tasks. A host that removes and changes tasks in one transaction may lock them
    /// in another order; if the server aborts this transaction because of that, nothing was
    /// written, and it is retried.
    async fn rewritten(&mut self, ids: &[Uuid]) -> Result<ReencryptionReport, StoreError> {
        loop {
            match self.rewrite(ids).await {
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
                done => return done.map_err(failed),
            }
        }
    }

    async fn rewrite(&mut self, ids: &[Uuid]) -> Result<ReencryptionReport, Error> {
        let mut done = ReencryptionReport::default();
        let step = self.on.transaction().await?;
        if let Some(key) = self.to.key() {
            // Before locking a task, as hosts do.
            step.execute(SEALED, &[&&key.0[..]]).await?;
        }
        let (values_of, update) = (step.prepare_cached(VALUES).await?, step.prepare_cached(UPDATE).await?);
        for row in step.query(&values_of, &[&ids]).await? {
            let id: Uuid = row.try_get(0)?;
            // A host may have written it since it was examined.
            if let Some(new) = values(&row)?.anew(TaskId(id), &self.from, &self.to, &mut done) {
                let given: [&(dyn ToSql + Sync); 4] = [&id, &new.record, &new.arguments, &new.outcome];
                step.execute(&update, &given).await?;
            }
        }
        step.commit().await?;
        Ok(done)
    }

    /// Writes the bodies after this one that do not have the new form. Returns the last body that was
    /// examined; `None` after the last body of the table.
    async fn next_bodies(
        &mut self,
        table: &BodyTable,
        after: BodyPosition,
    ) -> Result<(Option<BodyPosition>, ReencryptionReport), StoreError> {
        let statement = self.on.prepare_cached(table.heads).await.map_err(failed)?;
        let given: [&(dyn ToSql + Sync); 4] = [&after.0, &after.1, &MAX_EXAMINED, &(HEAD as i32)];
        let rows = self.on.query(&statement, &given).await.map_err(failed)?;
        let (mut done, mut last) = (ReencryptionReport::default(), None);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for row in &rows {
            let position: BodyPosition = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            let (head, length): (&[u8], i64) =
                (row.try_get(2).map_err(failed)?, row.try_get(3).map_err(failed)?);
            last = Some(position);
            if sealed_with_key(head) == self.to.key() {
                continue;
            }
            batch.push(position);
            bytes += length.unsigned_abs() as usize;
            if batch.len() >= MAX_TASKS || bytes >= MAX_BYTES {
                done.add(self.rewritten_bodies(table, &std::mem::take(&mut batch)).await?);
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            done.add(self.rewritten_bodies(table, &batch).await?);
        }
        Ok((last, done))
    }

    /// As [`ReencryptionWalk::rewritten`], for bodies.
    async fn rewritten_bodies(
        &mut self,
        table: &BodyTable,
        positions: &[BodyPosition],
    ) -> Result<ReencryptionReport, StoreError> {
        loop {
            match self.rewrite_bodies(table, positions).await {
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
                done => return done.map_err(failed),
            }
        }
    }

    async fn rewrite_bodies(
        &mut self,
        table: &BodyTable,
        positions: &[BodyPosition],
    ) -> Result<ReencryptionReport, Error> {
        let mut done = ReencryptionReport::default();
        let (tasks, numbers): (Vec<Uuid>, Vec<i64>) = positions.iter().copied().unzip();
        let step = self.on.transaction().await?;
        if let Some(key) = self.to.key() {
            step.execute(SEALED, &[&&key.0[..]]).await?;
        }
        // Hosts that add or leave out bodies of these tasks wait.
        step.execute(LOCK_TASKS, &[&tasks]).await?;
        let update = step.prepare_cached(table.update).await?;
        for row in step.query(table.bodies, &[&tasks, &numbers]).await? {
            let (task, number): BodyPosition = (row.try_get(0)?, row.try_get(1)?);
            let body = StoredBody(row.try_get(2)?);
            let column = (table.column)(number);
            if let Some(body) = body.anew(TaskId(task), column, &self.from, &self.to, &mut done) {
                step.execute(&update, &[&task, &number, &body.0]).await?;
            }
        }
        step.commit().await?;
        Ok(done)
    }

    /// Removes the keys that are still marked, if `all` tasks were read. Returns the other keys
    /// that are left.
    async fn end(self, all: bool) -> Result<Vec<KeyId>, Error> {
        if all {
            self.on.execute(TAKE_OUT, &[]).await?;
        }
        let mut left = sealed_with(&*self.on).await?;
        left.retain(|key| Some(*key) != self.to.key());
        Ok(left)
    }
}

/// The values of a row, or their heads, after the id.
fn values(row: &Row) -> Result<StoredValues, Error> {
    Ok(StoredValues { record: row.try_get(1)?, arguments: row.try_get(2)?, outcome: row.try_get(3)? })
}
