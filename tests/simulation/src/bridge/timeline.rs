//! A random timeline of one host after another, and of their clients. Everything in it follows from its seed.

use crate::bridge::clients::Plan;
use crate::bridge::effects::{CANCELLED, Key};
use crate::bridge::promises::{CLIENTS, Fault, LOCAL, Leaving, Promises, TOOLS, is_stateless};
use crate::clients::Reached;
use crate::dice::Dice;
use crate::simulation::Simulation;
use crate::trace::{Course, Observed as _, demand};
use toolyard_task::TaskId;

/// The events that must happen, divided by semicolons.
pub const EVENTS: &str = "\
    timelines; effects; equal calls; calls to keep; timeouts; presumed timeouts; cancellations without a reason; stops by a \
    person; disconnects without a session; detached pipes; disconnects in a session; clients that gave \
    up without a word; replies written; replies lost; plain results; errors; hand-offs; outcomes of \
    tasks; outcomes compared; outcomes collected; calls that joined a task; tasks; tasks ended with \
    their host; refused as busy; refused by a host that ends; waits by id; waits without an id; \
    task_cancel; task_list; crashes; hosts shut down, tasks left to the next; hosts shut down, \
    tasks ended; long pauses; tasks found at the end; slow store calls; re-runs; results; orphans ended; hand-overs";

/// The events that may happen besides.
pub const RARE: [&str; 1] = [CANCELLED];

/// Round times, so that several events often fall in the same millisecond.
const TIMES: [u64; 7] = [0, 300, 1_000, 2_000, 5_000, 9_000, 20_000];

/// The only host of the simulation, as which one process after another runs.
const HOST: usize = 0;

struct Timeline {
    dice: Dice,
    simulation: Simulation,
    promises: Promises,
    keys: Vec<Key>,
}

/// Simulates the timeline of this seed. Keeps the lines of its trace if `keep`.
pub fn simulate(seed: u64, fault: Fault, keep: bool) -> Course {
    let mut dice = Dice::new(seed, 3);
    let promises = Promises::any(fault, &mut dice);
    let simulation = Simulation::new(Dice::new(seed, 0), 1, keep, Some(promises));
    let mut timeline = Timeline { dice, simulation, promises, keys: Vec::new() };
    timeline.happens("timelines");
    timeline.simulation.note(&format!("seed {seed}: {promises:?}"));
    for _ in 0..timeline.dice.within(2, 3) {
        let key = timeline.any_key();
        timeline.keys.push(key);
    }
    for _ in 0..timeline.dice.within(8, 30) {
        timeline.act();
        if timeline.simulation.is_over() {
            break;
        }
    }
    timeline.settle();
    timeline.simulation.course()
}

impl Timeline {
    fn any_key(&mut self) -> Key {
        let arguments = (self.dice.pick(&TIMES), self.dice.pick(&[0, 0, 0, 1, 2]));
        let tool = self.dice.below(TOOLS.len() as u64) as usize;
        Key { client: self.any_client(), tool, arguments }
    }

    fn any_client(&mut self) -> usize {
        self.dice.below(CLIENTS as u64) as usize
    }

    fn happens(&self, event: &'static str) {
        self.simulation.shared.world.see().count(event);
        self.simulation.note(event);
    }

    fn act(&mut self) {
        self.simulation.restart();
        match self.dice.below(100) {
            0..40 => {
                let key = self.dice.below(self.keys.len() as u64) as usize;
                self.call(self.keys[key], 2);
            }
            40..52 => self.wait(),
            52..55 => self.cancel(),
            55..58 => {
                let client = self.dice.below(CLIENTS as u64 - 1) as usize;
                self.at(|reached| reached.use_task_list(client, Vec::new()));
            }
            58..93 => {
                let time = self.dice.pick(&[0, 1, 20, 300, 1_000, 2_000, 4_000, 9_000, 20_000]);
                self.simulation.pass(time);
            }
            93..95 => {
                self.happens("long pauses");
                self.simulation.pass(70_000);
            }
            95..98 => {
                self.simulation.crash();
                let time = self.dice.pick(&[0, 1_000]);
                self.simulation.pass(time);
            }
            _ => self.shut_down(),
        }
    }

