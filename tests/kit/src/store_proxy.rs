//! A store in memory whose calls pass through a function of the test.

use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use toolyard_store::MemoryStore;
use toolyard_task::audit::Entry;
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush, JournalHead, JournalStore, LastChunks};
use toolyard_task::keys::{Key, KeyStore, KeyUse};
use toolyard_task::node::{NodeStore, Registration};
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{
    CommitStatus, CreateError, Hints, Quota, ReadTask, Records, Removable, TaskQuestion, Total,
};
use toolyard_task::task::Summary;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Fence, Incarnation, Owner, StoreError, Task, TaskId, TaskStore};
use uuid::Uuid;

/// Controls the calls of a store, and observes their changes. Each change is noted in the same poll in which
/// it happens.
pub trait Intercept: Send + Sync + 'static {
    /// Makes one call, or fails it before or after it is made.
    fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, E>> + Send;

    /// Adds to the hints of the store.
    fn hints(&self, hints: Box<dyn Hints>) -> Box<dyn Hints> {
        hints
    }

    /// Notes that a task was created.
    fn created(&self, _: &Task) {}

    /// Notes that a task was written.
    fn committed(&self, _: &Task) {}

    /// Notes that tasks were removed.
    fn removed(&self, _: &[TaskId]) {}

    /// Notes that chunks of a journal were stored from this number on, or were stored before.
    fn appended(&self, _: TaskId, _: Fence, _: u32, _: &[Chunk], _: Flush) {}

    /// Notes that a journal was replaced by these chunks, or was replaced before.
    fn restarted(&self, _: TaskId, _: Fence, _: u32, _: &[Chunk]) {}

    /// Notes that a run that no longer has its task wanted to write its journal.
    fn refused(&self, _: TaskId, _: Fence) {}

    /// Notes that a host has received a lease.
    fn registered(&self, _: Incarnation) {}

    /// Notes that a lease was renewed.
    fn renewed(&self, _: Incarnation) {}

    /// Notes that a host was forgotten: it was dead, or has released its lease.
    fn forgotten(&self, _: Incarnation) {}
}

/// The tasks, journals, nodes and keys of a store, through an interceptor.
pub struct StoreProxy<I> {
    store: Arc<MemoryStore>,
    /// The interceptor.
    pub intercept: I,
}

impl<I: Intercept> StoreProxy<I> {
    /// A proxy for this store.
    pub fn new(store: Arc<MemoryStore>, intercept: I) -> Arc<Self> {
        Arc::new(Self { store, intercept })
    }

    /// Those of these tasks that are stored.
    async fn stored(&self, ids: &[TaskId]) -> Result<Vec<TaskId>, StoreError> {
        let versions = self.store.versions(ids).await?;
        Ok(versions.into_iter().map(|(id, _)| id).collect())
    }
}

#[async_trait]
impl<I: Intercept> TaskStore for StoreProxy<I> {
    async fn create(&self, task: Task, quota: Quota, records: Records) -> Result<Task, CreateError> {
        let create = async {
            let created = self.store.create(task, quota, records).await?;
            self.intercept.created(&created);
            Ok(created)
        };
        self.intercept.call("create", create).await
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        self.intercept.call("read", self.store.read(id, owner)).await
    }

    async fn commit(&self, task: &Task, records: Records) -> Result<CommitStatus, StoreError> {
        let commit = async {
            let last = records.journal.clone();
            let committed = self.store.commit(task, records).await?;
            if committed == CommitStatus::Done {
                if let Some(LastChunks { at, chunks }) = last {
                    self.intercept.appended(task.id, task.fence, at, &chunks, Flush::Now);
                }
                self.intercept.committed(task);
            }
            Ok(committed)
        };
        self.intercept.call("commit", commit).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        self.intercept.call("search", self.store.search(search)).await
    }

    async fn select(&self, question: TaskQuestion, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let operation = match question {
            TaskQuestion::Due => "due",
            TaskQuestion::HeldBy(_) => "held_by",
            // As if all hosts were processes of one machine.
            TaskQuestion::WaitingElsewhere { .. } => return Ok(Vec::new()),
            TaskQuestion::Wakeable => "wakeable",
            TaskQuestion::Asking(_) => "asking",
            TaskQuestion::LiveOf(_) => "live_of",
            TaskQuestion::EndedJournals => "ended_journals",
        };
        self.intercept.call(operation, self.store.select(question, limit)).await
    }

