//! The port to the store of tasks.

use crate::audit::{By, Entry};
use crate::erasure::DataOwner;
use crate::error::StoreError;
use crate::event::Event;
use crate::id::{Digest, Incarnation, Owner, TaskId};
use crate::journal::{Flush, LastChunks};
use crate::search::{Page, Search};
use crate::task::{Summary, Task};
use crate::timeline::NewEvent;
use crate::wire::Timestamp;
use async_trait::async_trait;

/// Why a task was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A quota is full.
    #[error("the limit of {limit} live tasks {scope} is reached")]
    Full {
        /// The scope of the exceeded quota.
        scope: QuotaScope,
        /// The quota.
        limit: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The scope of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaScope {
    /// The tasks of one owner that run or wait for a slot.
    Owner,
    /// The tasks of one owner that are parked.
    Parked,
    /// The whole store's.
    Store,
}

impl std::fmt::Display for QuotaScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Owner => "of one principal",
            Self::Parked => "of one principal that wait without a run",
            Self::Store => "of this host's store",
        })
    }
}

/// How many live tasks there may be. Checked in the transaction that creates a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Of one owner, running and waiting for a slot together.
    pub per_owner: u32,
    /// Of one owner, parked. Those that run may be parked as well, so there may be [`Quota::per_owner`] more.
    pub parked_per_owner: u32,
    /// In all.
    pub in_all: u32,
}

/// A task and the store's time at which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTask {
    /// The task.
    pub task: Task,
    /// The time.
    pub now: Timestamp,
}

/// The records that are written in the same commit as a change of a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// Audit entries.
    pub audit: Vec<Entry>,
    /// Events of the task's timeline.
    pub timeline: Vec<NewEvent>,
    /// The end of its journal.
    pub journal: Option<LastChunks>,
    /// When the commit has to be on the disk.
    pub flush: Flush,
}

impl Records {
    /// The records of a creation.
    #[must_use]
    pub fn created(task: &Task, by: &By) -> Self {
        let audit = std::iter::once(Entry::created(task, by)).chain(Entry::approval_asked(task)).collect();
        Self { audit, timeline: NewEvent::created(task), ..Self::default() }
    }

    /// The records of a change.
    #[must_use]
    pub fn changed(event: &Event, after: &Task, by: &By) -> Self {
        let flush = match event {
            // If it is lost, the task is due as before: what leaves the run waits for a flush.
            Event::Woken { .. } => Flush::Later,
            _ => Flush::Now,
        };
        let (audit, timeline) = (Entry::changed(event, after, by), NewEvent::changed(event, after));
        Self { audit, timeline, flush, journal: None }
    }
}

impl From<Vec<Entry>> for Records {
    fn from(audit: Vec<Entry>) -> Self {
        Self { audit, ..Self::default() }
    }
}

/// The outcome of a compare-and-write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// The write is durable.
    Done,
    /// The version was different, or the task is gone; nothing was written.
    Stale,
}

/// A question about tasks. The answer is their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskQuestion {
    /// Tasks with [`Task::due_at`] not after the store's time, the longest due first.
    Due,
    /// The live tasks that this incarnation runs or will run. Parked tasks have no incarnation, so 0 selects none.
    HeldBy(Incarnation),
    /// Tasks that wait for a slot on other hosts and run one of these components, for a host that has room for
    /// some. They are the tasks of each owner that have waited longest, one owner after the other. A task that was
    /// named to one host is not named to another for a few seconds, so that hosts do not all try to take the same
    /// task. The tasks keep their hosts until they are claimed. A store whose hosts are all on one machine names
    /// none.
    WaitingElsewhere {
        /// The host that has room.
        than: Incarnation,
        /// The components that it has.
        components: Vec<Digest>,
    },
    /// Parked tasks that are due ([`Parked::wake`](crate::task::Parked::wake) is not after the store's time): the
    /// longest due first, one owner after the other. A store that several machines share names a task to one host
    /// only for a few seconds, so that hosts do not all try to take it.
    Wakeable,
    /// Tasks of this owner with an open question, the oldest first.
    Asking(Owner),
    /// The live tasks of this principal.
    LiveOf(DataOwner),
    /// Ended tasks with a journal, the first to end first.
    EndedJournals,
}

