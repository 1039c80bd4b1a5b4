//! The task that writes to the server, over one connection: the [`Database`] of a group commit
//! whose transactions wait for answers. After each transaction, the other hosts get one message.
//!
//! When the connection breaks, no caller gets an error for a write that was done. If it breaks
//! before the commit, nothing is written, and the writer repeats the transaction; if it breaks
//! later, the writer asks the server. Each transaction leaves its number in a row of this writer,
//! so that the row shows which was committed last. The server's own transaction number would not
//! suffice: if a crash loses it before it is on the disk, the server assigns it to another
//! transaction, and `pg_xact_status` then reports on that one. The outcome stays unknown only if
//! the server does not come back.

use super::connections::PostgresLocation;
use super::error::{PostgresError, failed, silent, unreadable};
use super::transaction::{Operation, PostgresTransaction, WriterState, pending};
use super::{audit, sessions, timeline};
use crate::group_commit::{Committer, Database, Queue, QueueLimits, RETRY_PAUSE, TransactionError};
use crate::metrics::Metrics;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use toolyard_task::{StoreError, TaskId};

/// The server commits the transaction without a flush of the disk.
const BEGIN_UNFLUSHED: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Runs in each transaction.
const NUMBERED: &str = "
    INSERT INTO batch (writer, number, at) VALUES ($1, $2, engine_time())
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at";

/// The number of the last transaction that was committed. Waits for the end of a transaction that
/// is still open on the server, whether it inserts or updates the row.
const COMMITTED: &str = "
    INSERT INTO batch (writer, number, at) VALUES ($1, 0, engine_time())
    ON CONFLICT (writer) DO UPDATE SET at = excluded.at RETURNING number";

/// Queues operations for the writing task.
pub(super) struct Writer {
    pub(super) queue: Queue<dyn Operation>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the task on the runtime of the caller. The server may take as long as `silence` to
    /// answer.
    pub(super) fn start(
        place: PostgresLocation,
        state: WriterState,
        limits: QueueLimits,
        silence: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        let database = PostgresDatabase { place, state, silence, on: None, number: 0 };
        let (queue, committer) = Committer::new(database, limits, metrics);
        Self { queue, task: Mutex::new(Some(tokio::spawn(committer.run()))) }
    }

