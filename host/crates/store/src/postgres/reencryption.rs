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
use crate::encryption::{Column, HEAD};
use crate::key_id::KeyId;
use crate::reencryption::{MAX_BYTES, MAX_TASKS, ReencryptionReport, Rekeying, SealWith, StoredValues};
use crate::refusal::StoreRefusal;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use toolyard_task::{StoreError, TaskId};
use uuid::Uuid;

/// The number of rows that are examined at once.
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

/// The statements of a walk over a table with sealed values of tasks. Two columns are the position of a row: its task
/// and a number.
struct SealedTable {
    /// Selects the position and the length of the next rows, and the heads of their values, which identify their keys.
    /// The query neither locks nor writes anything, because most rows may already have the new form.
    heads: &'static str,
    /// Selects the position and the values of some rows. In the order of their ids, like every statement that locks
    /// several.
    values: &'static str,
    update: &'static str,
    /// The column of a body with this number; `None` for the table of tasks.
    column: Option<fn(i64) -> Column>,
}

/// A row has no number of its own here. A record is text: four characters for three bytes.
const TASKS: SealedTable = SealedTable {
    heads: "
        SELECT id, $2::bigint,
            octet_length(record)::bigint + octet_length(arguments) + coalesce(octet_length(outcome), 0),
            left(record, ($4 + 2) / 3 * 4), substring(arguments FROM 1 FOR $4), substring(outcome FROM 1 FOR $4)
        FROM task WHERE id > $1 ORDER BY id LIMIT $3",
    values: "
        SELECT id, 0::bigint, record, arguments, outcome FROM task
        WHERE id = ANY($1) AND $2::bigint[] IS NOT NULL ORDER BY id",
    update: "UPDATE task SET record = $2, arguments = $3, outcome = $4 WHERE id = $1",
    column: None,
};

const EVENTS: SealedTable = SealedTable {
    heads: "
        SELECT task.id, event.seq, octet_length(body)::bigint, substring(body FROM 1 FOR $4)
        FROM task JOIN run_event AS event ON event.task = task.seq
        WHERE task.id >= $1 AND (task.id, event.seq) > ($1, $2) ORDER BY task.id, event.seq LIMIT $3",
    values: "
        SELECT task.id, event.seq, body FROM unnest($1::uuid[], $2::bigint[]) AS wanted (id, number)
        JOIN task USING (id) JOIN run_event AS event ON event.task = task.seq AND event.seq = number
        ORDER BY task.id, event.seq",
    update: "
        UPDATE run_event SET body = $3 FROM task
        WHERE task.id = $1 AND run_event.task = task.seq AND run_event.seq = $2",
    column: Some(|_| Column::Event),
};

const CHUNKS: SealedTable = SealedTable {
    heads: "
        SELECT task, number, octet_length(body)::bigint, substring(body FROM 1 FOR $4) FROM journal_chunk
        WHERE (task, number) > ($1, $2) ORDER BY task, number LIMIT $3",
    values: "
        SELECT task, number, body FROM journal_chunk
        WHERE (task, number) IN (SELECT * FROM unnest($1::uuid[], $2::bigint[])) ORDER BY task, number",
    update: "UPDATE journal_chunk SET body = $3 WHERE task = $1 AND number = $2",
    column: Some(|number| Column::Journal { number: u32::try_from(number).unwrap_or(u32::MAX) }),
};

