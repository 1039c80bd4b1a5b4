//! One host of the simulation: its own runtime with its own clock, which stands still between steps. A killed
//! host loses its runtime with everything in it, and the store gets no message. A paused host does not run,
//! and finds on waking that time has passed.

use crate::clients::{Anywhere, Reached};
use crate::dice::Dice;
use crate::guests;
use crate::ledger::ATTEMPTS;
use crate::link::Link;
use crate::time::{HostClock, StoreClock};
use crate::trace::Observed as _;
use crate::world::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{Bounds, Catalog, Dispatch, DrainMode, Ids, Settings, Stores};
use toolyard_kit::{StoreProxy, stores};
use toolyard_store::MemoryStore;
use toolyard_task::recovery::Departure;
use toolyard_task::{Digest, Tool};
use uuid::Uuid;

/// The most runs of a host.
pub const SLOTS: u32 = 4;
/// The most of them for one owner.
pub const SLOTS_OF_OWNER: usize = 3;

/// Few slots, so that tasks wait, and times that pass within a simulation.
const SETTINGS: Settings = Settings {
    ttl_default_ms: 240_000,
    ttl_cap_ms: 600_000,
    admission: Bounds {
        running: SLOTS,
        running_per_principal: SLOTS_OF_OWNER as u32,
        waiting_per_principal: 20,
        parked_per_principal: 20,
    },
    live_tasks: 50,
    attempts: ATTEMPTS,
    rerun_after_ms: 1_000,
    question_ms: 40_000,
    question_settle_ms: 500,
    inline_for_ms: 500,
    bridge: None,
    queue_when_busy: false,
    ..toolyard_kit::SETTINGS
};

/// The parts of a host process that every simulation has.
pub struct Machine {
    // First, so that running work is dropped before the parts that it uses.
    runtime: Runtime,
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// The clocks of the process.
    pub clock: Arc<HostClock>,
    stop: CancellationToken,
}

impl Machine {
    /// Starts an application on a runtime of its own. Half of the hosts recover tasks at once, like `serve`; the
    /// others do at the first request about a task, like other commands.
    #[must_use]
    pub fn start(
        settings: Settings,
        (now, wrong_by): (i64, i64),
        dice: &mut Dice,
        stores: impl FnOnce(&Arc<HostClock>, &mut Dice) -> Stores,
        tools: impl FnOnce(&Arc<HostClock>) -> Vec<Arc<dyn Tool>>,
    ) -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let clock = Arc::new(HostClock::new(runtime.handle(), now, wrong_by));
        let stores = stores(&clock, dice);
        let ids = Arc::new(SimIds(Mutex::new(Dice::new(dice.roll(), 2))));
        let dispatch = Dispatch::new(settings, stores, clock.clone(), ids, runtime.handle().clone());
        let stop = CancellationToken::new();
        let machine = Self { runtime, dispatch, clock, stop };
        machine.publish(tools(&machine.clock));
        machine.spawn(machine.dispatch.clone().keep_time(machine.stop.clone()));
        machine.spawn(machine.dispatch.clone().keep_lease(machine.stop.clone()));
        if dice.percent(50) {
            let dispatch = machine.dispatch.clone();
            machine.spawn(async move { dispatch.recover_now().await });
        }
        machine
    }

    /// Offers these tools from now on.
    pub fn publish(&self, tools: Vec<Arc<dyn Tool>>) {
        self.dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    }

    /// Starts an action of a client on this host.
    pub fn spawn(&self, does: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(does);
    }

    /// Runs it for this many milliseconds.
    pub fn drive(&self, time: u64) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(time)).await });
    }

    /// Starts its shutdown. The returned value is the number of tasks that it left, once it is done.
    pub fn drain(&self, grace: Duration, mode: DrainMode) -> Arc<Mutex<Option<usize>>> {
        let done = Arc::new(Mutex::new(None));
        let (dispatch, stop, is_done) = (self.dispatch.clone(), self.stop.clone(), done.clone());
        self.spawn(async move {
            let drained = dispatch.drain(grace, mode).await;
            // Services end with the application that they serve.
            stop.cancel();
            *is_done.lock().expect("no thread panics here") = Some(drained.handed_over);
        });
        done
    }
}

