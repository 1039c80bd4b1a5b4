//! One simulation: everything in it follows from its seed.

use crate::bridge::promises::Promises;
use crate::clients::{CLIENTS, Known, Reached, STATELESS, Wanted, answer};
use crate::dice::Dice;
use crate::guests;
use crate::host::{Process, SLOTS, SLOTS_OF_OWNER, Shared};
use crate::link::{LEASE, Weather};
use crate::runs::Run;
use crate::time::StoreClock;
use crate::trace::{Course, Observed as _, demand};
use crate::world::{Seen, World, short};
use futures_util::FutureExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::stateless::input::Retry;
use toolyard_store::MemoryStore;
use toolyard_task::journal::JournalStore as _;
use toolyard_task::{TaskId, TaskStore};

/// The longest time for which one host runs before the others do, in milliseconds.
const STEP: u64 = 250;
/// The longest wait for everything to settle, in milliseconds.
const PATIENCE: i64 = 900_000;
/// How long a live task may be without a host that handles it, in milliseconds: the interval at which hosts
/// look for dead ones, and the longest pause before a task runs again.
const UNATTENDED: i64 = 15_000;
/// How long a parked task that is due may wait while a host has a free slot for it, in milliseconds.
const UNWOKEN: i64 = 4_000;

/// Simulates this seed. Keeps the lines of its trace if `keep`.
pub fn simulate(seed: u64, keep: bool) -> Course {
    let mut dice = Dice::new(seed, 0);
    let hosts = dice.within(2, 5) as usize;
    let mut simulation = Simulation::new(dice, hosts, keep, None);
    for host in 0..hosts {
        simulation.start(host);
    }
    simulation.storm();
    simulation.settle();
    simulation.course()
}

enum Host {
    Down,
    Up(Process),
    Paused(Process),
}

/// Hosts on one store.
pub struct Simulation {
    dice: Dice,
    /// The parts that the hosts share.
    pub shared: Shared,
    hosts: Vec<Host>,
    now: i64,
    calls: u64,
    answers: u64,
}

impl Simulation {
    /// This many hosts, none of which runs yet. If their clients know no tasks, they have no leases, so a killed
    /// host is dead at once.
    pub(crate) fn new(dice: Dice, hosts: usize, keep: bool, bridge: Option<Promises>) -> Self {
        let store_clock = Arc::new(StoreClock::default());
        let store = MemoryStore::new(store_clock.clone());
        let store = if bridge.is_some() { store } else { store.leased(LEASE) };
        let world = World::of(Seen::new(bridge.unwrap_or_default(), keep));
        let shared = Shared { world, store, store_clock, bridge };
        let hosts = (0..hosts).map(|_| Host::Down).collect();
        Self { dice, shared, hosts, now: 0, calls: 0, answers: 0 }
    }

    /// The outcome.
    pub fn course(&self) -> Course {
        self.shared.world.see().trace().course()
    }

    /// A period with all faults at once.
    fn storm(&mut self) {
        for _ in 0..self.dice.within(60, 140) {
            for _ in 0..self.dice.below(3) {
                self.act();
            }
            let time = match self.dice.below(20) {
                0..10 => self.dice.within(1, 50),
                10..17 => self.dice.within(50, 600),
                _ => self.dice.within(1_000, 5_000),
            };
            self.pass(time);
            if self.is_over() {
                return;
            }
        }
    }

