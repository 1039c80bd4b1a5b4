//! The counter of effects outside all hosts, and the rule about repeats.
//!
//! Calls are equal if their client, tool and arguments are. A guest has its effect when it begins. A further
//! begin for equal calls is a repeat, and each one needs an excuse (sections 9 and 10 of the design). The
//! excuse is looked up for each earlier call that had its effect, at the moment when the later call is sent:
//!
//! | excuse | the earlier call |
//! | --- | --- |
//! | [`RERUN`] | is the same call: its task runs again, under durability `rerun`, after its host ended |
//! | [`ANYONE`] | belongs to anyone; such calls join no other call |
//! | [`RESULT`], [`ERROR`], [`HAND_OFF`] | has been answered: the reply about it was written to the client |
//! | [`STOPPED`] | was stopped by a person, or by a timeout if the operator configured `stop` |
//! | [`CUT`] | lost its connection in a way that stops it (26H-13), or its pipe |
//! | [`CANCELLED`] | became a task that was cancelled; rare, because the host lets one equal call join it |
//! | [`LATE`] | ended as long ago as `bridge.rejoin`, or longer |
//! | [`DIED`] | was a plain call when its host ended, so nothing of it was stored |
//! | [`UNREAD`] | ended as a plain call, and its reply was lost: the host keeps no plain results |
//! | [`BESIDE`] | still has a waiting client, so the client wants both |
//! | [`UNNOTICED`] | still has a waiting client, as far as the host knows: the client gave up silently |
//!
//! Any other repeat breaks the promise. A refused call (`Busy`) has no effect and needs no excuse. The host
//! cannot avoid [`DIED`]. It could avoid [`UNREAD`] and [`UNNOTICED`], but the design does not require that:
//! a call is kept only if the host learns that its client stopped waiting.
//!
//! The check also requires: a kept call has a task; owners find their tasks by id and in their list; a reply
//! has the stored outcome; a hand-off is not an error; a task is cancelled only if a client wants that; a
//! stop by a person ends the run; and no call joins a call that a person stopped.

use crate::bridge::promises::{Leaving, Promises, TOOLS, is_anyone, is_stateless};
use crate::time::HostClock;
use crate::trace::{Observed, Trace, demand};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use toolyard_dispatch::{Outcome, RawJson, Task, TaskId};

pub const RERUN: &str = "re-runs of a task under durability rerun";
pub const ANYONE: &str = "repeats of an owner that is anyone";
pub const RESULT: &str = "repeats after a result was written";
pub const ERROR: &str = "repeats after an error was written";
pub const HAND_OFF: &str = "repeats after a hand-off was written";
pub const STOPPED: &str = "repeats after a stop";
pub const CUT: &str = "repeats after a disconnect that stops";
pub const CANCELLED: &str = "repeats after a cancel";
pub const LATE: &str = "repeats after the time to rejoin";
pub const DIED: &str = "repeats after the end of a host with a plain call";
pub const UNREAD: &str = "repeats after a plain result was lost";
pub const BESIDE: &str = "repeats beside a call that is waited for";
pub const UNNOTICED: &str = "repeats of a call whose client gave up without a word";

/// All excuses but the rare one.
pub const REPEATS: [&str; 12] =
    [RERUN, ANYONE, RESULT, ERROR, HAND_OFF, STOPPED, CUT, LATE, DIED, UNREAD, BESIDE, UNNOTICED];

/// The longest time in milliseconds before a call looks for the task that it joins.
const LOOK_UP: i64 = 1_000;
/// The longest time in milliseconds from the end of a run until a slow store has stored it.
const STORED_WITHIN: i64 = 200;
/// The longest time in milliseconds before a stop takes effect.
const STOPS_WITHIN: i64 = 1_500;

/// Equal calls have equal keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Key {
    pub client: usize,
    pub tool: usize,
    /// The duration of the run in milliseconds, and the manner of the run.
    pub arguments: (u64, u64),
}

