//! The link from a host to the shared store: sometimes slow, and sometimes failing before or after the store
//! acts. The host cannot tell which.

use crate::dice::Dice;
use crate::ledger::Writer;
use crate::time::{HostClock, StoreClock};
use crate::trace::{Observed as _, demand};
use crate::world::World;
use futures_util::FutureExt as _;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use toolyard_dispatch::Timestamp;
use toolyard_kit::Intercept;
use toolyard_task::journal::{Chunk, Flush};
use toolyard_task::{Fence, Incarnation, StoreError, Task, TaskId};

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
    /// Each call of this operation fails before the store acts.
    pub lost: Option<&'static str>,
}

impl Weather {
    /// Every call succeeds at once.
    pub const CALM: Self = Self { fails_before: 0, fails_after: 0, slow: 0, delay: 0, lost: None };

    /// Random weather.
    #[must_use]
    pub fn any(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 | 1 => Self::CALM,
            2 => Self { slow: 50, delay: 30, ..Self::CALM },
            3 => Self { slow: 30, delay: 3_000, ..Self::CALM },
            4 => Self { fails_before: 10, fails_after: 10, slow: 30, delay: 100, lost: None },
            _ => Self { fails_before: 60, fails_after: 30, slow: 10, delay: 1_000, lost: None },
        }
    }
}

/// The link of one host.
pub struct Link {
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
        world: &World,
        host: usize,
        (clock, store_clock): (Arc<HostClock>, Arc<StoreClock>),
        dice: Dice,
        weather: Weather,
    ) -> Self {
        let state = State { dice, weather, incarnations: BTreeSet::new(), ends_all: false };
        Self { world: world.clone(), host, clock, store_clock, state: Mutex::new(state) }
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

    fn fate(&self, operation: &str) -> Fate {
        let mut state = self.state();
        let State { dice, weather, .. } = &mut *state;
        let (mut before, mut after) = (0, 0);
        if weather.slow > 0 && dice.percent(weather.slow) {
            before = dice.within(0, weather.delay);
            after = dice.within(0, weather.delay);
        }
        let fails_before =
            weather.lost == Some(operation) || weather.fails_before > 0 && dice.percent(weather.fails_before);
        let fails_after = !fails_before && weather.fails_after > 0 && dice.percent(weather.fails_after);
        drop(state);
        let mut seen = self.world.see();
        if before + after > 0 {
            seen.count("slow store calls");
        }
        if fails_before {
            seen.count("store faults before the write");
        }
        if fails_after {
            seen.count("store faults after the write");
        }
        let [before, after] = [before, after].map(Duration::from_millis);
        Fate { before, after, fails_before, fails_after }
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

impl Intercept for Link {
    /// Makes one call. The store acts at one moment, and its clock then shows at least the time of this host.
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let failed = || E::from(StoreError::Unavailable("the weather".into()));
        let fate = self.fate(name);
        if !fate.before.is_zero() {
            tokio::time::sleep(fate.before).await;
        }
        if fate.fails_before {
            self.world.see().note(format_args!("host {}: {name} is lost", self.host));
            return Err(failed());
        }
        self.store_clock.reach(self.clock.steady());
        let answer = call.now_or_never().expect("a store in memory does not wait");
        if !fate.after.is_zero() {
            tokio::time::sleep(fate.after).await;
        }
        if fate.fails_after {
            self.world.see().note(format_args!("host {}: the answer to {name} is lost", self.host));
            return Err(failed());
        }
        answer
    }

    fn created(&self, task: &Task) {
        self.observed(|seen, writer| {
            seen.created(writer, task);
            seen.bridge.created(task);
        });
    }

    fn committed(&self, task: &Task) {
        self.observed(|seen, writer| {
            seen.committed(writer, task);
            seen.bridge.committed(task);
        });
    }

    fn removed(&self, ids: &[TaskId]) {
        let time = self.store_clock.stamp();
        self.world.see().removed(ids, time);
    }

    fn appended(&self, task: TaskId, fence: Fence, at: u32, chunks: &[Chunk], flush: Flush) {
        self.world.see().appended(task, fence, at, chunks, flush);
    }

    fn restarted(&self, task: TaskId, fence: Fence, at: u32, chunks: &[Chunk]) {
        self.world.see().restarted(task, fence, at, chunks);
    }

    fn refused(&self, task: TaskId, fence: Fence) {
        self.world.see().append_refused(task, fence);
    }

    fn registered(&self, incarnation: Incarnation) {
        let mut state = self.state();
        let first = state.incarnations.is_empty();
        if state.incarnations.insert(incarnation) {
            let mut seen = self.world.see();
            seen.note(format_args!("host {} is {incarnation}", self.host));
            let until = self.lease();
            let former = seen.ledger.leases.insert(incarnation, until);
            demand!(seen, former.is_none(), "{incarnation} is two hosts");
            if !first {
                seen.count("lost leases");
            }
        }
    }

    fn renewed(&self, incarnation: Incarnation) {
        let mut seen = self.world.see();
        let dead = seen.ledger.is_dead(incarnation, self.store_clock.stamp());
        demand!(seen, !dead, "{incarnation} is dead, and may renew its lease");
        seen.ledger.leases.insert(incarnation, self.lease());
        seen.ledger.shortened.remove(&incarnation);
    }

    fn forgotten(&self, incarnation: Incarnation) {
        self.world.see().ledger.leases.remove(&incarnation);
    }
}
