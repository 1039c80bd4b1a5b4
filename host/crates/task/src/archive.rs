//! The port through which all tasks leave a store and come into one.

use crate::id::TaskId;
use crate::store::StoreError;
use crate::task::Task;
use async_trait::async_trait;
use toolyard_protocol::Timestamp;

/// All tasks of a store.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// All tasks as they are at one moment, in the order of (createdAt, id), those
    /// that are gone and not yet removed among them. What happens meanwhile waits
    /// for nothing and does not show.
    async fn export(&self) -> Result<Box<dyn Export>, StoreError>;

    /// Takes these tasks in, with every field as it is, but for those whose id is
    /// there already: what the store has, stands. Says how many were new. All of
    /// them are durable, or none.
    ///
    /// No host has a live one of them, so they come with the incarnation of a dead
    /// host: their own, unless a host that lives here goes by it. Whoever looks
    /// after dead hosts finds them.
    ///
    /// No time of theirs may be later than [`Archive::now`]: the store takes the latest
    /// creation for a time that it has given, and would stand still until then.
    async fn import(&self, tasks: Vec<Task>) -> Result<u32, StoreError>;

    /// The store's time.
    async fn now(&self) -> Result<Timestamp, StoreError>;
}

/// The tasks of one moment.
#[async_trait]
pub trait Export: Send {
    /// The next few; none at the end. What cannot be read is named and left out.
    async fn next(&mut self) -> Result<Vec<Result<Task, Unreadable>>, StoreError>;
}

/// A task that is stored and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("task {id} cannot be read")]
pub struct Unreadable {
    /// Its id.
    pub id: TaskId,
    /// Why.
    #[source]
    pub source: StoreError,
}
