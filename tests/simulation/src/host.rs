//! One host of the simulation: its own runtime with its own clock, which stands still between steps. A killed
//! host loses its runtime with everything in it, and the store gets no message. A paused host does not run,
//! and finds on waking that time has passed.

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
use toolyard_dispatch::{Bounds, Catalog, Dispatch, Ids, Settings, Stores};
use toolyard_kit::{StoreProxy, stores};
use toolyard_store::MemoryStore;
use toolyard_task::Digest;
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

/// A host process.
pub struct Process {
    // First, so that running work is dropped before the parts that it uses.
    runtime: Runtime,
    /// The application.
    pub dispatch: Arc<Dispatch>,
    link: Arc<StoreProxy<Link>>,
    clock: Arc<HostClock>,
    stop: CancellationToken,
    /// The component that its tools come from.
    component: Digest,
    /// Set while it shuts down; inside, the number of tasks that it left, once it is done.
    parting: Option<Arc<Mutex<Option<u64>>>>,
}

/// Identifiers that follow from a seed.
pub struct SimIds(Mutex<Dice>);

impl SimIds {
    /// Identifiers from these dice.
    #[must_use]
    pub fn new(dice: Dice) -> Self {
        Self(Mutex::new(dice))
    }
}

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
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let wrong_by = match dice.below(8) {
            0 => dice.within(0, 60_000) as i64 - 30_000,
            1..4 => dice.within(0, 200) as i64 - 100,
            _ => 0,
        };
        let clock = Arc::new(HostClock::new(runtime.handle(), now, wrong_by));
        let handle = Arc::new(shared.store.node());
        let clocks = (clock.clone(), shared.store_clock.clone());
        let link = Link::new(&shared.world, host, clocks, Dice::new(dice.roll(), 1));
        let link = StoreProxy::new(handle.clone(), link);
        let stores =
            Stores { tasks: link.clone(), nodes: link.clone(), journals: link.clone(), ..stores(&handle) };
        let ids = Arc::new(SimIds::new(Dice::new(dice.roll(), 2)));
        let guests = runtime.handle().clone();
        let dispatch = Dispatch::new(SETTINGS, stores, clock.clone(), ids, guests);
        let component = Digest(dice.pick(&guests::COMPONENTS).to_owned());
        let tools = guests::tools(&shared.world, host, &clock, &component, without);
        dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("distinct names")));
        dispatch.set_client_lookup(Arc::new(Anywhere { world: shared.world.clone(), host }));
        let stop = start_services(&runtime, &dispatch, dice);
        Self { runtime, dispatch, link, clock, stop, component, parting: None }
    }

    /// The host as a client uses it.
    pub fn reached(&self, shared: &Shared, host: usize) -> Reached {
        Reached {
            host,
            dispatch: self.dispatch.clone(),
            world: shared.world.clone(),
            store_clock: shared.store_clock.clone(),
        }
    }

    /// Starts an action of a client on this host.
    pub fn spawn(&self, does: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(does);
    }

    /// Runs the host until this time.
    pub fn drive(&mut self, until: i64) {
        let passes = u64::try_from(until - self.clock.steady()).unwrap_or(0);
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(passes)).await });
    }

    /// Wakes it after a pause: all this time passes at once.
    pub fn wake(&mut self, now: i64) {
        let passed = u64::try_from(now - self.clock.steady()).unwrap_or(0);
        self.runtime.block_on(async { tokio::time::advance(Duration::from_millis(passed)).await });
    }

    /// Gives it all tools from now on.
    pub fn complete(&self, shared: &Shared, host: usize) {
        let tools = guests::tools(&shared.world, host, &self.clock, &self.component, None);
        self.dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    }

    /// Sets the reliability of its link to the store from now on.
    pub fn weather(&self, weather: Weather) {
        self.link.intercept.change(weather);
    }

    /// Sets the error of its wall clock from now on.
    pub fn set_wrong(&self, by: i64) {
        self.clock.set_wrong(by);
    }

    /// Whether it is shutting down.
    pub fn is_parting(&self) -> bool {
        self.parting.is_some()
    }

    /// Shuts it down, like `serve` or like `stdio`.
    pub fn part(&mut self, grace: Duration, hands_over: bool) {
        use toolyard_dispatch::DrainMode;
        use toolyard_task::recovery::Departure;
        let done = Arc::new(Mutex::new(None));
        self.parting = Some(done.clone());
        let (dispatch, stop) = (self.dispatch.clone(), self.stop.clone());
        let parting = if hands_over {
            DrainMode::HandOver
        } else {
            self.link.intercept.ends_all();
            DrainMode::End(Departure::PipeClosed)
        };
        self.runtime.spawn(async move {
            let drained = dispatch.drain(grace, parting).await;
            // Services end with the application that they serve.
            stop.cancel();
            *done.lock().expect("no thread panics here") = Some(drained.handed_over as u64);
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
}

/// Starts the services of a host, which end with the token. Half of the hosts recover tasks at once, like `serve`;
/// the others do at the first request about a task, like other commands.
pub fn start_services(runtime: &Runtime, dispatch: &Arc<Dispatch>, dice: &mut Dice) -> CancellationToken {
    let stop = CancellationToken::new();
    runtime.spawn(dispatch.clone().keep_time(stop.clone()));
    runtime.spawn(dispatch.clone().keep_lease(stop.clone()));
    if dice.percent(50) {
        let dispatch = dispatch.clone();
        runtime.spawn(async move { dispatch.recover_now().await });
    }
    stop
}
