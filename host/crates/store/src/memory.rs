//! The store in memory: the reference implementation of the ports, with scans rather than indexes.
//! Its content is lost when the process ends.
//!
//! Several hosts can share one store: each has a handle with its own incarnation, and a handle can
//! be killed like a process.

mod audit;
mod erasure;
mod grants;
mod journal;
mod messages;
mod nodes;
mod questions;
mod search;
mod timeline;

use crate::backend::Backend;
use crate::codec;
use crate::monotonic_clock::MonotonicClock;
use crate::reencryption::{ReencryptionReport, SealWith};
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, broadcast, watch};
use toolyard_task::audit::Entry;
use toolyard_task::grant::{Grant, GrantId};
use toolyard_task::keys::Key;
use toolyard_task::search::{Page, Search};
use toolyard_task::session::Session;
use toolyard_task::store::{
    CommitStatus, CreateError, Hint, Hints, Quota, QuotaScope, ReadTask, Records, Removable, TaskQuestion,
    TaskStore, Total,
};
use toolyard_task::task::{Summary, Task};
use toolyard_task::timeline::TimelineBounds;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Clock, Incarnation, Owner, SessionId, StoreError, TaskId};
use uuid::Uuid;

/// A host that falls further behind than this gets the hint to read everything again.
const MAX_HINTS: usize = 1024;

/// The handle of one host to a store in memory.
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// Distinguishes this handle's hints from those of others.
    handle: u64,
    /// Dropping it ends the handle's feeds; `None` once the handle is killed.
    life: Mutex<Option<watch::Sender<()>>>,
    incarnation: Mutex<Option<Incarnation>>,
}

struct Shared {
    clock: MonotonicClock,
    handles: AtomicU64,
    hints: broadcast::Sender<(u64, Hint)>,
    words: broadcast::Sender<(u64, String)>,
    /// The prefix of the ids of audit entries.
    name: String,
    written: Notify,
    state: Mutex<State>,
}

/// The maps are ordered, so that a simulation run can be repeated exactly.
#[derive(Default)]
struct State {
    tasks: BTreeMap<TaskId, Task>,
    /// The live ones, which are few: a creation scans only these.
    live: BTreeSet<TaskId>,
    sessions: BTreeMap<SessionId, Session>,
    keys: BTreeMap<&'static str, Vec<Key>>,
    /// Used states and their expiry times.
    used: BTreeMap<Uuid, Timestamp>,
    grants: BTreeMap<GrantId, Grant>,
    /// The registered hosts.
    hosts: BTreeMap<Incarnation, nodes::Life>,
    /// How long a host lives after each renewal, if hosts have leases.
    lease: Option<Duration>,
    incarnations: u64,
    /// Waiting tasks that were offered to a host, and the time until which they are offered to no
    /// other.
    told: BTreeMap<TaskId, Timestamp>,
    audit: audit::AuditRows,
    timelines: timeline::Timelines,
    journals: journal::Journals,
}

