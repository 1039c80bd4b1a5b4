//! A store in memory whose k-th call, of whatever operation, meets a fault. The dispatcher decides
//! which operations a task's life needs, and in which order: a sweep of k from one until there is
//! no k-th call meets them all.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_store::MemoryStore;
use toolyard_task::audit::Entry;
use toolyard_task::keys::{Key, KeyStore, KeyUse};
use toolyard_task::node::{NodeStore, Registration};
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{CommitStatus, CreateError, Hint, Hints, ListQuery, Quota, ReadTask, StoreError};
use toolyard_task::task::Summary;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, Owner, Task, TaskId, TaskStore};
use uuid::Uuid;

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It fails, and nothing was done.
    FailsBefore,
    /// It is done, and is said to have failed.
    FailsAfter,
    /// Nothing comes back until the fault goes, and nothing is done before.
    HangsBefore,
    /// It is done, and nothing comes back until the fault goes.
    HangsAfter,
    /// It takes its time.
    Slow,
    /// Hints without a change.
    StaleHint,
}

pub const KINDS: [Kind; 6] =
    [Kind::FailsBefore, Kind::FailsAfter, Kind::HangsBefore, Kind::HangsAfter, Kind::Slow, Kind::StaleHint];

/// How long a slow call takes.
const SLOW: Duration = Duration::from_millis(30);

/// How long a call hangs at most; longer than clients wait.
const LONGEST: Duration = Duration::from_millis(400);

/// A store of which one call meets a fault.
pub struct Swept {
    inner: Arc<MemoryStore>,
    kind: Kind,
    /// The call that meets it; none if zero.
    at: u32,
    calls: AtomicU32,
    /// The operation that met it.
    met: Mutex<Option<&'static str>>,
    /// True once the fault is gone.
    gone: watch::Sender<bool>,
    hints: broadcast::Sender<Hint>,
    named: Mutex<BTreeMap<TaskId, ()>>,
}

impl Swept {
    /// A handle of this store, whose call number `at` meets a fault of this kind.
    pub fn new(inner: Arc<MemoryStore>, kind: Kind, at: u32) -> Arc<Self> {
        Arc::new(Self {
            inner,
            kind,
            at,
            calls: AtomicU32::new(0),
            met: Mutex::default(),
            gone: watch::Sender::new(false),
            hints: broadcast::Sender::new(64),
            named: Mutex::default(),
        })
    }

    /// The operation that met the fault, if there was such a call.
    pub fn met(&self) -> Option<&'static str> {
        *self.met.lock().expect("no panic")
    }

    /// The fault goes: what hangs goes on.
    pub fn recover(&self) {
        self.gone.send_replace(true);
    }

    async fn call<T, E: From<StoreError>>(
        &self,
        name: &'static str,
        done: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return done.await;
        }
        *self.met.lock().expect("no panic") = Some(name);
        let failed = || E::from(StoreError::Unavailable("a fault".into()));
        match self.kind {
            Kind::FailsBefore => Err(failed()),
            Kind::FailsAfter => done.await.and_then(|_| Err(failed())),
            Kind::HangsBefore => {
                self.until_gone().await;
                done.await
            }
            Kind::HangsAfter => {
                let done = done.await;
                self.until_gone().await;
                done
            }
            Kind::Slow => {
                tokio::time::sleep(SLOW).await;
                done.await
            }
            Kind::StaleHint => {
                let named: Vec<TaskId> = self.named.lock().expect("no panic").keys().copied().collect();
                let hints = named
                    .into_iter()
                    .map(Hint::Task)
                    .chain([Hint::Task(TaskId(Uuid::nil())), Hint::Anything]);
                // There may be no receiver.
                hints.for_each(|hint| drop(self.hints.send(hint)));
                done.await
            }
        }
    }

    async fn until_gone(&self) {
        let mut gone = self.gone.subscribe();
        // The sender is here, so it is not closed.
        let goes = gone.wait_for(|gone| *gone);
        // A hanging call may be in the background.
        drop(tokio::time::timeout(LONGEST, goes).await);
    }
}

#[async_trait]
impl TaskStore for Swept {
    async fn create(&self, task: Task, quota: Quota, entries: Vec<Entry>) -> Result<Task, CreateError> {
        let id = task.id;
        let created = self.call("create", self.inner.create(task, quota, entries)).await;
        self.named.lock().expect("no panic").insert(id, ());
        created
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        self.call("read", self.inner.read(id, owner)).await
    }

    async fn commit(&self, task: &Task, entries: Vec<Entry>) -> Result<CommitStatus, StoreError> {
        self.call("commit", self.inner.commit(task, entries)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        self.call("list", self.inner.list(query)).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        self.call("search", self.inner.search(search)).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        self.call("due", self.inner.due(limit)).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        self.call("held_by", self.inner.held_by(incarnation)).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        self.call("remove", self.inner.remove(ids)).await
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
        Box::new(Feed { inner: self.inner.hints(), stale: self.hints.subscribe() })
    }
}

#[async_trait]
impl NodeStore for Swept {
    async fn register(&self) -> Result<Registration, StoreError> {
        self.call("register", self.inner.register()).await
    }

    async fn renew(&self, incarnation: Incarnation) -> Result<bool, StoreError> {
        self.call("renew", self.inner.renew(incarnation)).await
    }

    async fn resign(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        self.call("resign", self.inner.resign(incarnation)).await
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.call("dead", NodeStore::dead(&*self.inner)).await
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        self.call("forget", self.inner.forget(incarnation)).await
    }
}

#[async_trait]
impl KeyStore for Swept {
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        self.call("keys", self.inner.keys(used_for)).await
    }

    async fn rotate(&self, used_for: KeyUse, keep: u32) -> Result<Key, StoreError> {
        self.call("rotate", self.inner.rotate(used_for, keep)).await
    }

    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError> {
        self.call("use_up", self.inner.use_up(id, until)).await
    }
}

/// The hints of the store, and the stale ones.
struct Feed {
    inner: Box<dyn Hints>,
    stale: broadcast::Receiver<Hint>,
}

#[async_trait]
impl Hints for Feed {
    async fn next(&mut self) -> Option<Hint> {
        tokio::select! {
            biased;
            // Nothing is taken from a feed that loses.
            Ok(hint) = self.stale.recv() => Some(hint),
            hint = self.inner.next() => hint,
        }
    }
}
