//! The port for the export of all tasks from a store and their import.

use crate::error::StoreError;
use crate::id::TaskId;
use crate::task::Task;
use async_trait::async_trait;
use toolyard_protocol::Timestamp;

/// All tasks of a store.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// All tasks at one moment, in the order of (createdAt, id), including ended tasks that are due
    /// for removal. Later changes do not show, and do not wait for the export.
    async fn export(&self) -> Result<Box<dyn Export>, StoreError>;

    /// Adds these tasks, with every field unchanged, except those whose id the store already has.
    /// Returns how many were new. Either all of them are durable or none.
    ///
    /// A live task comes in [`without_journal`].
    ///
    /// No host has a live one of them, so they get the incarnation of a dead host: their own, unless a
    /// living host of this store uses it. The recovery of dead hosts finds them.
    ///
    /// None of their times may be later than [`Archive::now`]: the store takes the latest creation
    /// for its own last time, and its clock would stand still until then.
    async fn import(&self, tasks: Vec<Task>) -> Result<u32, StoreError>;

    /// The store's time.
    async fn now(&self) -> Result<Timestamp, StoreError>;
}

/// The task as an import stores it. An export has no journals, so a live task that could resume cannot do so
/// any more: it is as one whose tool is not declared to resume.
#[must_use]
pub fn without_journal(task: Task) -> Task {
    Task { resume: task.resume.filter(|_| !task.is_live()), ..task }
}

/// The tasks of one moment.
#[async_trait]
pub trait Export: Send {
    /// The next few; an empty list at the end. An unreadable task is reported and left out.
    async fn next(&mut self) -> Result<Vec<Result<Task, Unreadable>>, StoreError>;
}

/// A stored task that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("task {id} cannot be read")]
pub struct Unreadable {
    /// The id of the task.
    pub id: TaskId,
    /// Why.
    #[source]
    pub source: StoreError,
}
