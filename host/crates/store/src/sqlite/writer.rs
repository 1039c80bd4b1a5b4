//! The thread that writes to the file: the [`Database`] of a group commit whose transactions
//! block.

use super::counts::Counts;
use super::error::{SqliteError, failed};
use super::transaction::{Operation, SqliteTransaction};
use super::watch::Watch;
use super::{audit, sessions};
use crate::audit_buffer::AuditBuffer;
use crate::audit_lines::Lines;
use crate::group_commit::{
    Committer, Database, PendingWrite, Queue, QueueLimits, TransactionError, log_failure, log_resign_failed,
    log_sessions_not_updated,
};
use crate::last_seen_buffer::LastSeenBuffer;
use crate::metrics::Metrics;
use crate::monotonic_clock::MonotonicClock;
use crate::timeline_buffer::{Relaxed, TimelineBuffer};
use crate::timeline_encoding::Recorder;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use toolyard_task::StoreError;
use toolyard_task::journal::Flush;
use toolyard_task::wire::Timestamp;

/// The part of the store that the writing thread uses.
#[derive(Clone)]
pub(super) struct WriterState {
    pub(super) clock: Arc<MonotonicClock>,
    pub(super) watch: Arc<Watch>,
    pub(super) last_seen: Arc<LastSeenBuffer<Timestamp>>,
    pub(super) audit: Arc<AuditBuffer<Timestamp>>,
    pub(super) timeline: Arc<TimelineBuffer<Timestamp>>,
    pub(super) recorder: Recorder,
}

/// Queues operations for the writing thread.
pub(super) struct Writer {
    pub(super) queue: Queue<dyn Operation>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        on: Connection,
        state: WriterState,
        limits: QueueLimits,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        // If this fails, the first check reports a change that did not happen.
        let seen = data_version(&on).ok();
        let database = SqliteDatabase { on, state, counts: Counts::default(), flushed: true, seen };
        let (queue, committer) = Committer::new(database, limits, metrics);
        // This thread has its own runtime, so that a blocking transaction delays nothing else.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new()
            .name("toolyard-store-w".into())
            .spawn(move || runtime.block_on(committer.run()))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Runs `operation` in a transaction and returns when it is durable. It is attempted again if
    /// another operation in its transaction fails.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut SqliteTransaction<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        self.write_by(Flush::Now, operation).await
    }

    /// As [`Writer::write`], and on the disk when `flush` says so.
    pub(super) async fn write_by<T, F>(&self, flush: Flush, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut SqliteTransaction<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let write = |reply| -> Box<dyn Operation> {
            let pending = PendingWrite { operation, result: None, task: None, reply };
            match flush {
                Flush::Now => Box::new(pending),
                Flush::Later => Box::new(Relaxed(pending)),
            }
        };
        self.queue.write(write).await
    }

    /// Completes the queued operations, then `last`, and ends the thread. Blocks until then. A
    /// second call does nothing.
    pub(super) fn stop<F>(&self, last: Option<F>)
    where
        F: FnMut(&mut SqliteTransaction<'_>) -> Result<(), SqliteError> + Send + 'static,
    {
        let Some(thread) = self.thread.lock().take() else { return };
        let last = last.map(|last| unattended(last, log_resign_failed));
        self.queue.stop(last);
        if thread.join().is_err() {
            tracing::error!(event = "store.panicked", part = "writer", "part of the store panicked");
        }
    }
}