impl MemoryStore {
    /// An empty store and the first handle to it.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::of(Arc::new(Shared {
            clock: MonotonicClock::new(clock),
            handles: AtomicU64::new(0),
            hints: broadcast::Sender::new(MAX_HINTS),
            words: broadcast::Sender::new(MAX_HINTS),
            name: audit::name(),
            written: Notify::new(),
            state: Mutex::default(),
        }))
    }

    /// The same store, but it keeps audit entries from now on.
    #[must_use]
    pub fn audited(self) -> Self {
        self.shared.state.lock().audit.on = true;
        self
    }

    /// The same store, but it keeps this much of timelines.
    #[must_use]
    pub fn with_timelines(self, bounds: TimelineBounds) -> Self {
        self.shared.state.lock().timelines.bounds = bounds;
        self
    }

    /// The same store, but its hosts have leases of this length, as in a store that several
    /// machines share. A killed host is found dead when its lease has expired.
    #[must_use]
    pub fn leased(self, lease: Duration) -> Self {
        self.shared.state.lock().lease = Some(lease);
        self
    }

    /// A handle for another host on the same store.
    #[must_use]
    pub fn node(&self) -> Self {
        Self::of(self.shared.clone())
    }

    /// Ends this handle as `kill -9` ends a process: its incarnation is dead, its feeds end, and
    /// further calls through it fail.
    pub fn kill(&self) {
        let mut state = self.shared.state.lock();
        self.life.lock().take();
        let incarnation = *self.incarnation.lock();
        if state.lease.is_none()
            && let Some(life) = incarnation.and_then(|incarnation| state.hosts.get_mut(&incarnation))
        {
            life.lives = false;
        }
    }

    fn of(shared: Arc<Shared>) -> Self {
        Self {
            handle: shared.handles.fetch_add(1, Ordering::Relaxed),
            shared,
            life: Mutex::new(Some(watch::Sender::new(()))),
            incarnation: Mutex::new(None),
        }
    }

    /// Locks the state, unless this handle was killed.
    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // Locks the state before the life, as `kill` does, so that nothing is written after a kill.
        let state = self.shared.state.lock();
        if self.life.lock().is_none() {
            return Err(StoreError::Unavailable(StoreRefusal::Closed.into()));
        }
        Ok(state)
    }

    /// Sent only when the change can be read, because the receiver of a hint reads at once.
    fn changed(&self, id: TaskId) {
        // There may be no receiver.
        let _ = self.shared.hints.send((self.handle, Hint::Task(id)));
        self.shared.written.notify_one();
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.kill();
    }
}

impl State {
    fn live(&self) -> impl Iterator<Item = &Task> {
        self.live.iter().filter_map(|id| self.tasks.get(id))
    }

    fn put(&mut self, task: Task) {
        if task.is_live() {
            self.live.insert(task.id);
        } else {
            self.live.remove(&task.id);
        }
        if task.parked().is_some() {
            self.told.remove(&task.id);
        }
        self.tasks.insert(task.id, task);
    }