    /// From here on nothing fails: every task must end.
    fn settle(&mut self) {
        for host in 0..self.hosts.len() {
            self.wake(host);
            if self.is_down(host) {
                self.start(host);
            }
            if let Host::Up(process) = &self.hosts[host] {
                process.link.intercept.change(Weather::CALM);
                process.complete(&self.shared, host);
                process.clock.set_wrong(0);
            }
        }
        // For calls in progress, and the grace of hosts that are shutting down.
        self.pass(15_000);
        for host in 0..self.hosts.len() {
            if matches!(&self.hosts[host], Host::Up(process) if process.is_parting()) {
                let mut seen = self.shared.world.see();
                seen.broke(format_args!("host {host} does not come to its end"));
            }
            if self.is_down(host) {
                self.start(host);
            }
            if let Host::Up(process) = &self.hosts[host] {
                process.complete(&self.shared, host);
            }
            // Some hosts look for tasks of dead hosts only when a client asks about tasks.
            self.at(host, |reached| reached.list(0));
        }
        self.shared.world.see().calm = true;
        self.note("calm");
        let until = self.now + PATIENCE;
        let calm_since = self.now;
        let mut alone: BTreeMap<TaskId, i64> = BTreeMap::new();
        let mut unwoken: BTreeMap<TaskId, i64> = BTreeMap::new();
        while !self.is_over() && !self.is_settled() {
            if self.now > until {
                let mut seen = self.shared.world.see();
                return seen.broke(format_args!("a task or a call does not come to its end"));
            }
            if self.dice.percent(20) {
                self.answer();
                self.update();
                self.retry();
            }
            self.pass(500);
            if self.now - calm_since > 30_000 {
                self.look_for_lonely(&mut alone);
                self.look_for_unwoken(&mut unwoken);
            }
        }
        self.look_at_results();
    }

    /// Checks that all promised results are available, and that no slot or question is left over.
    pub fn look_at_results(&mut self) {
        self.pass(5_000);
        let known = self.shared.world.see().known.clone();
        for known in &known {
            if let Some(host) = self.some_host() {
                self.at(host, |reached| reached.get(known.clone()));
                self.at(host, |reached| reached.result(known.clone()));
            }
        }
        self.pass(2_000);
        let mut seen = self.shared.world.see();
        let time = self.shared.store_clock.stamp();
        for Known { id, .. } in known {
            let gone = seen.ledger.entries.get(&id).is_none_or(|of| of.removed || of.task.is_gone(time));
            let told = seen.results.contains_key(&id);
            demand!(seen, gone || told, "{}: its result is not available", short(id));
        }
        for (number, host) in self.hosts.iter().enumerate() {
            if let Host::Up(process) = host {
                let running = process.runs();
                demand!(seen, running == 0, "host {number} still holds {running} slots");
            }
        }
    }

    /// Whether a promise was broken, which ends the simulation.
    pub fn is_over(&self) -> bool {
        self.shared.world.see().trace().broken.is_some()
    }

    /// Whether all tasks and runs have ended.
    pub fn is_settled(&self) -> bool {
        let running = |host: &Host| matches!(host, Host::Up(process) if process.runs() > 0);
        let seen = self.shared.world.see();
        seen.ledger.entries.values().all(|entry| !entry.task.is_live()) && !self.hosts.iter().any(running)
    }

    /// Finds live tasks that no host runs although nothing prevents it.
    fn look_for_lonely(&self, alone: &mut BTreeMap<TaskId, i64>) {
        let mut seen = self.shared.world.see();
        let now = self.shared.store_clock.stamp();
        let idle = self.hosts.iter().all(|host| matches!(host, Host::Up(process) if process.runs() == 0));
        let lonely = |seen: &Seen| {
            let live = seen.ledger.entries.values().map(|entry| &entry.task).filter(|task| task.is_live());
            let lonely = live.filter(|task| task.parked().is_none()).filter(|task| {
                let runs = seen.runs.any_for(guests::number(&task.arguments, "call"));
                let waits =
                    task.started_at.is_none() && !idle && !seen.ledger.is_dead(task.fence.incarnation, now);
                !runs && !waits
            });
            lonely.map(|task| task.id).collect::<Vec<_>>()
        };
        let lonely = lonely(&seen);
        alone.retain(|id, _| lonely.contains(id));
        for id in lonely {
            let since = *alone.entry(id).or_insert(self.now);
            let too_long = self.now - since > UNATTENDED;
            demand!(seen, !too_long, "{}: live, and no host handles it", short(id));
        }
    }

