//! One host of the simulation: its own runtime with its own clock, which stands still between steps. A killed
//! host loses its runtime with everything in it, and the store gets no message. A paused host does not run,
//! and finds on waking that time has passed.

use crate::bridge::promises::{Fault, Promises};
use crate::clients::{Anywhere, Reached};
use crate::dice::Dice;
use crate::guests;
use crate::ledger::ATTEMPTS;
use crate::link::{Link, Weather};
use crate::time::{HostClock, StoreClock};
use crate::trace::Observed as _;
use crate::world::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{Catalog, Dispatch, DrainMode, Ids, Settings, Stores};
use toolyard_kit::{StoreProxy, bounds, stores};
use toolyard_store::MemoryStore;
use toolyard_task::recovery::Departure;
use toolyard_task::{Digest, Tool};
use uuid::Uuid;

/// The most runs of a host.
pub const SLOTS: u32 = 4;
/// The most of them for one owner.
pub const SLOTS_OF_OWNER: usize = 3;

/// How long a process that has shut down still delivers replies.
const LAST_REPLIES: Duration = Duration::from_millis(100);

/// Few slots, so that tasks wait, and times that pass within a simulation.
const SETTINGS: Settings = Settings {
    ttl_default_ms: 240_000,
    ttl_cap_ms: 600_000,
    admission: bounds(SLOTS, SLOTS_OF_OWNER as u32, 20),
    live_tasks: 50,
    attempts: ATTEMPTS,
    rerun_after_ms: 1_000,
    question_ms: 40_000,
    question_settle_ms: 500,
    inline_for_ms: 500,
    ..toolyard_kit::SETTINGS
};

/// A host process.
pub struct Process {
    // First, so that running work is dropped before the parts that it uses.
    runtime: Runtime,
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// The clocks of the process.
    pub clock: Arc<HostClock>,
    stop: CancellationToken,
    /// Its link to the store.
    pub link: Arc<StoreProxy<Link>>,
    node: Arc<MemoryStore>,
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
    /// The promises to clients without tasks; `None` if all clients know tasks.
    pub(crate) bridge: Option<Promises>,
}

impl Process {
    /// Starts an application on a runtime of its own. Half of the hosts recover tasks at once, like `serve`; the
    /// others do at the first request about a task, like other commands.
    #[must_use]
    pub fn start(shared: &Shared, host: usize, now: i64, dice: &mut Dice) -> Self {
        let Shared { world, store, store_clock, bridge } = shared;
        let (settings, weather) = match bridge {
            Some(promises) => {
                let lost = (promises.fault == Fault::IndexLost).then_some("search");
                (promises.settings(), Weather { slow: promises.slow, delay: 40, lost, ..Weather::CALM })
            }
            None => (SETTINGS, Weather::CALM),
        };
        let wrong_by = match dice.below(8) {
            _ if bridge.is_some() => 0,
            0 => dice.within(0, 60_000) as i64 - 30_000,
            1..4 => dice.within(0, 200) as i64 - 100,
            _ => 0,
        };
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let clock = Arc::new(HostClock::new(runtime.handle(), now, wrong_by));
        let node = Arc::new(store.node());
        let clocks = (clock.clone(), store_clock.clone());
        let link = Link::new(world, host, clocks, Dice::new(dice.roll(), 1), weather);
        let link = StoreProxy::new(node.clone(), link);
        let stores =
            Stores { tasks: link.clone(), nodes: link.clone(), journals: link.clone(), ..stores(&node) };
        let ids = Arc::new(SimIds(Mutex::new(Dice::new(dice.roll(), 2))));
        let dispatch = Dispatch::new(settings, stores, clock.clone(), ids, runtime.handle().clone());
        dispatch.set_client_lookup(Arc::new(Anywhere { world: world.clone(), host }));
        let component = Digest(dice.pick(&guests::COMPONENTS).to_owned());
        let stop = CancellationToken::new();
        let process = Self { runtime, dispatch, clock, stop, link, node, component, parting: None };
        let without = dice.percent(10).then(|| dice.below(guests::TOOLS.len() as u64) as usize);
        process.publish(match bridge {
            Some(promises) => guests::bridge_tools(world, host, *promises),
            None => guests::tools(world, host, &process.clock, &process.component, without),
        });
        if bridge.is_some() {
            world.see().bridge.clock = Some(process.clock.clone());
        }
        process.spawn(process.dispatch.clone().keep_time(process.stop.clone()));
        process.spawn(process.dispatch.clone().keep_lease(process.stop.clone()));
        if dice.percent(50) {
            let dispatch = process.dispatch.clone();
            process.spawn(async move { dispatch.recover_now().await });
        }
        process
    }

    /// Offers these tools from now on.
    fn publish(&self, tools: Vec<Arc<dyn Tool>>) {
        self.dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    }

    /// Starts an action of a client on this host.
    pub fn spawn(&self, does: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(does);
    }

    /// The host as a client uses it.
    pub fn reached(&self, shared: &Shared, host: usize) -> Reached {
        let (dispatch, world) = (self.dispatch.clone(), shared.world.clone());
        Reached { host, dispatch, world, store_clock: shared.store_clock.clone() }
    }

    /// The number of its runs.
    pub fn runs(&self) -> u32 {
        self.dispatch.load().runs
    }

    /// Milliseconds until this time.
    fn until(&self, time: i64) -> u64 {
        u64::try_from(time - self.clock.steady()).unwrap_or(0)
    }

    /// Runs the host until this time.
    pub fn drive(&self, until: i64) {
        let time = Duration::from_millis(self.until(until));
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Wakes it after a pause: all this time passes at once.
    pub fn wake(&self, now: i64) {
        let passed = Duration::from_millis(self.until(now));
        self.runtime.block_on(async { tokio::time::advance(passed).await });
    }

    /// Gives it all tools from now on.
    pub fn complete(&self, shared: &Shared, host: usize) {
        self.publish(guests::tools(&shared.world, host, &self.clock, &self.component, None));
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
        let parting = self.parting.insert(Arc::default()).clone();
        let (dispatch, stop) = (self.dispatch.clone(), self.stop.clone());
        self.spawn(async move {
            let drained = dispatch.drain(grace, mode).await;
            // Services end with the application that they serve.
            stop.cancel();
            tokio::time::sleep(LAST_REPLIES).await;
            *parting.lock().expect("no thread panics here") = Some(drained.handed_over);
        });
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

    /// Ends it like a kill: it writes and sends nothing more.
    pub fn end(self, shared: &Shared) {
        shared.world.see().bridge.host_is_gone();
        drop(self.runtime);
        self.node.kill();
        if shared.bridge.is_some() {
            // Its hosts have no leases: a killed one is dead at once.
            shared.world.see().ledger.leases.clear();
        }
    }
}