/// The state of a call, as its transport knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Waiting,
    /// The host has replied, and the reply is on its way.
    Replied,
    Written,
    Lost,
    /// Its host ended first.
    HostGone,
}

/// A call and its outcome.
#[derive(Debug, Default)]
pub struct Call {
    pub key: Key,
    pub sent: i64,
    pub state: State,
    left: Option<Leaving>,
    /// Set when the client left in a way that keeps the call.
    pub is_kept: bool,
    /// When the client left in a way that stops the call, and the excuse.
    pub stopped: Option<(i64, &'static str)>,
    /// When the client left after a timeout that the host presumed.
    presumed: Option<i64>,
    attempt: u32,
    is_running: bool,
    /// Set when its host ended it as a plain call.
    pub is_refused: bool,
    /// The excuse, once the reply about this call has been written.
    pub told: Option<&'static str>,
    told_at: i64,
    pub task: Option<TaskId>,
    /// For each earlier equal call: its excuse when this call was sent.
    excuses: BTreeMap<usize, Option<&'static str>>,
}

/// Everything that happened in a timeline.
#[derive(Default)]
pub struct Seen {
    /// The clock of the living host.
    pub clock: Option<Arc<HostClock>>,
    /// The time while no host lives.
    pub now: i64,
    pub promises: Promises,
    /// Ids that each client knows.
    pub known: BTreeMap<usize, BTreeSet<TaskId>>,
    /// Tasks that a client cancels.
    pub cancels: BTreeSet<TaskId>,
    pub calls: Vec<Call>,
    origins: BTreeMap<TaskId, usize>,
    pub ends: BTreeMap<TaskId, (i64, Outcome)>,
    /// For each client: how many calls of host tools wait, and when the last one ended.
    waits: BTreeMap<usize, (u32, i64)>,
    runs: u64,
    trace: Trace,
}

impl Observed for Seen {
    fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    fn time(&self) -> i64 {
        self.clock.as_ref().map_or(self.now, |clock| clock.steady())
    }
}

impl Seen {
    pub fn new(promises: Promises, keep: bool) -> Self {
        Self { promises, trace: Trace::new(keep), ..Self::default() }
    }

    /// The number of a call, which its client wrote into its capabilities. `None` if the client knows tasks.
    pub fn number_in(&mut self, capabilities: &RawJson) -> Option<usize> {
        let value: serde_json::Value = capabilities.decode().unwrap_or_default();
        let number = value["experimental"]["call"]["number"].as_u64().map(|number| number as usize);
        let is_bridge = self.clock.is_some();
        demand!(self, number.is_some() || !is_bridge, "a call without its client's capabilities");
        number
    }

    /// A client sends a call. Returns its number.
    pub fn sends(&mut self, key: Key) -> usize {
        let number = self.calls.len();
        let equal = (0..number).filter(|earlier| self.calls[*earlier].key == key);
        let excuses: BTreeMap<_, _> = equal.map(|earlier| (earlier, self.excuse(earlier))).collect();
        let tool = TOOLS[key.tool].name;
        self.note(format_args!("call {number}: client {} calls {tool}{:?}", key.client, key.arguments));
        if !excuses.is_empty() {
            self.count("equal calls");
        }
        self.calls.push(Call { key, sent: self.time(), excuses, ..Call::default() });
        number
    }