/// An operation that no caller waits for.
fn unattended<F>(operation: F, log: fn(&StoreError)) -> Box<dyn Operation>
where
    F: FnMut(&mut SqliteTransaction<'_>) -> Result<(), SqliteError> + Send + 'static,
{
    Box::new(PendingWrite { operation, result: None, task: None, reply: log_failure(log) })
}

/// The writing thread's connection to the file.
struct SqliteDatabase {
    on: Connection,
    state: WriterState,
    counts: Counts,
    /// Whether commits are on the disk when they return.
    flushed: bool,
    /// The last `data_version` that was read.
    seen: Option<i64>,
}

impl Database for SqliteDatabase {
    type Write = dyn Operation;

    async fn transaction(&mut self, writes: &mut [Box<dyn Operation>]) -> Result<(), TransactionError> {
        self.flush_commits(writes.iter().any(|write| write.needs_flush()))?;
        self.execute("BEGIN IMMEDIATE").map_err(|error| TransactionError::Unavailable(failed(error)))?;
        self.write_and_commit(writes).map_err(|error| {
            self.counts.forget();
            // After some errors, SQLite has already rolled back.
            if !self.on.is_autocommit()
                && let Err(error) = self.execute("ROLLBACK")
            {
                tracing::error!(
                    event = "store.rollback_failed",
                    error = &error as &dyn std::error::Error,
                    "cannot roll back transaction"
                );
            }
            let is_lasting = matches!(&error, SqliteError::Database(error) if is_of_the_file(error));
            TransactionError::Rejected { is_lasting, error: error.into() }
        })
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        let state = &self.state;
        [state.watch.due(now), state.last_seen.due(), state.audit.due(), state.timeline.due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn buffered(&self, anyway: bool, now: Instant) -> Vec<Box<dyn Operation>> {
        let mut writes = Vec::new();
        if let Some(noted) = self.state.audit.take(anyway, now) {
            writes.push(audit::notes(&self.state.audit, noted));
        }
        let reported = self.state.timeline.take(anyway, now);
        if !reported.is_empty() {
            writes.push(self.state.recorder.write(reported));
        }
        if let Some(touched) = self.state.last_seen.take(anyway, now) {
            let operation =
                move |writing: &mut SqliteTransaction<'_>| sessions::write_last_seen(writing.on, &touched);
            writes.push(unattended(operation, log_sessions_not_updated));
        }
        writes
    }

    fn after_batch(&mut self) {
        if self.state.watch.is_due(Instant::now())
            && let Err(error) = self.observe()
        {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the store's file cannot be watched now"
            );
        }
    }
}

impl SqliteDatabase {
    /// Chooses whether commits are on the disk when they return. A commit that is not flushed is flushed
    /// with the next one that is, because both are in the same log.
    fn flush_commits(&mut self, flushed: bool) -> Result<(), TransactionError> {
        if self.flushed != flushed {
            let level = if flushed { "FULL" } else { "NORMAL" };
            let set = self.on.pragma_update(None, "synchronous", level);
            set.map_err(|error| TransactionError::Unavailable(failed(error)))?;
            self.flushed = flushed;
        }
        Ok(())
    }

    fn write_and_commit(&mut self, writes: &mut [Box<dyn Operation>]) -> Result<(), SqliteError> {
        // Checked under the lock, so that no other process writes between this check and the
        // commit.
        self.observe()?;
        let mut lines = Lines::default();
        let mut writing = SqliteTransaction {
            on: &self.on,
            counts: &mut self.counts,
            clock: &self.state.clock,
            lines: &mut lines,
        };
        for write in writes {
            write.attempt(&mut writing)?;
        }
        audit::insert(&self.on, &lines)?;
        self.execute("COMMIT")?;
        if !lines.is_empty() {
            self.state.audit.written.notify_one();
        }
        Ok(())
    }

    /// Checks whether another connection has written since the last check; this connection's own
    /// commits do not count.
    fn observe(&mut self) -> rusqlite::Result<()> {
        let version = data_version(&self.on)?;
        if self.seen.replace(version) != Some(version) {
            self.counts.forget();
            self.state.watch.others_wrote();
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.on.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// Whether the cause is the file rather than the written data.
fn is_of_the_file(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_some_and(|code| !matches!(code, ErrorCode::Unknown | ErrorCode::ConstraintViolation))
}

fn data_version(on: &Connection) -> rusqlite::Result<i64> {
    on.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
