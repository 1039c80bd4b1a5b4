//! The link from a host to the shared store: sometimes slow, and sometimes failing before or after the store
//! acts. The host cannot tell which.

use crate::dice::Dice;
use crate::ledger::Writer;
use crate::tally::Happened;
use crate::time::{HostClock, StoreClock};
use crate::world::World;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use toolyard_dispatch::Timestamp;
use toolyard_store::MemoryStore;
use toolyard_task::audit::Entry;
use toolyard_task::node::{NodeStore, Registration};
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{CommitStatus, CreateError, Hints, ListQuery, Quota, ReadTask, StoreError};
use toolyard_task::task::Summary;
use toolyard_task::{Incarnation, Owner, Task, TaskId, TaskStore};

/// The duration of a lease.
pub const LEASE: Duration = Duration::from_secs(15);

/// The current state of the link: chances in percent.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// A call fails before the store acts.
    pub fails_before: u64,
    /// The store acts, and the call reports a failure.
    pub fails_after: u64,
    /// A call is delayed, before or after the store acts.
    pub slow: u64,
    /// The longest delay in milliseconds.
    pub delay: u64,
}

impl Weather {
    /// Every call succeeds at once.
    pub const CALM: Self = Self { fails_before: 0, fails_after: 0, slow: 0, delay: 0 };

    /// Random weather.
    #[must_use]
    pub fn any(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 | 1 => Self::CALM,
            2 => Self { slow: 50, delay: 30, ..Self::CALM },
            3 => Self { slow: 30, delay: 3_000, ..Self::CALM },
            4 => Self { fails_before: 10, fails_after: 10, slow: 30, delay: 100 },
            _ => Self { fails_before: 60, fails_after: 30, slow: 10, delay: 1_000 },
        }
    }
}

/// The link of one host.
pub struct Link {
    store: Arc<MemoryStore>,
    world: World,
    host: usize,
    clock: Arc<HostClock>,
    store_clock: Arc<StoreClock>,
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    weather: Weather,
    incarnations: BTreeSet<Incarnation>,
    ends_all: bool,
}

/// The faults of one call.
struct Fate {
    before: Duration,
    after: Duration,
    fails_before: bool,
    fails_after: bool,
}

impl Link {
    /// The link of this host to this store.
    #[must_use]
    pub fn new(
        store: Arc<MemoryStore>,
        world: &World,
        host: usize,
        (clock, store_clock): (Arc<HostClock>, Arc<StoreClock>),
        dice: Dice,
    ) -> Self {
        let state = State { dice, weather: Weather::CALM, incarnations: BTreeSet::new(), ends_all: false };
        Self { store, world: world.clone(), host, clock, store_clock, state: Mutex::new(state) }
    }

    /// Changes the weather from now on.
    pub fn change(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Notes that the host is about to end all its tasks.
    pub fn ends_all(&self) {
        self.state().ends_all = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics here")
    }

    fn fate(&self) -> Fate {
        let mut state = self.state();
        let State { dice, weather, .. } = &mut *state;
        let (mut before, mut after) = (0, 0);
        if weather.slow > 0 && dice.percent(weather.slow) {
            before = dice.within(0, weather.delay);
            after = dice.within(0, weather.delay);
        }
        let fails_before = weather.fails_before > 0 && dice.percent(weather.fails_before);
        let fails_after = !fails_before && weather.fails_after > 0 && dice.percent(weather.fails_after);
        drop(state);
        let mut seen = self.world.see();
        if before + after > 0 {
            seen.count(Happened::SlowCall);
        }
        if fails_before {
            seen.count(Happened::FaultBefore);
        }
        if fails_after {
            seen.count(Happened::FaultAfter);
        }
        let [before, after] = [before, after].map(Duration::from_millis);
        Fate { before, after, fails_before, fails_after }
    }

    /// Makes one call. The store acts at one moment, and its time is then at least that of this host.
    async fn call<T, E: From<StoreError>>(
        &self,
        name: &str,
        done: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let failed = || E::from(StoreError::Unavailable("the weather".into()));
        let fate = self.fate();
        if !fate.before.is_zero() {
            tokio::time::sleep(fate.before).await;
        }
        if fate.fails_before {
            self.world.see().note(format_args!("host {}: {name} is lost", self.host));
            return Err(failed());
        }
        self.store_clock.reach(self.clock.steady());
        let answer = done();
        if !fate.after.is_zero() {
            tokio::time::sleep(fate.after).await;
        }
        if fate.fails_after {
            self.world.see().note(format_args!("host {}: the answer to {name} is lost", self.host));
            return Err(failed());
        }
        answer
    }

    /// The end of a lease that begins now.
    fn lease(&self) -> Timestamp {
        self.store_clock.stamp().plus(LEASE.as_millis() as u64)
    }

    fn observed(&self, see: impl FnOnce(&mut crate::world::Seen, &Writer<'_>)) {
        let state = self.state();
        let time = self.store_clock.stamp();
        let writer =
            Writer { host: self.host, incarnations: &state.incarnations, ends_all: state.ends_all, time };
        see(&mut self.world.see(), &writer);
    }
}

/// The memory store answers at once.
fn now<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("a store in memory does not wait")
}

#[async_trait]
impl TaskStore for Link {
    async fn create(&self, task: Task, quota: Quota, entries: Vec<Entry>) -> Result<Task, CreateError> {
        self.call("create", || {
            let created = now(self.store.create(task, quota, entries))?;
            self.observed(|seen, writer| seen.created(writer, &created));
            Ok(created)
        })
        .await
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        self.call("read", || now(self.store.read(id, owner))).await
    }