    fn check_quota(&self, task: &Task, quota: Quota) -> Result<(), CreateError> {
        let of_owner = || self.live().filter(|live| live.owner == task.owner);
        let parked = of_owner().filter(|live| live.parked().is_some()).count();
        if of_owner().count() - parked >= quota.per_owner as usize {
            return Err(CreateError::Full { scope: QuotaScope::Owner, limit: quota.per_owner });
        }
        if parked >= quota.parked_per_owner as usize {
            return Err(CreateError::Full { scope: QuotaScope::Parked, limit: quota.parked_per_owner });
        }
        if self.live().count() >= quota.in_all as usize {
            return Err(CreateError::Full { scope: QuotaScope::Store, limit: quota.in_all });
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for MemoryStore {
    fn is_durable(&self) -> bool {
        false
    }

    fn register_metrics(&self, _registry: &mut Registry) {}

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Nothing is sealed here.
    async fn reseal(
        &self,
        _with: SealWith,
        _progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<ReencryptionReport, StoreError> {
        Ok(ReencryptionReport::default())
    }

    async fn shut_down(self: Arc<Self>) {}
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn create(&self, mut task: Task, quota: Quota, records: Records) -> Result<Task, CreateError> {
        {
            let mut state = self.state()?;
            state.check_quota(&task, quota)?;
            if state.tasks.contains_key(&task.id) {
                return Err(StoreError::Corrupt(StoreRefusal::Exists(task.id.to_string()).into()).into());
            }
            let now = self.shared.clock.now();
            task.created_at = now;
            task.updated_at = now;
            task.started_at = task.started_at.map(|_| now);
            state.keep(now, &records.audit)?;
            state.record(&task, now, records.timeline);
            state.journals.create(&task);
            state.put(task.clone());
        }
        self.changed(task.id);
        Ok(task)
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        let state = self.state()?;
        let task = state.tasks.get(&id).filter(|task| owner.is_none_or(|owner| task.owner == *owner));
        Ok(task.map(|task| ReadTask { task: task.clone(), now: self.shared.clock.now() }))
    }

    async fn commit(&self, task: &Task, records: Records) -> Result<CommitStatus, StoreError> {
        {
            let mut state = self.state()?;
            let Some(stored) = state.tasks.get(&task.id) else { return Ok(CommitStatus::Stale) };
            if stored.version + 1 != task.version {
                return Ok(CommitStatus::Stale);
            }
            // Arguments are written once.
            let arguments = stored.arguments.clone();
            state.keep(task.updated_at, &records.audit)?;
            let at = self.shared.clock.now().max(task.updated_at);
            state.record(task, at, records.timeline);
            state.journals.move_fence(task);
            if let Some(last) = records.journal {
                state.journals.end(task.id, last);
            }
            state.put(Task { arguments, ..task.clone() });
        }
        self.changed(task.id);
        Ok(CommitStatus::Done)
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        let state = self.state()?;
        Ok(search::search(&state, search, self.shared.clock.now()))
    }

    async fn select(&self, question: TaskQuestion, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let now = self.shared.clock.now();
        Ok(self.state()?.select(question, limit as usize, now))
    }

    async fn remove(
        &self,
        tasks: Vec<(TaskId, Vec<Entry>)>,
        removable: Removable,
    ) -> Result<u32, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let mut removed = 0;
        for (id, entries) in tasks {
            let is_removable = |task: &Task| match removable {
                Removable::Gone => task.is_gone(now),
                Removable::Ended => !task.is_live(),
            };
            if state.tasks.get(&id).is_some_and(is_removable) {
                state.keep(now, &entries)?;
                state.remove_task(id);
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn total(&self, of: Total<'_>) -> Result<u64, StoreError> {
        let state = self.state()?;
        let is_of = |task: &&Task, of: Option<&Owner>| of.is_none_or(|of| task.owner == *of);
        Ok(match of {
            Total::Bytes(of) => state.tasks.values().filter(|task| is_of(task, of)).map(kept_of).sum(),
            Total::JournalBytes(None) => state.journals.bytes(state.tasks.keys()),
            Total::JournalBytes(of) => {
                state.journals.bytes(state.live().filter(|task| is_of(task, of)).map(|task| &task.id))
            }
            Total::Parked => state.live().filter(|task| task.parked().is_some()).count() as u64,
        })
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<Owner>, StoreError> {
        let state = self.state()?;
        let mut owners = BTreeMap::new();
        for task in state.tasks.values() {
            owners.entry(task.owner.key()).or_insert((0, &task.owner)).0 += kept_of(task);
        }
        let mut owners: Vec<(u64, &Owner)> = owners.into_values().collect();
        owners.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        Ok(owners.into_iter().take(limit as usize).map(|(_, owner)| owner.clone()).collect())
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        let state = self.state()?;
        let ended = state.tasks.values().filter(|task| !task.is_live() && task.owner == *of);
        let mut ended: Vec<&Task> = ended.collect();
        ended.sort_by_key(|task| (task.updated_at, task.id));
        let first = ended.into_iter().take(limit as usize);
        Ok(first.map(|task| (Summary::of(task), kept_of(task))).collect())
    }

    fn is_shared(&self) -> bool {
        self.shared.state.lock().lease.is_some()
    }

    fn hints(&self) -> Box<dyn Hints> {
        let life = self.life.lock().as_ref().map(watch::Sender::subscribe);
        Box::new(Feed { handle: self.handle, life, feed: self.shared.hints.subscribe() })
    }
}

/// The bytes kept for a task, counted roughly as a store on a disk counts them.
fn kept_of(task: &Task) -> u64 {
    let outcome = task.outcome.as_ref().and_then(|outcome| codec::outcome(outcome).ok());
    let record = codec::encode(task).map_or(0, |record| record.len());
    (record + task.arguments.as_bytes().len() + outcome.map_or(0, |outcome| outcome.len())) as u64
}

/// Hints about changes by other handles.
struct Feed {
    handle: u64,
    life: Option<watch::Receiver<()>>,
    feed: broadcast::Receiver<(u64, Hint)>,
}

#[async_trait]
impl Hints for Feed {
    async fn next(&mut self) -> Option<Hint> {
        let life = self.life.as_mut()?;
        loop {
            // Both arms only wait for something that persists, so dropping one of them loses
            // nothing.
            let got = tokio::select! {
                biased;
                _ = life.changed() => return None,
                got = self.feed.recv() => got,
            };
            match got {
                Ok((from, _)) if from == self.handle => {}
                Ok((_, hint)) => return Some(hint),
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(Hint::Anything),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