    async fn remove(&self, tasks: Vec<(TaskId, Vec<Entry>)>, which: Removable) -> Result<u32, StoreError> {
        if which == Removable::Ended {
            return self.intercept.call("discard", self.store.remove(tasks, which)).await;
        }
        let remove = async {
            let ids: Vec<TaskId> = tasks.iter().map(|(id, _)| *id).collect();
            let mut gone = self.stored(&ids).await?;
            let removed = self.store.remove(tasks, which).await?;
            let left = self.stored(&ids).await?;
            gone.retain(|id| !left.contains(id));
            self.intercept.removed(&gone);
            Ok(removed)
        };
        self.intercept.call("remove", remove).await
    }

    async fn total(&self, of: Total<'_>) -> Result<u64, StoreError> {
        self.intercept.call("total", self.store.total(of)).await
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<Owner>, StoreError> {
        self.intercept.call("largest_owners", self.store.largest_owners(limit)).await
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        self.intercept.call("ended_first", self.store.ended_first(of, limit)).await
    }

    fn hints(&self) -> Box<dyn Hints> {
        self.intercept.hints(self.store.hints())
    }
}

#[async_trait]
impl<I: Intercept> JournalStore for StoreProxy<I> {
    async fn write_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Appended, StoreError> {
        let write = async {
            let written = self.store.write_chunks(task, fence, at, chunks.clone(), how).await?;
            match (written, how) {
                (Appended::Done, ChunkWrite::Append(flush)) => {
                    self.intercept.appended(task, fence, at, &chunks, flush);
                }
                (Appended::Done, ChunkWrite::Replace) => self.intercept.restarted(task, fence, at, &chunks),
                (Appended::Fenced, _) => self.intercept.refused(task, fence),
                (Appended::Gap { .. }, _) => {}
            }
            Ok(written)
        };
        self.intercept.call("write_chunks", write).await
    }

    async fn journal(&self, task: TaskId) -> Result<Option<JournalHead>, StoreError> {
        self.intercept.call("journal", self.store.journal(task)).await
    }

    async fn chunks(&self, task: TaskId, from: u32, max_bytes: u64) -> Result<Vec<Chunk>, StoreError> {
        self.intercept.call("chunks", self.store.chunks(task, from, max_bytes)).await
    }

    async fn drop_journal(&self, task: TaskId) -> Result<Option<u64>, StoreError> {
        self.intercept.call("drop_journal", self.store.drop_journal(task)).await
    }

    async fn put_component(&self, digest: &Digest, bytes: Bytes) -> Result<(), StoreError> {
        self.intercept.call("put_component", self.store.put_component(digest, bytes)).await
    }

    async fn component(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.intercept.call("component", self.store.component(digest)).await
    }

    async fn sweep_components(&self, keep: &[Digest]) -> Result<u32, StoreError> {
        self.intercept.call("sweep_components", self.store.sweep_components(keep)).await
    }
}

#[async_trait]
impl<I: Intercept> NodeStore for StoreProxy<I> {
    async fn register(&self) -> Result<Registration, StoreError> {
        let register = async {
            let registration = self.store.register().await?;
            self.intercept.registered(registration.incarnation);
            Ok(registration)
        };
        self.intercept.call("register", register).await
    }

    async fn renew(&self, node: Incarnation, components: Option<&[Digest]>) -> Result<bool, StoreError> {
        let renew = async {
            let renewed = self.store.renew(node, components).await?;
            if renewed {
                self.intercept.renewed(node);
            }
            Ok(renewed)
        };
        self.intercept.call("renew", renew).await
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.intercept.call("dead", NodeStore::dead(&*self.store)).await
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        let forget = async {
            self.store.forget(incarnation).await?;
            self.intercept.forgotten(incarnation);
            Ok(())
        };
        self.intercept.call("forget", forget).await
    }
}

#[async_trait]
impl<I: Intercept> KeyStore for StoreProxy<I> {
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        self.intercept.call("keys", self.store.keys(used_for)).await
    }

    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError> {
        self.intercept.call("use_up", self.store.use_up(id, until)).await
    }
}
