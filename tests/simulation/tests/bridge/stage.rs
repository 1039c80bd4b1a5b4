//! The host of a timeline: one process after another on one store, with guests whose effects are counted.

use crate::clients::Leaving;
use crate::effects::{World, number_in};
use futures_util::FutureExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_dispatch::{
    Bounds, BridgeSettings, BridgedClient, ClientPattern, OnClientTimeout, RawJson, RpcError, Settings,
    Stores, TaskSupport,
};
use toolyard_kit::{Intercept, StoreProxy, bridge, done, native, stores};
use toolyard_simulation::dice::Dice;
use toolyard_simulation::host::Machine;
use toolyard_simulation::time::{HostClock, StoreClock};
use toolyard_simulation::trace::Observed as _;
use toolyard_store::MemoryStore;
use toolyard_task::{Durability, RunContext, RunEnd, StoreError, Task, Tool};

/// A tool whose guests count an effect.
pub struct CountedTool {
    pub name: &'static str,
    pub reruns: bool,
    support: TaskSupport,
}

/// One tool for each durability and each task support that allows a hand-off.
pub const TOOLS: [CountedTool; 4] = [
    CountedTool { name: "look", reruns: true, support: TaskSupport::Optional },
    CountedTool { name: "pay", reruns: false, support: TaskSupport::Optional },
    CountedTool { name: "scan", reruns: true, support: TaskSupport::Required },
    CountedTool { name: "order", reruns: false, support: TaskSupport::Required },
];

/// The agent of a stateless client whose calls outlive its connection.
pub const KEEPER: &str = "keeper";

/// A fault of the host, planted to show that the check finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// No call joins an ended task.
    NoRejoin,
    /// The host does not rebuild its index of kept tasks from the store.
    IndexLost,
    /// The transport reports that a lost reply was written.
    LostIsWritten,
    /// All tools run again after the death of their host.
    AllRerun,
    /// A timeout stops the call.
    TimeoutStops,
}

/// The promises that follow from the settings of a timeline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Promises {
    pub after: u64,
    /// Whether a timeout keeps a call.
    pub keeps_timeouts: bool,
    /// Whether the stateless clients are keepers.
    pub keeps_disconnects: bool,
    pub grace: i64,
    pub rejoin: i64,
    pub queues: bool,
    pub is_slow: bool,
}

impl Promises {
    pub fn any(dice: &mut Dice) -> Self {
        Self {
            after: dice.pick(&[0, 2_000, 6_000, 6_000]),
            keeps_timeouts: dice.percent(85),
            keeps_disconnects: dice.percent(50),
            grace: 5_000,
            rejoin: 60_000,
            queues: dice.percent(80),
            is_slow: dice.percent(30),
        }
    }

    /// Whether the host keeps a call, if its owner can find it. `is_presumed`: the host takes it for a timeout.
    pub fn keeps(&self, leaving: Leaving, is_presumed: bool) -> bool {
        match leaving {
            Leaving::Timeout => self.keeps_timeouts,
            Leaving::Unsaid => self.keeps_timeouts && is_presumed,
            Leaving::Disconnect => self.keeps_disconnects,
            Leaving::Detach => true,
            Leaving::Person | Leaving::Broken | Leaving::Silence => false,
        }
    }

    fn settings(&self, fault: Fault) -> Settings {
        let keeps = self.keeps_timeouts && fault != Fault::TimeoutStops;
        let keeper = BridgedClient {
            name: ClientPattern::new(KEEPER).expect("a pattern"),
            after: None,
            wait: None,
            keeps_on_disconnect: true,
        };
        let rejoin = if fault == Fault::NoRejoin { 0 } else { self.rejoin };
        let bridge = BridgeSettings {
            wait: Duration::from_secs(5),
            on_client_timeout: if keeps { OnClientTimeout::Keep } else { OnClientTimeout::Stop },
            grace: Duration::from_millis(self.grace.unsigned_abs()),
            rejoin: Duration::from_millis(rejoin.unsigned_abs()),
            clients: vec![keeper],
            ..bridge(Duration::from_millis(self.after))
        };
        Settings {
            admission: Bounds {
                running: 5,
                running_per_principal: 3,
                waiting_per_principal: 20,
                parked_per_principal: 20,
            },
            rerun_after_ms: 500,
            bridge: Some(Arc::new(bridge)),
            queue_when_busy: self.queues,
            ..toolyard_kit::SETTINGS
        }
    }
}

/// A host process.
pub struct Process {
    pub machine: Machine,
    node: Arc<MemoryStore>,
}