    async fn commit(&self, task: &Task, entries: Vec<Entry>) -> Result<CommitStatus, StoreError> {
        self.call("commit", || {
            let committed = now(self.store.commit(task, entries))?;
            if committed == CommitStatus::Done {
                self.observed(|seen, writer| seen.committed(writer, task));
            }
            Ok(committed)
        })
        .await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        self.call("list", || now(self.store.list(query))).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        self.call("search", || now(self.store.search(search))).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        self.call("due", || now(self.store.due(limit))).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        self.call("held by", || now(self.store.held_by(incarnation))).await
    }

    async fn kept_bytes(&self, of: Option<&Owner>) -> Result<u64, StoreError> {
        self.call("kept bytes", || now(self.store.kept_bytes(of))).await
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<(Owner, u64)>, StoreError> {
        self.call("largest owners", || now(self.store.largest_owners(limit))).await
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        self.call("ended first", || now(self.store.ended_first(of, limit))).await
    }

    async fn discard(&self, tasks: Vec<(TaskId, Entry)>) -> Result<u32, StoreError> {
        self.call("discard", || now(self.store.discard(tasks.clone()))).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        self.call("remove", || {
            let stored = |id: &TaskId| now(self.store.read(*id, None)).is_ok_and(|read| read.is_some());
            let before: Vec<TaskId> = ids.iter().copied().filter(stored).collect();
            let removed = now(self.store.remove(ids))?;
            let gone: Vec<TaskId> = before.into_iter().filter(|id| !stored(id)).collect();
            let time = self.store_clock.stamp();
            self.world.see().removed(&gone, time);
            Ok(removed)
        })
        .await
    }

    fn hints(&self) -> Box<dyn Hints> {
        self.store.hints()
    }
}

#[async_trait]
impl NodeStore for Link {
    async fn register(&self) -> Result<Registration, StoreError> {
        self.call("register", || {
            let registration = now(self.store.register())?;
            let incarnation = registration.incarnation;
            let mut state = self.state();
            let first = state.incarnations.is_empty();
            if state.incarnations.insert(incarnation) {
                let mut seen = self.world.see();
                seen.note(format_args!("host {} is {incarnation}", self.host));
                let until = self.lease();
                let former = seen.ledger.leases.insert(incarnation, until);
                seen.demand(former.is_none(), format_args!("{incarnation} is two hosts"));
                if !first {
                    seen.count(Happened::LostLease);
                }
            }
            Ok(registration)
        })
        .await
    }

    async fn renew(&self, incarnation: Incarnation) -> Result<bool, StoreError> {
        self.call("renew", || {
            let renewed = now(self.store.renew(incarnation))?;
            if renewed {
                let mut seen = self.world.see();
                let dead = seen.ledger.is_dead(incarnation, self.store_clock.stamp());
                seen.demand(!dead, format_args!("{incarnation} is dead, and may renew its lease"));
                seen.ledger.leases.insert(incarnation, self.lease());
            }
            Ok(renewed)
        })
        .await
    }

    async fn resign(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        self.call("resign", || {
            now(self.store.resign(incarnation))?;
            self.world.see().ledger.leases.remove(&incarnation);
            Ok(())
        })
        .await
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        self.call("dead", || now(NodeStore::dead(&*self.store))).await
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        self.call("forget", || now(self.store.forget(incarnation))).await
    }
}
