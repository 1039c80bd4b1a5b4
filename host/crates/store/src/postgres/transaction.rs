//! The open transaction of the writing task, and the operations in it.

use super::error::PostgresError;
use super::hints::HintSender;
use super::timeline_rows::TimelineRows;
use crate::audit_buffer::AuditBuffer;
use crate::audit_lines::Lines;
use crate::group_commit::{PendingWrite, QueuedWrite, Reply};
use crate::key_id::KeyId;
use crate::last_seen_buffer::LastSeenBuffer;
use crate::monotonic_clock::LatestTime;
use crate::timeline_buffer::{Relaxed, TimelineBuffer};
use crate::timeline_encoding::Recorder;
use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use toolyard_task::TaskId;
use toolyard_task::wire::Timestamp;

/// Also keeps a key that was about to be removed. Statements that use an existing key do not lock
/// it.
pub(super) const SEALED: &str = "
    INSERT INTO seal (key, leaving) SELECT $1, false WHERE NOT EXISTS (SELECT 1 FROM seal WHERE key = $1 AND NOT leaving)
    ON CONFLICT (key) DO UPDATE SET leaving = false";

/// The part of the store that the writing task uses.
#[derive(Clone)]
pub(super) struct WriterState {
    /// The latest time from the server; `store_time` does not go back behind it.
    pub(super) floor: Arc<LatestTime>,
    pub(super) last_seen: Arc<LastSeenBuffer<()>>,
    pub(super) audit: Arc<AuditBuffer<Instant>>,
    pub(super) timeline: Arc<TimelineBuffer<Instant>>,
    pub(super) recorder: Recorder,
    pub(super) hint_sender: HintSender,
    /// The longest known time from a task's creation to a change of it.
    pub(super) longest: Arc<AtomicI64>,
    pub(super) log: Arc<Log>,
}

/// The log of one host.
pub(super) struct Log {
    /// The number of this host among the hosts that write here, which no other host ever has.
    pub(super) writer: i64,
    /// The prefix of the ids of its entries.
    pub(super) name: String,
    /// The next row that it writes.
    pub(super) next: AtomicI64,
    /// The log takes over rows that other hosts have not exported for this long.
    pub(super) adopt_after: Duration,
}

/// The open transaction, as an operation sees it.
pub(super) struct PostgresTransaction<'a> {
    pub(super) on: &'a ClientWrapper,
    pub(super) state: &'a WriterState,
    /// The audit entries of the transaction, which are committed with it.
    pub(super) lines: Mutex<Lines>,
    /// The rows of timelines, which are committed with it.
    pub(super) timeline: Mutex<TimelineRows>,
    /// The tasks that it changes.
    pub(super) changed: Mutex<Vec<TaskId>>,
    /// The longest span that it has written, on which others may rely after the commit.
    pub(super) longest: AtomicI64,
}

impl PostgresTransaction<'_> {
    pub(super) async fn rows(
        &self,
        sql: &str,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.on.prepare_cached(sql).await?;
        Ok(self.on.query(&statement, given).await?)
    }

    /// Runs a statement and returns the number of affected rows.
    pub(super) async fn execute(
        &self,
        sql: &str,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, PostgresError> {
        let statement = self.on.prepare_cached(sql).await?;
        Ok(self.on.execute(&statement, given).await?)
    }

    /// Adds to the audit entries.
    pub(super) fn log(&self, add: impl FnOnce(&mut Lines)) {
        add(&mut self.lines.lock());
    }

    /// Adds these entries.
    pub(super) fn log_all(&self, at: Timestamp, bodies: &[String]) {
        self.log(|lines| bodies.iter().for_each(|body| lines.push(at, body)));
    }

    /// The time of the server.
    pub(super) async fn time(&self) -> Result<Timestamp, PostgresError> {
        let rows = self.rows("SELECT store_time($1)", &[&self.state.floor.get()]).await?;
        let now = rows.first().map_or(Ok(self.state.floor.get()), |row| row.try_get(0))?;
        Ok(self.state.floor.saw(now))
    }

    /// Adds to the rows of timelines. The transaction must have locked their tasks.
    pub(super) fn timeline(&self, add: impl FnOnce(&mut TimelineRows)) {
        add(&mut self.timeline.lock());
    }

    /// Records that the transaction changes this task.
    pub(super) fn changes(&self, id: TaskId) {
        self.changed.lock().push(id);
    }
}

/// An operation in the queue.
#[async_trait]
pub(super) trait Operation: QueuedWrite {
    /// Runs it within a transaction that may yet be rolled back; then it is attempted again.
    async fn attempt(&mut self, writing: &PostgresTransaction<'_>) -> Result<(), PostgresError>;
}

/// An operation with the value that each attempt borrows.
#[async_trait]
impl<V, T, F> Operation for PendingWrite<T, (V, F)>
where
    V: Send + Sync,
    T: Send,
    F: for<'a> Fn(&'a PostgresTransaction<'a>, &'a V) -> BoxFuture<'a, Result<T, PostgresError>>
        + Send
        + Sync,
{
    async fn attempt(&mut self, writing: &PostgresTransaction<'_>) -> Result<(), PostgresError> {
        let (value, operation) = &self.operation;
        self.result = Some(operation(writing, value).await?);
        Ok(())
    }
}

#[async_trait]
impl<W: Operation> Operation for Relaxed<W> {
    async fn attempt(&mut self, writing: &PostgresTransaction<'_>) -> Result<(), PostgresError> {
        self.0.attempt(writing).await
    }
}

/// An operation on this value that changes this task, or none, and whose result goes to `reply`.
pub(super) fn pending<V, T, F>(
    task: Option<TaskId>,
    value: V,
    operation: F,
    reply: Reply<T>,
) -> PendingWrite<T, (V, F)>
where
    F: for<'a> Fn(&'a PostgresTransaction<'a>, &'a V) -> BoxFuture<'a, Result<T, PostgresError>>,
{
    PendingWrite { operation: (value, operation), result: None, task, reply }
}

/// Makes sure that the key of a sealed value is in the store.
pub(super) async fn sealed(
    writing: &PostgresTransaction<'_>,
    key: Option<KeyId>,
) -> Result<(), PostgresError> {
    if let Some(key) = key {
        writing.execute(SEALED, &[&&key.0[..]]).await?;
    }
    Ok(())
}