    fn at<F: Future<Output = ()> + Send + 'static>(&self, does: impl FnOnce(Reached) -> F) {
        self.simulation.at(HOST, does);
    }

    fn call(&mut self, key: Key, depth: u32) {
        let plan = self.plan(key, depth);
        self.at(|reached| reached.follow(plan));
    }

    fn plan(&mut self, key: Key, depth: u32) -> Plan {
        let leaving = self.dice.pick(&Leaving::ALL);
        let leaves =
            (leaving.fits(key.client) && self.dice.percent(80)).then(|| (self.dice.pick(&TIMES), leaving));
        let calls_again = leaves.is_some() && depth > 0 && self.dice.percent(40);
        Plan {
            key,
            leaves,
            is_lost: self.dice.percent(20),
            lag: self.dice.pick(&[0, 0, 20, 1_500]),
            is_keeper: is_stateless(key.client) && self.promises.keeps_disconnects,
            again: calls_again.then(|| Box::new(self.plan(key, depth - 1))),
        }
    }

    fn wait(&mut self) {
        let client = self.any_client();
        let (seconds, is_lost) = (self.dice.below(6), self.dice.percent(20));
        let id = if self.dice.percent(50) { None } else { self.known(client) };
        self.at(|reached| reached.use_task_wait(client, id, seconds, is_lost));
    }

    fn cancel(&mut self) {
        let client = self.any_client();
        if let Some(id) = self.known(client) {
            self.at(|reached| reached.use_task_cancel(client, id));
        }
    }

    fn known(&mut self, client: usize) -> Option<TaskId> {
        let seen = self.simulation.shared.world.see();
        let known: Vec<TaskId> = seen.bridge.known.get(&client).into_iter().flatten().copied().collect();
        drop(seen);
        (!known.is_empty()).then(|| self.dice.pick(&known))
    }

    fn shut_down(&mut self) {
        let (grace, hands_over) = (self.dice.pick(&[0, 1_000, 5_000]), self.dice.percent(60));
        self.happens(match hands_over {
            true => "hosts shut down, tasks left to the next",
            false => "hosts shut down, tasks ended",
        });
        self.simulation.part(HOST, grace, hands_over);
        if self.dice.percent(40) {
            self.call(self.keys[0], 0);
        }
        for _ in 0..200 {
            if self.simulation.is_down(HOST) {
                return;
            }
            self.simulation.pass(50);
        }
        self.simulation.shared.world.see().broke(format_args!("the host does not come to its end"));
    }

    /// Every call gets its reply, every task ends, and owners find their tasks.
    fn settle(&mut self) {
        self.simulation.restart();
        // Some hosts look for tasks of dead hosts only when a client asks about tasks.
        self.at(|reached| reached.use_task_list(LOCAL, Vec::new()));
        let waiting = |simulation: &Simulation| simulation.shared.world.see().bridge.waiting();
        for _ in 0..60 {
            self.simulation.pass(10_000);
            if self.simulation.is_over() {
                return;
            }
            if waiting(&self.simulation) == 0 && self.simulation.is_settled() {
                break;
            }
        }
        let findable = self.simulation.shared.world.see().bridge.findable();
        for client in 0..CLIENTS {
            let own: Vec<TaskId> =
                findable.iter().filter(|(owner, _)| *owner == client).map(|(_, id)| *id).collect();
            for id in &own {
                self.at(|reached| reached.use_task_wait(client, Some(*id), 0, true));
                self.happens("tasks found at the end");
            }
            if (1..=50).contains(&own.len()) {
                self.at(|reached| reached.use_task_list(client, own));
            }
        }
        self.simulation.look_at_results();
        let (waiting, is_settled) = (waiting(&self.simulation), self.simulation.is_settled());
        let mut seen = self.simulation.shared.world.see();
        demand!(seen, waiting == 0, "{waiting} calls get no reply");
        demand!(seen, is_settled, "a task does not come to its end");
    }
}