    /// Finds parked tasks that are due and that no host takes although one has a free slot for their owner.
    fn look_for_unwoken(&self, waiting: &mut BTreeMap<TaskId, i64>) {
        let mut seen = self.shared.world.see();
        let due = seen.due_tasks(self.shared.store_clock.stamp());
        let has_slot = |id: &TaskId| {
            let owner = &seen.ledger.entries[id].task.owner;
            let of_owner = |run: &Run| {
                let task = run.task.and_then(|(id, _)| seen.ledger.entries.get(&id));
                task.is_none_or(|entry| entry.task.owner == *owner)
            };
            self.hosts.iter().enumerate().any(|(number, host)| {
                let Host::Up(process) = host else { return false };
                let running = seen.runs.on(number).filter(|run| of_owner(run)).count();
                process.runs() < SLOTS && running < SLOTS_OF_OWNER
            })
        };
        let due: Vec<_> = due.into_iter().filter(has_slot).collect();
        waiting.retain(|id, _| due.contains(id));
        for id in due {
            let since = *waiting.entry(id).or_insert(self.now);
            let too_long = self.now - since > UNWOKEN;
            demand!(seen, !too_long, "{}: due, and no host takes it", short(id));
        }
    }

    /// Adds an event to the trace.
    pub fn note(&self, what: &str) {
        self.shared.world.see().note(format_args!("{what}"));
    }