    /// Why an equal call may have its effect although this call had one; `None` if the equal call must join.
    fn excuse(&self, earlier: usize) -> Option<&'static str> {
        let call = &self.calls[earlier];
        if is_anyone(call.key.client) {
            return Some(ANYONE);
        }
        if let Some(excuse) = call.told.or(call.stopped.map(|(_, excuse)| excuse)) {
            return Some(excuse);
        }
        let end = call.task.and_then(|task| self.ends.get(&task));
        if end.is_some_and(|(_, outcome)| *outcome == Outcome::Cancelled) {
            return Some(CANCELLED);
        }
        if end.is_some_and(|(at, _)| self.time() - at > self.promises.rejoin - STORED_WITHIN) {
            return Some(LATE);
        }
        match call.state {
            State::Waiting | State::Replied if !call.is_kept => {
                Some(if call.left.is_some() { UNNOTICED } else { BESIDE })
            }
            State::HostGone if call.task.is_none() => Some(DIED),
            State::Lost if call.task.is_none() && call.is_refused => Some(DIED),
            State::Lost if call.task.is_none() && !call.is_kept => Some(UNREAD),
            _ => None,
        }
    }

    /// The excuse, if the later call may have looked for the earlier one just now: a reply may have been
    /// written since it was sent.
    fn excuse_since(&self, earlier: usize, sent: i64) -> Option<&'static str> {
        if self.time() - sent <= LOOK_UP { self.excuse(earlier) } else { None }
    }

    /// A guest begins, which is its effect. Returns the number of its run.
    pub fn begins(&mut self, number: usize, attempt: u32, is_task: bool) -> u64 {
        self.runs += 1;
        let run = self.runs;
        self.note(format_args!("call {number}: its guest begins (run {run}, attempt {attempt})"));
        self.count("effects");
        let Call { key, attempt: before, is_running, sent, .. } = self.calls[number];
        if before > 0 {
            let may = TOOLS[key.tool].reruns && is_task && attempt > before && !is_running;
            demand!(self, may, "call {number} has its effect twice");
            self.count(RERUN);
        } else {
            self.look_at_equal_calls(number, key, sent);
        }
        let call = &mut self.calls[number];
        (call.attempt, call.is_running) = (attempt, true);
        self.runs
    }

    fn look_at_equal_calls(&mut self, number: usize, key: Key, sent: i64) {
        let is_other = |other: &usize| {
            *other != number && self.calls[*other].key == key && self.calls[*other].attempt > 0
        };
        let others: Vec<usize> = (0..self.calls.len()).filter(is_other).collect();
        let mut counted = None;
        for other in others {
            let (earlier, later) = (number.min(other), number.max(other));
            let mut excuse = self.calls[later].excuses[&earlier];
            if later == number {
                excuse = excuse.or_else(|| self.excuse_since(earlier, sent));
            }
            let call = &self.calls[earlier];
            if call.told_at - self.calls[later].sent <= LOOK_UP {
                excuse = excuse.or(call.told);
            }
            let holds = excuse.is_some();
            demand!(self, holds, "call {later} has its effect again and should have joined call {earlier}");
            counted = excuse;
        }
        if let Some(excuse) = counted {
            self.note(format_args!("call {number}: one of the {excuse}"));
            self.count(excuse);
        }
    }

    pub fn run_ends(&mut self, number: usize) {
        self.calls[number].is_running = false;
        // The guests of an ended host are dropped in no particular order.
        if self.clock.is_some() {
            self.note(format_args!("call {number}: its guest is gone"));
        }
    }

    /// A client leaves a waiting call. Returns whether the host learns of it.
    pub fn leaves(&mut self, number: usize, leaving: Leaving) -> Option<bool> {
        let call = &mut self.calls[number];
        if call.left.is_some() || !matches!(call.state, State::Waiting | State::Replied) {
            return None;
        }
        call.left = Some(leaving);
        let heard = call.state == State::Waiting && leaving.cause().is_some();
        self.note(format_args!("call {number}: its client leaves, {leaving:?}"));
        self.count(leaving.name());
        Some(heard)
    }

    /// The host has heard that a client has left.
    pub fn hears(&mut self, number: usize, leaving: Leaving, is_presumed: bool) {
        let now = self.time();
        let promises = self.promises;
        let call = &mut self.calls[number];
        let client = call.key.client;
        let may_keep = promises.keeps(leaving, is_presumed) && (!is_anyone(client) || !is_stateless(client));
        // A session that belongs to anyone keeps a few of its calls, if they were no tasks before.
        let keeps = may_keep && !is_anyone(client);
        call.is_kept = keeps;
        call.stopped = (!may_keep).then_some((now, if leaving.is_cut() { CUT } else { STOPPED }));
        call.presumed = (keeps && is_presumed).then_some(now);
        if keeps {
            self.count("calls to keep");
        }
        if is_presumed {
            self.note(format_args!("call {number}: the host presumes a timeout"));
            self.count("presumed timeouts");
        }
    }

    /// The host has replied. Returns whether the connection still exists.
    pub fn replied(&mut self, number: usize, what: fmt::Arguments<'_>) -> bool {
        self.note(format_args!("call {number}: {what}"));
        let call = &mut self.calls[number];
        call.state = State::Replied;
        !call.left.is_some_and(Leaving::breaks)
    }

    /// Whether the connection has broken while the reply was on its way.
    pub fn has_broken(&self, number: usize) -> bool {
        self.calls[number].left.is_some_and(Leaving::breaks)
    }

    /// The reply to a call was written to the socket, or was lost.
    pub fn arrives(&mut self, number: usize, is_written: bool) {
        self.calls[number].state = if is_written { State::Written } else { State::Lost };
        let how = if is_written { "written" } else { "lost" };
        self.note(format_args!("call {number}: its reply is {how}"));
        self.count(if is_written { "replies written" } else { "replies lost" });
    }

    /// A call gets no answer because its client has left.
    pub fn unanswered(&mut self, number: usize) {
        let call = &mut self.calls[number];
        call.state = State::Lost;
        let is_found = !call.is_kept || call.attempt == 0 || call.task.is_some();
        self.note(format_args!("call {number}: is answered no more"));
        demand!(self, is_found, "call {number} is to be kept, and there is no task of it");
    }

    /// The guest of a call that a person stopped must be gone, unless an equal call waits for it.
    pub fn look_at_stop(&mut self, number: usize) {
        let Call { key, is_running, stopped, .. } = &self.calls[number];
        let waits = self.waits.get(&key.client);
        let is_waited_for = self.calls.iter().any(|call| call.key == *key && call.state == State::Waiting)
            || waits.is_some_and(|(count, ended)| *count > 0 || self.time() - ended <= STOPS_WITHIN);
        let is_wanted = stopped.is_some_and(|(_, excuse)| excuse == STOPPED);
        let ignores = *is_running && is_wanted && !is_waited_for;
        demand!(self, !ignores, "call {number} goes on after a person stopped it");
    }

    /// No call may join a call that a person stopped, or get its outcome.
    pub fn look_at_joined(&mut self, number: usize, origin: usize) {
        let call = &self.calls[origin];
        let is_cancelled = call.task.and_then(|task| self.ends.get(&task));
        let is_cancelled = is_cancelled.is_some_and(|(_, outcome)| *outcome == Outcome::Cancelled);
        let wrong = number != origin && is_cancelled && call.stopped.is_some();
        demand!(self, !wrong, "call {number} joins call {origin}, which a person had stopped");
    }

    /// A reply about the call with this number has been written.
    pub fn told(&mut self, number: usize, excuse: &'static str) {
        let now = self.time();
        let call = &mut self.calls[number];
        if call.told.is_none() {
            (call.told, call.told_at) = (Some(excuse), now);
        }
    }

    /// A client begins or ends a wait with a host tool.
    pub fn waits(&mut self, client: usize, begins: bool) {
        let now = self.time();
        let (count, ended) = self.waits.entry(client).or_default();
        if begins { *count += 1 } else { (*count, *ended) = (*count - 1, now) }
    }

    /// The call that became this task.
    pub fn origin(&self, task: TaskId) -> usize {
        self.origins[&task]
    }

    /// The call that an error belongs to: an error names no task.
    pub fn origin_of_error(&self, number: usize, message: &str) -> usize {
        let Call { key, task, attempt, .. } = &self.calls[number];
        if task.is_some() || *attempt > 0 {
            return number;
        }
        let is_meant = |call: &Call| {
            let end = call.task.and_then(|task| self.ends.get(&task));
            let says = |outcome: &Outcome| matches!(outcome, Outcome::Error(it) if it.message == message);
            call.key == *key && call.told.is_none() && end.is_some_and(|(_, outcome)| says(outcome))
        };
        (0..self.calls.len()).rev().find(|call| is_meant(&self.calls[*call])).unwrap_or(number)
    }

    /// Compares the outcome in a reply with that of the task. The first `skipped` blocks are the host's.
    pub fn compare(&mut self, task: TaskId, result: &serde_json::Value, skipped: usize) {
        let Some((_, Outcome::Result { result: stored, .. })) = self.ends.get(&task) else { return };
        let stored: serde_json::Value = stored.decode().expect("JSON");
        let content = result["content"].as_array().map(|content| content[skipped..].to_vec());
        let is_same = content.as_deref() == stored["content"].as_array().map(Vec::as_slice)
            && result["isError"] == stored["isError"];
        self.count("outcomes compared");
        demand!(self, is_same, "{task}: the store has {stored}, and the client gets {result}");
    }

    /// The host has ended, with all replies that it had not sent.
    pub fn host_is_gone(&mut self) {
        self.now = self.time();
        self.clock = None;
        self.waits.clear();
        for call in &mut self.calls {
            if matches!(call.state, State::Waiting | State::Replied) {
                call.state = State::HostGone;
            }
        }
    }

    /// Calls that wait for their reply.
    pub fn waiting(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.state, State::Waiting | State::Replied)).count()
    }

    /// The tasks that their owners must find, each with its client.
    pub fn findable(&self) -> Vec<(usize, TaskId)> {
        let tasks = self.calls.iter().filter_map(|call| Some((call.key.client, call.task?)));
        tasks.filter(|(client, _)| !is_anyone(*client)).collect()
    }

    pub fn created(&mut self, task: &Task) {
        let Some(number) = self.number_in(&task.client_capabilities) else { return };
        self.note(format_args!("call {number}: becomes task {}", task.id));
        self.count("tasks");
        // It has looked for equal calls; its guest may begin much later.
        let Call { sent, excuses, .. } = &self.calls[number];
        let looked = excuses
            .iter()
            .map(|(&earlier, excuse)| (earlier, excuse.or_else(|| self.excuse_since(earlier, *sent))));
        self.calls[number].excuses = looked.collect();
        self.calls[number].task = Some(task.id);
        self.origins.insert(task.id, number);
    }

    pub fn committed(&mut self, task: &Task) {
        let Some(outcome) = &task.outcome else { return };
        let Some(&number) = self.origins.get(&task.id).filter(|_| !self.ends.contains_key(&task.id)) else {
            return;
        };
        let now = self.time();
        self.note(format_args!("call {number}: its task ends, {outcome:?}"));
        self.ends.insert(task.id, (now, outcome.clone()));
        if *outcome == Outcome::Cancelled {
            let Call { key, told, .. } = &self.calls[number];
            let is_unasked = |call: &Call| call.presumed.is_some_and(|at| now - at >= self.promises.grace);
            let stops = |call: &Call| call.stopped.is_some_and(|(at, _)| now - at <= STOPS_WITHIN);
            let is_wanted = self.cancels.contains(&task.id)
                || self.calls.iter().any(|call| call.key == *key && (stops(call) || is_unasked(call)))
                || (is_anyone(key.client) && told.is_none());
            demand!(self, is_wanted, "call {number}: its task is cancelled, and no client wants that");
        }
        if matches!(outcome, Outcome::Error(error) if !error.message.starts_with("run #")) {
            self.count("tasks ended with their host");
        }
    }
}
