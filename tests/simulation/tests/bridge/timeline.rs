//! A random timeline of one host after another, and of their clients. Everything in it follows from its seed.

use crate::clients::{CLIENTS, Leaving, Plan, Reached, is_stateless};
use crate::effects::{Key, Seen, World};
use crate::stage::{Fault, Ground, Process, Promises, TOOLS, is_over};
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{Departure, DrainMode, TaskId};
use toolyard_simulation::dice::Dice;
use toolyard_simulation::time::StoreClock;
use toolyard_simulation::trace::{Course, Observed as _};
use toolyard_store::MemoryStore;

/// The events that must happen, divided by semicolons.
pub const EVENTS: &str = "\
    timelines; effects; equal calls; calls to keep; timeouts; presumed timeouts; cancellations without a reason; stops by a \
    person; disconnects without a session; detached pipes; disconnects in a session; clients that gave \
    up without a word; replies written; replies lost; plain results; errors; hand-offs; outcomes of \
    tasks; outcomes compared; outcomes collected; calls that joined a task; tasks; tasks ended with \
    their host; refused as busy; refused by a host that ends; waits by id; waits without an id; \
    task_cancel; task_list; hosts killed; hosts shut down, tasks left to the next; hosts shut down, \
    tasks ended; long pauses; tasks found at the end";

/// Round times, so that several events often fall in the same millisecond.
const TIMES: [u64; 7] = [0, 300, 1_000, 2_000, 5_000, 9_000, 20_000];

struct Timeline {
    dice: Dice,
    ground: Ground,
    host: Option<Process>,
    now: i64,
    promises: Promises,
    keys: Vec<Key>,
}

/// Runs the timeline of this seed. Keeps the lines of its trace if `keep`.
pub fn run(seed: u64, fault: Fault, keep: bool) -> Course {
    let mut dice = Dice::new(seed, 3);
    let promises = Promises::any(&mut dice);
    let clock = Arc::new(StoreClock::default());
    let store = MemoryStore::new(clock.clone());
    let world = World::of(Seen::new(promises, keep));
    world.see().note(format_args!("seed {seed}: {promises:?}"));
    world.see().count("timelines");
    let ground = Ground { world, store, clock, fault };
    let mut timeline = Timeline { dice, ground, host: None, now: 0, promises, keys: Vec::new() };
    for _ in 0..timeline.dice.within(2, 3) {
        let key = timeline.any_key();
        timeline.keys.push(key);
    }
    for _ in 0..timeline.dice.within(8, 30) {
        timeline.act();
        if is_over(&timeline.ground.world) {
            break;
        }
    }
    timeline.settle();
    let mut seen = timeline.ground.world.see();
    seen.trace().course()
}

impl Timeline {
    fn any_key(&mut self) -> Key {
        let arguments = (self.dice.pick(&TIMES), self.dice.pick(&[0, 0, 0, 1, 2]));
        Key {
            client: self.dice.below(CLIENTS as u64) as usize,
            tool: self.dice.below(TOOLS.len() as u64) as usize,
            arguments,
        }
    }

    fn act(&mut self) {
        if self.host.is_none() {
            self.host = Some(Process::start(&self.ground, self.now, &mut self.dice));
        }
        match self.dice.below(100) {
            0..40 => {
                let key = self.keys[self.dice.below(self.keys.len() as u64) as usize];
                let plan = self.plan(key, 2);
                self.at(|reached| reached.call(plan));
            }
            40..52 => self.wait(),
            52..55 => self.cancel(),
            55..58 => {
                let client = self.dice.below(CLIENTS as u64 - 1) as usize;
                self.at(|reached| reached.list(client, Vec::new()));
            }
            58..93 => {
                let time = self.dice.pick(&[0, 1, 20, 300, 1_000, 2_000, 4_000, 9_000, 20_000]);
                self.pass(time);
            }
            93..95 => {
                self.ground.world.see().count("long pauses");
                self.pass(70_000);
            }
            95..98 => self.kill(),
            _ => self.shut_down(),
        }
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

    fn at<F: Future<Output = ()> + Send + 'static>(&self, does: impl FnOnce(Reached) -> F) {
        let Some(host) = &self.host else { return };
        let Ground { world, fault, .. } = &self.ground;
        let dispatch = host.machine.dispatch.clone();
        host.machine.spawn(does(Reached { dispatch, world: world.clone(), fault: *fault }));
    }

