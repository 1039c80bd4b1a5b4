//! The open transaction of the writing thread, and the operations in it.

use super::counts::Counts;
use super::error::SqliteError;
use super::rows;
use crate::audit_lines::Lines;
use crate::group_commit::{PendingWrite, QueuedWrite};
use crate::monotonic_clock::MonotonicClock;
use crate::timeline_buffer::Relaxed;
use rusqlite::{Connection, Params};
use toolyard_task::wire::Timestamp;

/// The open transaction, as an operation sees it.
pub(super) struct SqliteTransaction<'a> {
    pub(super) on: &'a Connection,
    pub(super) counts: &'a mut Counts,
    pub(super) clock: &'a MonotonicClock,
    /// The audit entries of the transaction, which are committed with it.
    pub(super) lines: &'a mut Lines,
}

impl SqliteTransaction<'_> {
    /// Runs a statement and returns the number of affected rows.
    pub(super) fn execute(&self, sql: &str, given: impl Params) -> Result<usize, SqliteError> {
        rows::execute(self.on, sql, given)
    }

    /// Adds entries to those of the transaction.
    pub(super) fn log(&mut self, at: Timestamp, bodies: &[String]) {
        bodies.iter().for_each(|body| self.lines.push(at, body));
    }
}

/// An operation in the queue.
pub(super) trait Operation: QueuedWrite {
    /// Runs it within a transaction that may yet be rolled back; then it is attempted again.
    fn attempt(&mut self, writing: &mut SqliteTransaction<'_>) -> Result<(), SqliteError>;
}

impl<T, F> Operation for PendingWrite<T, F>
where
    T: Send,
    F: FnMut(&mut SqliteTransaction<'_>) -> Result<T, SqliteError> + Send,
{
    fn attempt(&mut self, writing: &mut SqliteTransaction<'_>) -> Result<(), SqliteError> {
        // The result of an attempt that was rolled back may hold something, such as a lock, so it
        // is dropped first.
        self.result = None;
        self.result = Some((self.operation)(writing)?);
        Ok(())
    }
}

impl<W: Operation> Operation for Relaxed<W> {
    fn attempt(&mut self, writing: &mut SqliteTransaction<'_>) -> Result<(), SqliteError> {
        self.0.attempt(writing)
    }
}