const LOCK_TASKS: &str = "SELECT FROM task WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// Encrypts every task that is not yet encrypted as `with` says. After an interruption, the next call
/// continues with the rest. Fails also while another process does the same.
pub(super) async fn reseal(
    store: &PostgresStore,
    with: SealWith,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<ReencryptionReport, StoreError> {
    // It has its own connections. One of them holds the turn and releases it by closing.
    let on = store.place.client().await.map_err(failed)?;
    let turn = store.place.client().await.map_err(failed)?;
    let mut walk = ReencryptionWalk { on, turn, keys: with.rekeying(&store.sealing) };
    walk.begin().await?;
    let mut done = ReencryptionReport::default();
    for table in [&TASKS, &EVENTS, &CHUNKS] {
        let mut after = Some((Uuid::nil(), i64::MIN));
        while let Some(position) = after {
            after = walk.next(table, position, &mut done).await?;
            progress(done.seen);
        }
    }
    walk.check_turn()?;
    let all = done.unreadable.is_empty();
    done.needed = walk.end(all).await.map_err(failed)?;
    Ok(done)
}

/// The task and the number of a row.
type Position = (Uuid, i64);

/// A walk over all sealed values.
struct ReencryptionWalk {
    on: ClientWrapper,
    turn: ClientWrapper,
    keys: Rekeying,
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
        let key = self.keys.to.key().map(|key| key.0.to_vec());
        let step = self.on.transaction().await?;
        step.batch_execute(ALONE).await?;
        step.execute(MARK, &[&key]).await?;
        step.commit().await
    }

    /// Fails if another process may have the turn.
    fn check_turn(&self) -> Result<(), StoreError> {
        match self.turn.is_closed() {
            true => Err(StoreError::Unavailable(StoreRefusal::LostTurn.into())),
            false => Ok(()),
        }
    }

    /// Writes the rows after this position that do not have the new form, a few in each transaction. Returns the last
    /// row that was examined; `None` after the last row of the table.
    async fn next(
        &mut self,
        table: &SealedTable,
        after: Position,
        done: &mut ReencryptionReport,
    ) -> Result<Option<Position>, StoreError> {
        self.check_turn()?;
        let heads = self.heads(table, after).await.map_err(failed)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for head in &heads {
            done.seen += u64::from(table.column.is_none());
            if head.is_current {
                continue;
            }
            batch.push(head.position);
            bytes += head.length;
            if batch.len() >= MAX_TASKS || bytes >= MAX_BYTES {
                self.check_turn()?;
                done.add(self.rewritten(table, &std::mem::take(&mut batch)).await?);
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            done.add(self.rewritten(table, &batch).await?);
        }
        Ok(heads.last().map(|head| head.position))
    }

    async fn heads(&self, table: &SealedTable, after: Position) -> Result<Vec<Head>, Error> {
        let statement = self.on.prepare_cached(table.heads).await?;
        let given: [&(dyn ToSql + Sync); 4] = [&after.0, &after.1, &MAX_EXAMINED, &(HEAD as i32)];
        let (rows, key) = (self.on.query(&statement, &given).await?, self.keys.to.key());
        let head = |row: &Row| {
            let position = (row.try_get(0)?, row.try_get(1)?);
            let is_current = values(table, position, row, 3)?.are_sealed_with(key);
            let length = row.try_get::<_, i64>(2)?.unsigned_abs() as usize;
            Ok(Head { position, length, is_current })
        };
        rows.iter().map(head).collect()
    }

    /// Writes these rows. A host that removes and changes tasks in one transaction may lock them
    /// in another order; if the server aborts this transaction because of that, nothing was
    /// written, and it is retried.
    async fn rewritten(
        &mut self,
        table: &SealedTable,
        positions: &[Position],
    ) -> Result<ReencryptionReport, StoreError> {
        loop {
            match self.rewrite(table, positions).await {
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
                done => return done.map_err(failed),
            }
        }
    }

    async fn rewrite(
        &mut self,
        table: &SealedTable,
        positions: &[Position],
    ) -> Result<ReencryptionReport, Error> {
        let mut done = ReencryptionReport::default();
        let (tasks, numbers): (Vec<Uuid>, Vec<i64>) = positions.iter().copied().unzip();
        let step = self.on.transaction().await?;
        if let Some(key) = self.keys.to.key() {
            // Before locking a task, as hosts do.
            step.execute(SEALED, &[&&key.0[..]]).await?;
        }
        // Hosts that change these tasks wait.
        step.execute(LOCK_TASKS, &[&tasks]).await?;
        let update = step.prepare_cached(table.update).await?;
        // A host may have written a row since it was examined.
        for row in step.query(table.values, &[&tasks, &numbers]).await? {
            let (task, number): Position = (row.try_get(0)?, row.try_get(1)?);
            let values = values(table, (task, number), &row, 2)?;
            let Some(new) = self.keys.values(TaskId(task), values, &mut done) else { continue };
            let [first, outcome] = &new.others;
            match &new.record {
                Some(record) => step.execute(&update, &[&task, record, first, outcome]).await?,
                None => step.execute(&update, &[&task, &number, first]).await?,
            };
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
        left.retain(|key| Some(*key) != self.keys.to.key());
        Ok(left)
    }
}

/// The part of a row that the walk reads without a lock.
struct Head {
    position: Position,
    /// The full length of its values.
    length: usize,
    /// Whether it already has the new form.
    is_current: bool,
}

/// The values of a row, or their heads, from the column `at` on.
fn values(table: &SealedTable, (_, number): Position, row: &Row, at: usize) -> Result<StoredValues, Error> {
    Ok(match table.column {
        None => StoredValues::of_task(row.try_get(at)?, row.try_get(at + 1)?, row.try_get(at + 2)?),
        Some(column) => StoredValues::of_body(column(number), row.try_get(at)?),
    })
}