    fn wait(&mut self) {
        let client = self.dice.below(CLIENTS as u64) as usize;
        let (seconds, is_lost) = (self.dice.below(6), self.dice.percent(20));
        let id = if self.dice.percent(50) { None } else { self.known(client) };
        self.at(|reached| reached.wait(client, id, seconds, is_lost));
    }

    fn cancel(&mut self) {
        let client = self.dice.below(CLIENTS as u64) as usize;
        if let Some(id) = self.known(client) {
            self.at(|reached| reached.cancel(client, id));
        }
    }

    fn known(&mut self, client: usize) -> Option<TaskId> {
        let seen = self.ground.world.see();
        let known: Vec<TaskId> = seen.known.get(&client).into_iter().flatten().copied().collect();
        drop(seen);
        (!known.is_empty()).then(|| self.dice.pick(&known))
    }

    fn pass(&mut self, time: u64) {
        let Some(host) = &self.host else { return };
        host.machine.drive(time);
        self.now += time as i64;
        self.ground.clock.reach(self.now);
        self.ground.world.see().now = self.now;
    }

    fn kill(&mut self) {
        let Some(host) = self.host.take() else { return };
        let mut seen = self.ground.world.see();
        seen.count("hosts killed");
        seen.note(format_args!("the host is killed"));
        drop(seen);
        host.end(&self.ground.world);
        self.now += self.dice.pick(&[0, 1_000]);
    }

    fn shut_down(&mut self) {
        let grace = self.dice.pick(&[0, 1_000, 5_000]);
        let (mode, event) = match self.dice.percent(60) {
            true => (DrainMode::HandOver, "hosts shut down, tasks left to the next"),
            false => (DrainMode::End(Departure::PipeClosed), "hosts shut down, tasks ended"),
        };
        let Some(host) = &self.host else { return };
        let mut seen = self.ground.world.see();
        seen.count(event);
        seen.note(format_args!("{event}"));
        drop(seen);
        let drained = host.machine.drain(Duration::from_millis(grace), mode);
        let is_done = || drained.lock().expect("no thread panics here").is_some();
        if self.dice.percent(40) {
            let key = self.keys[0];
            let plan = self.plan(key, 0);
            self.at(|reached| reached.call(plan));
        }
        for _ in 0..200 {
            if is_done() {
                break;
            }
            self.pass(50);
        }
        // Lets the replies arrive.
        self.pass(100);
        let world = &self.ground.world;
        world.see().demand(is_done(), format_args!("the host does not come to its end"));
        if let Some(host) = self.host.take() {
            host.end(world);
        }
    }

    /// Every call gets its reply, every task ends, and owners find their tasks.
    fn settle(&mut self) {
        if self.host.is_none() {
            self.host = Some(Process::start(&self.ground, self.now, &mut self.dice));
        }
        for _ in 0..20 {
            self.pass(10_000);
            if is_over(&self.ground.world) {
                return;
            }
            if self.ground.world.see().waiting() == 0 {
                break;
            }
        }
        let findable = self.ground.world.see().findable();
        for client in 0..CLIENTS {
            let own: Vec<TaskId> =
                findable.iter().filter(|(owner, _)| *owner == client).map(|(_, id)| *id).collect();
            if own.is_empty() {
                continue;
            }
            for id in &own {
                self.at(|reached| reached.wait(client, Some(*id), 0, true));
                self.ground.world.see().count("tasks found at the end");
            }
            if own.len() <= 50 {
                self.at(|reached| reached.list(client, own));
            }
        }
        self.pass(1_000);
        let mut seen = self.ground.world.see();
        let waiting = seen.waiting();
        seen.demand(waiting == 0, format_args!("{waiting} calls get no reply"));
        drop(seen);
        if let Some(host) = self.host.take() {
            host.end(&self.ground.world);
        }
    }
}