/// An amount of something in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total<'a> {
    /// The bytes of the tasks of this owner, or of all owners: their records, arguments and outcomes.
    Bytes(Option<&'a Owner>),
    /// The bytes of the journals of this owner's live tasks, or of all journals.
    JournalBytes(Option<&'a Owner>),
    /// The number of parked tasks, whether they are due or not.
    Parked,
}

/// Which tasks a removal takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removable {
    /// Tasks that are gone by the store's time.
    Gone,
    /// Tasks that have ended, whether their time is up or not.
    Ended,
}

/// A hint that something has changed. It is not reliable: the receiver reads the store again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The task with this id may have changed.
    Task(TaskId),
    /// Anything.
    Anything,
}

/// A feed of hints.
#[async_trait]
pub trait Hints: Send {
    /// The next hint; `None` when the store has shut down. Safe to drop while it
    /// waits.
    async fn next(&mut self) -> Option<Hint>;
}

/// The store of tasks. A call that has returned `Ok` is durable, as far as the store is, except with
/// [`Flush::Later`]. Records come with the change that they describe and are written in the same commit: one
/// exists if and only if the other does.
#[async_trait]
pub trait TaskStore: Send + Sync + 'static {
    /// Stores a new task and returns it. The store's clock sets `created_at` and `updated_at` (and
    /// `started_at`, if it is given). An id that exists is refused as [`StoreError::Corrupt`]: ids are
    /// random. A task that can resume gets an empty journal in the same transaction. It must not be
    /// parked.
    async fn create(&self, task: Task, quota: Quota, records: Records) -> Result<Task, CreateError>;

    /// Reads a task, however old it is; with an owner, only a task of this owner. The query asks
    /// for the owner, so that a task of another owner costs as little work as one that does not
    /// exist.
    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError>;

    /// Writes `task`, which has the next version, if the stored version is still the one before. Its
    /// arguments never change. The same transaction lets [`Task::journal_fence`] append to the journal of
    /// a task that can resume, and no other run.
    async fn commit(&self, task: &Task, records: Records) -> Result<CommitStatus, StoreError>;

    /// The versions of the tasks among these that exist: one read for many tasks, to find those that
    /// have changed.
    async fn versions(&self, ids: &[TaskId]) -> Result<Vec<(TaskId, u64)>, StoreError> {
        let mut found = Vec::new();
        for id in ids {
            found.extend(self.read(*id, None).await?.map(|read| (*id, read.task.version)));
        }
        Ok(found)
    }

    /// Lists the tasks that match and are not gone (`Task::is_gone`). However many there are, it looks at a
    /// bounded number of them.
    async fn search(&self, search: &Search) -> Result<Page, StoreError>;

    /// Ids of at most `limit` tasks, the answer to this question.
    async fn select(&self, question: TaskQuestion, limit: u32) -> Result<Vec<TaskId>, StoreError>;

    /// Whether other machines use it as well. Then hints may be lost on their way, so waiters and
    /// caches must read the store from time to time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Removes the tasks among these that are `removable`, and writes the entries of each. Returns how many it
    /// removed.
    async fn remove(&self, tasks: Vec<(TaskId, Vec<Entry>)>, removable: Removable)
    -> Result<u32, StoreError>;

    /// Counts an amount. It walks an index, so frequent callers remember the result.
    async fn total(&self, of: Total<'_>) -> Result<u64, StoreError>;

    /// The owners whose tasks take the most bytes, the largest first.
    async fn largest_owners(&self, limit: u32) -> Result<Vec<Owner>, StoreError>;

    /// The tasks of this owner that ended first, with the bytes that each takes.
    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError>;

    /// Hints of changes that were not made through this same object. Its own changes may be among them.
    fn hints(&self) -> Box<dyn Hints>;
}