    /// Runs `operation` on `value` in a transaction and returns when it is durable. It is attempted
    /// again if another operation in its transaction fails or the connection breaks.
    pub(super) async fn write<V, T, F>(&self, value: V, operation: F) -> Result<T, StoreError>
    where
        V: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a PostgresTransaction<'a>, &'a V) -> BoxFuture<'a, Result<T, PostgresError>>
            + Send
            + Sync
            + 'static,
    {
        self.write_to(None, value, operation).await
    }

    /// As [`Writer::write`], for an operation that changes this task.
    pub(super) async fn write_to<V, T, F>(
        &self,
        task: Option<TaskId>,
        value: V,
        operation: F,
    ) -> Result<T, StoreError>
    where
        V: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'a> Fn(&'a PostgresTransaction<'a>, &'a V) -> BoxFuture<'a, Result<T, PostgresError>>
            + Send
            + Sync
            + 'static,
    {
        self.queue.write(|reply| Box::new(pending(task, value, operation, reply))).await
    }

    /// Completes the queued operations and ends the task. A second call does nothing.
    pub(super) async fn stop(&self) {
        self.queue.stop(None);
        let task = self.task.lock().take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!(event = "store.panicked", part = "writer", "part of the store panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Acknowledged writes are durable, and no caller waits for the writes in the queue.
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

/// The writing task's access to the server.
struct PostgresDatabase {
    place: PostgresLocation,
    state: WriterState,
    silence: Duration,
    /// `None` before the first transaction, and after a failure of the connection.
    on: Option<ClientWrapper>,
    /// The number of the last transaction that was begun.
    number: i64,
}

impl Database for PostgresDatabase {
    type Write = dyn Operation;

    async fn transaction(&mut self, writes: &mut [Box<dyn Operation>]) -> Result<(), TransactionError> {
        let on = self.connection().await.map_err(TransactionError::Unavailable)?;
        self.number += 1;
        let silence = self.silence;
        let done = match tokio::time::timeout(silence, attempt(&on, &self.state, self.number, writes)).await {
            Ok(Ok(done)) => done,
            Ok(Err(PostgresError::Database(error))) if is_transient(&error) => {
                return Err(TransactionError::Unavailable(failed(error)));
            }
            Ok(Err(error)) => {
                let back = tokio::time::timeout(silence, on.batch_execute("ROLLBACK")).await;
                if matches!(back, Ok(Ok(()))) {
                    self.on = Some(on);
                }
                return Err(TransactionError::Rejected { error: error.into(), is_lasting: false });
            }
            Err(_) => return Err(TransactionError::Unavailable(silent(silence))),
        };
        match tokio::time::timeout(silence, on.batch_execute("COMMIT")).await {
            Ok(Ok(())) => self.on = Some(on),
            Ok(Err(error)) => return Err(TransactionError::Undecided(failed(error))),
            Err(_) => return Err(TransactionError::Undecided(silent(silence))),
        }
        self.state.audit.written.notify_one();
        self.state.longest.fetch_max(done.longest, Ordering::Relaxed);
        self.state.hint_sender.changed(done.changed);
        Ok(())
    }

    async fn find_commit(&mut self, until: Instant) -> Option<bool> {
        while Instant::now() < until {
            let asked = async {
                let on = self.connection().await?;
                let row = on.query_one(COMMITTED, &[&self.state.log.writer]).await.map_err(failed)?;
                Ok::<_, StoreError>((on, row.try_get::<_, i64>(0).map_err(unreadable)?))
            };
            if let Ok(Ok((on, last))) = tokio::time::timeout_at(until.into(), asked).await {
                self.on = Some(on);
                return Some(last == self.number);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        None
    }

    fn due(&self, _now: Instant) -> Option<Instant> {
        let state = &self.state;
        [state.last_seen.due(), state.audit.due(), state.timeline.due()].into_iter().flatten().min()
    }

    fn buffered(&self, anyway: bool, now: Instant) -> Vec<Box<dyn Operation>> {
        let mut writes = Vec::new();
        if let Some(noted) = self.state.audit.take(anyway, now) {
            writes.push(audit::notes(&self.state.audit, noted));
        }
        for (task, waiting) in self.state.timeline.take(anyway, now) {
            writes.push(timeline::write_reports(&self.state.recorder, task, waiting));
        }
        if let Some(touched) = self.state.last_seen.take(anyway, now) {
            writes.push(sessions::write_last_seen(touched));
        }
        writes
    }
}

impl PostgresDatabase {
    /// The current connection, or a new one. A caller that leaves it usable for the next
    /// transaction puts it back.
    async fn connection(&mut self) -> Result<ClientWrapper, StoreError> {
        if let Some(on) = self.on.take().filter(|on| !on.is_closed()) {
            return Ok(on);
        }
        let on = tokio::time::timeout(self.silence, self.place.client()).await;
        on.map_err(|_| silent(self.silence))?.map_err(failed)
    }
}

/// Whether a retry may succeed: the connection broke, or two hosts waited for each other.
fn is_transient(error: &Error) -> bool {
    let passing = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    error.code().is_none_or(|code| passing.contains(code))
}

/// All statements before the commit are sent at once: the server runs them in order, and the writer
/// does not wait for each answer.
async fn attempt(
    on: &ClientWrapper,
    state: &WriterState,
    number: i64,
    writes: &mut [Box<dyn Operation>],
) -> Result<CommittedChanges, PostgresError> {
    let writing = PostgresTransaction {
        on,
        state,
        lines: Mutex::default(),
        timeline: Mutex::default(),
        changed: Mutex::default(),
        longest: AtomicI64::default(),
    };
    // A commit that is not flushed is flushed with the next one that is, because both are in the same log.
    let flushed = writes.iter().any(|write| write.needs_flush());
    let begin = on.batch_execute(if flushed { "BEGIN" } else { BEGIN_UNFLUSHED });
    let numbering = [&state.log.writer as &(dyn ToSql + Sync), &number];
    let numbered = writing.execute(NUMBERED, &numbering);
    let attempts = join_all(writes.iter_mut().map(|write| write.attempt(&writing)));
    let (begun, numbered, attempts) = tokio::join!(biased; begin, numbered, attempts);
    begun?;
    // The first refused statement; the server refuses the following ones because of it.
    attempts.into_iter().collect::<Result<(), PostgresError>>()?;
    numbered?;
    let lines = std::mem::take(&mut *writing.lines.lock());
    let rows = std::mem::take(&mut *writing.timeline.lock());
    let (logged, recorded) =
        tokio::join!(biased; audit::insert(&writing, &lines), timeline::insert(&writing, rows));
    logged?;
    recorded?;
    let changed = std::mem::take(&mut *writing.changed.lock());
    Ok(CommittedChanges { changed, longest: writing.longest.load(Ordering::Relaxed) })
}

/// Changes that count once the transaction is committed.
struct CommittedChanges {
    changed: Vec<TaskId>,
    longest: i64,
}