/// A host process.
pub struct Process {
    // First, as in the machine.
    /// Its runtime, application and clocks.
    pub machine: Machine,
    /// Its link to the store.
    pub link: Arc<StoreProxy<Link>>,
    /// The component that its tools come from.
    component: Digest,
    /// Set while it shuts down; inside, the number of tasks that it left, once it is done.
    parting: Option<Arc<Mutex<Option<usize>>>>,
}

/// Identifiers that follow from a seed.
struct SimIds(Mutex<Dice>);

impl Ids for SimIds {
    fn uuid(&self) -> Uuid {
        let mut dice = self.0.lock().expect("no thread panics here");
        let bytes = (u128::from(dice.roll()) << 64) | u128::from(dice.roll());
        uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid()
    }
}

/// The parts that hosts share.
pub struct Shared {
    /// The observed world.
    pub world: World,
    /// The store.
    pub store: MemoryStore,
    /// Its clock.
    pub store_clock: Arc<StoreClock>,
}

impl Process {
    /// Starts a host, which lacks the tool `without`, if any.
    #[must_use]
    pub fn start(shared: &Shared, host: usize, now: i64, dice: &mut Dice, without: Option<usize>) -> Self {
        let wrong_by = match dice.below(8) {
            0 => dice.within(0, 60_000) as i64 - 30_000,
            1..4 => dice.within(0, 200) as i64 - 100,
            _ => 0,
        };
        let component = Digest(dice.pick(&guests::COMPONENTS).to_owned());
        let handle = Arc::new(shared.store.node());
        let mut link = None;
        let linked = |clock: &Arc<HostClock>, dice: &mut Dice| {
            let clocks = (clock.clone(), shared.store_clock.clone());
            let own = Link::new(&shared.world, host, clocks, Dice::new(dice.roll(), 1));
            let link = link.insert(StoreProxy::new(handle.clone(), own));
            Stores { tasks: link.clone(), nodes: link.clone(), journals: link.clone(), ..stores(&handle) }
        };
        let tools = |clock: &_| guests::tools(&shared.world, host, clock, &component, without);
        let machine = Machine::start(SETTINGS, (now, wrong_by), dice, linked, tools);
        machine.dispatch.set_client_lookup(Arc::new(Anywhere { world: shared.world.clone(), host }));
        let link = link.expect("its stores are linked");
        Self { machine, link, component, parting: None }
    }

    /// The host as a client uses it.
    pub fn reached(&self, shared: &Shared, host: usize) -> Reached {
        Reached {
            host,
            dispatch: self.machine.dispatch.clone(),
            world: shared.world.clone(),
            store_clock: shared.store_clock.clone(),
        }
    }

    /// The number of its runs.
    pub fn runs(&self) -> u32 {
        self.machine.dispatch.load().runs
    }

    /// Milliseconds until this time.
    fn until(&self, time: i64) -> u64 {
        u64::try_from(time - self.machine.clock.steady()).unwrap_or(0)
    }

    /// Runs the host until this time.
    pub fn drive(&self, until: i64) {
        self.machine.drive(self.until(until));
    }

    /// Wakes it after a pause: all this time passes at once.
    pub fn wake(&self, now: i64) {
        let passed = Duration::from_millis(self.until(now));
        self.machine.runtime.block_on(async { tokio::time::advance(passed).await });
    }

    /// Gives it all tools from now on.
    pub fn complete(&self, shared: &Shared, host: usize) {
        self.machine.publish(guests::tools(&shared.world, host, &self.machine.clock, &self.component, None));
    }

    /// Whether it is shutting down.
    pub fn is_parting(&self) -> bool {
        self.parting.is_some()
    }

    /// Shuts it down, like `serve` or like `stdio`.
    pub fn part(&mut self, grace: Duration, hands_over: bool) {
        let mode = if hands_over {
            DrainMode::HandOver
        } else {
            self.link.intercept.ends_all();
            DrainMode::End(Departure::PipeClosed)
        };
        self.parting = Some(self.machine.drain(grace, mode));
    }

    /// Whether it has shut down.
    pub fn has_parted(&self, world: &World) -> bool {
        let Some(parting) = &self.parting else { return false };
        let left = *parting.lock().expect("no thread panics here");
        for _ in 0..left.unwrap_or(0) {
            world.see().count("hand-overs");
        }
        left.is_some()
    }
}
