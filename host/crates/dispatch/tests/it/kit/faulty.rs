//! A store in memory that can be made to fail.

use crate::kit::native::memory;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use toolyard_store::MemoryStore;
use toolyard_task::audit::Entry;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{CommitStatus, CreateError, Hints, ListQuery, Quota, ReadTask, StoreError};
use toolyard_task::task::Summary;
use toolyard_task::{Incarnation, Owner, Task, TaskId, TaskStore};

/// A store that can be made to fail.
pub struct Faulty {
    inner: Arc<MemoryStore>,
    /// So many operations fail from now on.
    pub failures: AtomicU32,
    pub used: AtomicBool,
    /// So many succeed before that.
    pub spared: AtomicU32,
    /// So many commits are done and then said to have failed.
    pub unheard: AtomicU32,
    /// Reads and writes so far.
    pub operations: AtomicU32,
}

impl Faulty {
    fn operate(&self) -> Result<(), StoreError> {
        self.used.store(true, Ordering::SeqCst);
        self.operations.fetch_add(1, Ordering::SeqCst);
        if !take(&self.spared) && take(&self.failures) {
            return Err(StoreError::Unavailable("a fault".into()));
        }
        Ok(())
    }
}

/// One of so many, if any are left.
fn take(from: &AtomicU32) -> bool {
    from.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl TaskStore for Faulty {
    async fn create(&self, task: Task, quota: Quota, entries: Vec<Entry>) -> Result<Task, CreateError> {
        self.operate()?;
        self.inner.create(task, quota, entries).await
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        self.operate()?;
        self.inner.read(id, owner).await
    }

    async fn commit(&self, task: &Task, entries: Vec<Entry>) -> Result<CommitStatus, StoreError> {
        self.operate()?;
        let committed = self.inner.commit(task, entries).await?;
        if take(&self.unheard) { Err(StoreError::Unavailable("a fault".into())) } else { Ok(committed) }
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        self.operate()?;
        self.inner.list(query).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        self.operate()?;
        self.inner.search(search).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        self.inner.due(limit).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        self.inner.held_by(incarnation).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        self.inner.remove(ids).await
    }

    async fn kept_bytes(&self, of: Option<&Owner>) -> Result<u64, StoreError> {
        self.inner.kept_bytes(of).await
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<(Owner, u64)>, StoreError> {
        self.inner.largest_owners(limit).await
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        self.inner.ended_first(of, limit).await
    }

    async fn discard(&self, tasks: Vec<(TaskId, Entry)>) -> Result<u32, StoreError> {
        self.inner.discard(tasks).await
    }

    fn hints(&self) -> Box<dyn Hints> {
        self.inner.hints()
    }
}

pub fn faulty(failures: u32) -> (Arc<MemoryStore>, Arc<Faulty>) {
    let store = memory();
    let faulty = Faulty {
        inner: store.clone(),
        failures: AtomicU32::new(failures),
        used: AtomicBool::new(false),
        spared: AtomicU32::new(0),
        unheard: AtomicU32::new(0),
        operations: AtomicU32::new(0),
    };
    (store, Arc::new(faulty))
}