/// The parts that outlive a host.
pub struct Ground {
    pub world: World,
    pub store: MemoryStore,
    pub clock: Arc<StoreClock>,
    pub fault: Fault,
}

impl Process {
    pub fn start(ground: &Ground, now: i64, dice: &mut Dice) -> Self {
        let promises = ground.world.see().promises;
        let node = Arc::new(ground.store.node());
        let linked = |clock: &Arc<HostClock>, dice: &mut Dice| {
            let link = Link {
                world: ground.world.clone(),
                clocks: (clock.clone(), ground.clock.clone()),
                dice: Mutex::new(Dice::new(dice.roll(), 1)),
                is_slow: promises.is_slow,
                loses_index: ground.fault == Fault::IndexLost,
            };
            let link = StoreProxy::new(node.clone(), link);
            Stores { tasks: link.clone(), nodes: link, ..stores(&node) }
        };
        let settings = promises.settings(ground.fault);
        let tools = |_: &_| tools(&ground.world, ground.fault);
        let machine = Machine::start(settings, (now, 0), dice, linked, tools);
        let mut seen = ground.world.see();
        seen.clock = Some(machine.clock.clone());
        seen.note(format_args!("a host starts"));
        drop(seen);
        Self { machine, node }
    }

    /// Ends it like a kill: it writes and sends nothing more.
    pub fn end(self, world: &World) {
        world.see().host_is_gone();
        drop(self.machine);
        self.node.kill();
    }
}

/// The link to the store, which may be slow, and records what is written.
struct Link {
    world: World,
    clocks: (Arc<HostClock>, Arc<StoreClock>),
    dice: Mutex<Dice>,
    is_slow: bool,
    loses_index: bool,
}

impl Link {
    async fn delay(&self) {
        let time = {
            let mut dice = self.dice.lock().expect("no thread panics here");
            if self.is_slow && dice.percent(40) { dice.within(1, 40) } else { 0 }
        };
        if time > 0 {
            tokio::time::sleep(Duration::from_millis(time)).await;
        }
    }
}

impl Intercept for Link {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        self.delay().await;
        if self.loses_index && operation == "list" {
            return Err(E::from(StoreError::Unavailable("planted".into())));
        }
        let (host, store) = &self.clocks;
        store.reach(host.steady());
        let answer = call.now_or_never().expect("a store in memory does not wait");
        self.delay().await;
        answer
    }

    fn created(&self, task: &Task) {
        self.world.see().created(task);
    }

    fn committed(&self, task: &Task) {
        self.world.see().committed(task);
    }
}

fn tools(world: &World, fault: Fault) -> Vec<Arc<dyn Tool>> {
    let tools = TOOLS.iter().map(|tool| {
        let durability = match tool.reruns || fault == Fault::AllRerun {
            true => Durability::Rerun,
            false => Durability::None,
        };
        let world = world.clone();
        let tool = native(tool.name).durability(durability).task_support(tool.support);
        tool.runs_with(move |arguments, context| run(world.clone(), arguments, context))
    });
    tools.collect()
}

/// The duration and the manner of a run, as arguments. Equal arguments are written in two ways.
pub fn arguments((time, manner): (u64, u64), number: usize) -> String {
    match number % 2 {
        0 => format!(r#"{{"time":{time},"manner":{manner}}}"#),
        _ => format!(r#"{{ "manner": {manner}, "time": {time} }}"#),
    }
}

struct Running<'a>(&'a World, usize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.see().run_ends(self.1);
    }
}

async fn run(world: World, arguments: RawJson, context: Arc<dyn RunContext>) -> RunEnd {
    let info = context.info();
    let number = number_in(&info.client_capabilities);
    let run = world.see().begins(number, info.attempt, info.task.is_some());
    let running = Running(&world, number);
    let arguments: serde_json::Value = arguments.decode().expect("JSON");
    let manner = arguments["manner"].as_u64();
    if manner == Some(1) {
        // A host that is shutting down refuses this.
        let _ = context.begin_task().await;
    }
    tokio::time::sleep(Duration::from_millis(arguments["time"].as_u64().unwrap_or(0))).await;
    drop(running);
    if manner == Some(2) {
        return RunEnd::Error(RpcError::internal(format!("call {number} failed in run {run}")));
    }
    done(&format!("call {number} is done by run {run}"))
}

/// A broken promise ends the timeline.
pub fn is_over(world: &World) -> bool {
    world.see().trace().broken.is_some()
}