    /// Lets time pass for all hosts, in small steps.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time as i64;
        loop {
            // A single host needs no small steps: it affects no other host.
            let step = if self.hosts.len() == 1 { time } else { self.dice.within(1, STEP) };
            self.now = end.min(self.now + step as i64);
            let first = self.dice.below(self.hosts.len() as u64) as usize;
            for turn in 0..self.hosts.len() {
                let host = (first + turn) % self.hosts.len();
                let Host::Up(process) = &self.hosts[host] else { continue };
                process.drive(self.now);
                if process.has_parted(&self.shared.world) {
                    self.end(host);
                    self.shared.world.see().note(format_args!("host {host} has ended"));
                }
            }
            self.shared.store_clock.reach(self.now);
            self.shared.world.see().bridge.now = self.now;
            if self.now >= end || self.is_over() {
                break;
            }
        }
        self.compare();
    }

    /// Checks that the store has what was written.
    fn compare(&self) {
        let mut seen = self.shared.world.see();
        let mut wrong = None;
        for (id, entry) in &seen.ledger.entries {
            let read = self.shared.store.read(*id, None).now_or_never().expect("in memory").expect("works");
            let stored = read.map(|read| read.task);
            let chunks = self.shared.store.chunks(*id, entry.journal.first, u64::MAX);
            let chunks = chunks.now_or_never().expect("in memory").expect("it works");
            let as_written = match &stored {
                // The host drops the journal of a task that no longer resumes.
                Some(task) if task.resume.is_none() && chunks.is_empty() => *task == entry.task,
                Some(task) => *task == entry.task && chunks == entry.journal.chunks,
                None => entry.removed,
            };
            if !as_written {
                wrong = Some(*id);
            }
        }
        if let Some(id) = wrong {
            seen.broke(format_args!("{}: stored otherwise than it was written", short(id)));
        }
    }

    /// A host that clients can reach.
    fn some_host(&mut self) -> Option<usize> {
        let (first, count) = (self.any_host(), self.hosts.len());
        (0..count)
            .map(|turn| (first + turn) % count)
            .find(|host| matches!(&self.hosts[*host], Host::Up(process) if !process.is_parting()))
    }

    /// Starts an action of a client at this host.
    pub fn at<F: Future<Output = ()> + Send + 'static>(&self, host: usize, does: impl FnOnce(Reached) -> F) {
        if let Host::Up(process) = &self.hosts[host] {
            process.spawn(does(process.reached(&self.shared, host)));
        }
    }

    fn act(&mut self) {
        match self.dice.below(100) {
            0..28 => self.call(),
            28..40 => self.ask_about(),
            40..46 => self.cancel(),
            46..49 => self.list(),
            49..61 => self.answer(),
            61..68 => self.update(),
            68..75 => self.retry(),
            75..79 => self.crash(),
            79..86 => self.restart(),
            86..89 => self.pause(),
            89..93 => {
                let host = self.any_host();
                self.wake(host);
            }
            93..95 => {
                let (host, grace) = (self.any_host(), self.dice.within(0, 6_000));
                let hands_over = self.dice.percent(80);
                self.part(host, grace, hands_over);
            }
            95..98 => self.change_weather(),
            _ => self.step_clock(),
        }
    }

    fn any_host(&mut self) -> usize {
        self.dice.below(self.hosts.len() as u64) as usize
    }

    fn start(&mut self, host: usize) {
        let process = Process::start(&self.shared, host, self.now, &mut self.dice);
        process.drive(self.now);
        self.hosts[host] = Host::Up(process);
        self.shared.world.see().note(format_args!("host {host} starts"));
    }

    /// Starts a host if it is down.
    pub fn restart(&mut self) {
        let host = self.any_host();
        if self.is_down(host) {
            self.start(host);
        }
    }

    /// Whether a host does not run.
    pub fn is_down(&self, host: usize) -> bool {
        matches!(self.hosts[host], Host::Down)
    }

    fn end(&mut self, host: usize) {
        if let Host::Up(process) | Host::Paused(process) =
            std::mem::replace(&mut self.hosts[host], Host::Down)
        {
            process.end(&self.shared);
        }
    }

    /// Kills a host.
    pub fn crash(&mut self) {
        let host = self.any_host();
        if !self.is_down(host) {
            self.end(host);
            let mut seen = self.shared.world.see();
            seen.count("crashes");
            seen.note(format_args!("host {host} is killed"));
        }
    }

    fn pause(&mut self) {
        let host = self.any_host();
        self.hosts[host] = match std::mem::replace(&mut self.hosts[host], Host::Down) {
            Host::Up(process) => {
                self.shared.world.see().note(format_args!("host {host} is stopped"));
                Host::Paused(process)
            }
            other => other,
        };
    }

    fn wake(&mut self, host: usize) {
        self.hosts[host] = match std::mem::replace(&mut self.hosts[host], Host::Down) {
            Host::Paused(process) => {
                process.wake(self.now);
                let mut seen = self.shared.world.see();
                seen.count("pauses");
                seen.note(format_args!("host {host} wakes"));
                Host::Up(process)
            }
            other => other,
        };
    }

    /// Shuts a host down.
    pub fn part(&mut self, host: usize, grace: u64, hands_over: bool) {
        if let Host::Up(process) = &mut self.hosts[host]
            && !process.is_parting()
        {
            self.shared.world.see().note(format_args!("host {host} is shut down, hands over: {hands_over}"));
            process.part(Duration::from_millis(grace), hands_over);
        }
    }

    fn change_weather(&mut self) {
        let host = self.any_host();
        let weather = Weather::any(&mut self.dice);
        if let Host::Up(process) = &self.hosts[host] {
            self.shared.world.see().note(format_args!("host {host}: {weather:?}"));
            process.link.intercept.change(weather);
        }
    }

    fn step_clock(&mut self) {
        let host = self.any_host();
        let by = self.dice.within(0, 40_000) as i64 - 20_000;
        let of_store = self.dice.percent(20);
        let mut seen = self.shared.world.see();
        seen.count("steps of clocks");
        if of_store {
            seen.note(format_args!("the clock of the store goes {by} ms"));
            self.shared.store_clock.step(by);
            if by > 0 {
                let living: Vec<_> = seen.ledger.leases.keys().copied().collect();
                seen.ledger.shortened.extend(living);
            }
        } else if let Host::Up(process) = &self.hosts[host] {
            seen.note(format_args!("the clock of host {host} is wrong by {by} ms"));
            process.clock.set_wrong(by);
        }
    }

    fn call(&mut self) {
        if self.calls > 14 {
            return;
        }
        self.calls += 1;
        let arguments = guests::arguments(self.calls, self.dice.roll() >> 32);
        let client = self.dice.below(CLIENTS as u64) as usize;
        let (tool, _, _) = self.dice.pick(&guests::TOOLS);
        let ttl = self.dice.pick(&[4_000, 30_000, 90_000, 400_000]);
        let ttl = (client != STATELESS && self.dice.percent(85)).then_some(ttl);
        let (leaves, gives_up) = (self.dice.percent(10), self.dice.percent(3));
        let wanted = Wanted { client, tool, arguments, ttl, retry: Retry::default(), leaves, gives_up };
        self.send(wanted);
    }

    fn send(&mut self, wanted: Wanted) {
        let Some(host) = self.some_host() else { return };
        let Wanted { client, tool, arguments, ttl, .. } = &wanted;
        self.note(&format!("client {client} calls {tool} of host {host} with {arguments}, ttl {ttl:?}"));
        self.at(host, |reached| reached.call(wanted));
    }

    fn some_task(&mut self) -> Option<Known> {
        let known = self.shared.world.see().known.clone();
        (!known.is_empty()).then(|| known[self.dice.below(known.len() as u64) as usize].clone())
    }

    fn ask_about(&mut self) {
        let waits = self.dice.percent(40);
        let Some(known) = self.some_task() else { return };
        let Some(host) = self.some_host() else { return };
        if waits {
            self.at(host, |reached| reached.result(known));
        } else {
            self.at(host, |reached| reached.get(known));
        }
    }

    fn cancel(&mut self) {
        let Some(known) = self.some_task() else { return };
        let Some(host) = self.some_host() else { return };
        self.at(host, |reached| reached.cancel(known));
    }

    fn list(&mut self) {
        let client = self.dice.below(CLIENTS as u64) as usize;
        let Some(host) = self.some_host() else { return };
        self.at(host, |reached| reached.list(client));
    }

    /// A client answers a question that arrived in a request, at any host, and sometimes twice.
    fn answer(&mut self) {
        let mut seen = self.shared.world.see();
        let count = seen.asked.len() as u64;
        if count == 0 {
            return;
        }
        let question = seen.asked.swap_remove(self.dice.below(count) as usize);
        drop(seen);
        let elsewhere = self.dice.percent(40);
        let times = 1 + u64::from(self.dice.percent(25));
        for time in 0..times {
            let at_home = question.host;
            let home = matches!(&self.hosts[at_home], Host::Up(process) if !process.is_parting());
            let host = if home && !elsewhere && time == 0 { Some(at_home) } else { self.some_host() };
            let Some(host) = host else { return };
            if time > 0 {
                self.shared.world.see().count("second answers");
            }
            self.answers += 1;
            let (question, number) = (question.clone(), self.answers);
            self.at(host, |reached| reached.answer(question, number));
        }
    }

    /// The stateless client answers questions that it has seen.
    fn update(&mut self) {
        let mut seen = self.shared.world.see();
        let count = seen.open.len() as u64;
        if count == 0 {
            return;
        }
        let (id, keys) = seen.open.swap_remove(self.dice.below(count) as usize);
        drop(seen);
        let times = 1 + u64::from(self.dice.percent(25));
        for time in 0..times {
            let Some(host) = self.some_host() else { return };
            if time > 0 {
                self.shared.world.see().count("second answers");
            }
            self.answers += 1;
            let (keys, number) = (keys.clone(), self.answers);
            self.at(host, |reached| reached.update(id, keys, number));
        }
    }

    /// The stateless client repeats a call with answers.
    fn retry(&mut self) {
        let mut seen = self.shared.world.see();
        let Some(unfinished) = seen.unfinished.pop() else { return };
        drop(seen);
        self.answers += 1;
        let responses = unfinished.keys.into_iter().map(|key| (key, answer(self.answers))).collect();
        let retry = Retry { responses, state: Some(unfinished.state) };
        let (leaves, gives_up) = (self.dice.percent(10), false);
        let (tool, arguments) = (unfinished.tool, unfinished.arguments);
        self.send(Wanted { client: STATELESS, tool, arguments, ttl: None, retry, leaves, gives_up });
    }
}
