//! Holds what many clients were told of many tasks against what was promised. A task is
//! one register with a tiny state, so each is looked at apart, and every rule is one
//! pass over its calls in the order of time.
//!
//! Two calls are in order if one was answered before the other was sent; of calls that
//! overlap, nothing is known. The version of a task is not on the wire: the time of its
//! last change stands for it, since every visible change moves that on (T-20).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// Where a call stands in time, in any unit that only grows.
pub type Moment = u64;

/// A call that a client made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The client.
    pub who: u32,
    /// The task.
    pub task: String,
    /// When it was sent.
    pub sent: Moment,
    /// When its answer was whole; none if there was no answer.
    pub answered: Option<Moment>,
    /// What it was, and what was answered.
    pub op: Op,
}

/// What was asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The task was created. Known of tasks that were acknowledged alone.
    Create,
    /// The task was shown: by `tasks/get`, in a list, or by a cancel of a session.
    Saw(State),
    /// A cancel was acknowledged as done.
    Cancelled,
    /// A cancel was acknowledged in a way that leaves open whether it came in time
    /// (26T-20).
    CancelledOrOver,
    /// The result, as it was on the wire.
    Result {
        /// In which form; each has bytes of its own.
        form: Form,
        /// The bytes.
        bytes: String,
        /// Whether it is one of a tool that ended by itself.
        by_tool: bool,
    },
    /// A question was answered with this word.
    Answer(String),
    /// A run of the task has gone on with this word.
    Heard(String),
    /// There is no such task.
    Missing,
}

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The answer to `tasks/result`, in a session.
    Session,
    /// Within the answer to `tasks/get`, without one.
    Alone,
}

/// How a task was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its status, by the words of 2025-11-25.
    pub status: Status,
    /// Its creation, as on the wire.
    pub created: String,
    /// Its last change, as on the wire: all of one length, so their order is that of time.
    pub updated: String,
    /// What it said of itself.
    pub message: Option<String>,
}

/// A status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It goes on.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It is over, well.
    Completed,
    /// It is over, badly.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// The status of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// Whether it is the last one.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What was promised, and was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A task whose creation was acknowledged is found until its ttl.
    Found,
    /// The time of the last change never goes back, and that of the creation never changes.
    Forward,
    /// One version is one state.
    OneState,
    /// There is one terminal outcome, whoever asks and when.
    OneOutcome,
    /// After a terminal status there is no other.
    Final,
    /// An acknowledged cancel reads cancelled for ever.
    CancelKept,
    /// The result is the same bytes, however often it is read.
    SameBytes,
    /// A question has one answer: one that was sent, and none that was sent after
    /// another was acknowledged.
    OneAnswer,
    /// What must not run twice had its effects once at most, and what a task says of them
    /// is true. Judged by whoever counts effects.
    Effects,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// The task.
    pub task: String,
    /// How it was seen.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: task {}: {}", self.rule, self.task, self.how)
    }
}

/// What is known of a task from the calls so far.
#[derive(Debug, Default)]
struct Known {
    /// When its creation was sent.
    created: Option<Moment>,
    /// The latest state that a finished call showed.
    latest: Option<State>,
    outcome: Option<State>,
    cancelled: bool,
    over: bool,
    results: [Option<String>; 2],
    words: Words,
}

#[derive(Debug, Default)]
struct Words {
    sent: BTreeMap<String, Moment>,
    /// The first acknowledgement of any.
    acknowledged: Option<Moment>,
    heard: BTreeSet<String>,
}

/// The history of a run, which is told in parts: every call of a part is over, or broken
/// off for good, before the next part begins.
#[derive(Debug)]
pub struct History {
    ttl: Moment,
    tasks: HashMap<String, Known>,
    calls: u64,
}

impl History {
    /// An empty one, of tasks that live for so long.
    #[must_use]
    pub fn new(ttl: Moment) -> Self {
        Self { ttl, tasks: HashMap::new(), calls: 0 }
    }

    /// How many calls it holds.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// How many tasks it knows.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Adds a part; gives what was broken in it.
    pub fn add(&mut self, calls: Vec<Call>) -> Vec<Broken> {
        self.calls += calls.len() as u64;
        let mut by_task: BTreeMap<String, Vec<Call>> = BTreeMap::new();
        for call in calls {
            by_task.entry(call.task.clone()).or_default().push(call);
        }
        let mut broken = Vec::new();
        for (task, mut calls) in by_task {
            calls.sort_by_key(|call| call.sent);
            let known = self.tasks.entry(task.clone()).or_default();
            let found = known.add(&calls, self.ttl);
            broken.extend(found.into_iter().map(|(rule, how)| Broken { rule, task: task.clone(), how }));
        }
        broken
    }
}

impl Known {
    /// `calls` are in the order in which they were sent.
    fn add(&mut self, calls: &[Call], ttl: Moment) -> Vec<(Rule, String)> {
        let mut broken = Vec::new();
        let mut by_answer: Vec<&Call> = calls.iter().filter(|call| call.answered.is_some()).collect();
        by_answer.sort_by_key(|call| call.answered);
        let mut answered = by_answer.into_iter().peekable();
        let mut states: BTreeMap<&str, &State> = BTreeMap::new();
        for call in calls {
            // First all that was over when this call was sent.
            while let Some(earlier) = answered.next_if(|earlier| earlier.answered < Some(call.sent)) {
                self.learn(earlier);
            }
            if call.answered.is_some() {
                self.judge(call, ttl, &mut broken);
            }
            match &call.op {
                Op::Saw(state) => match states.insert(&state.updated, state) {
                    Some(other) if *other != *state => {
                        broken.push((Rule::OneState, format!("{other:?} and {state:?}")));
                    }
                    _ => {}
                },
                Op::Answer(word) => {
                    self.words.sent.entry(word.clone()).or_insert(call.sent);
                }
                _ => {}
            }
        }
        answered.for_each(|call| self.learn(call));
        self.judge_words(&mut broken);
        broken
    }

    /// A call that was over before whatever is judged next was sent.
    fn learn(&mut self, call: &Call) {
        match &call.op {
            Op::Create => self.created = self.created.min(Some(call.sent)).or(Some(call.sent)),
            Op::Saw(state) => {
                if self.latest.as_ref().is_none_or(|latest| latest.updated < state.updated) {
                    self.latest = Some(state.clone());
                }
            }
            Op::Cancelled => self.cancelled = true,
            Op::CancelledOrOver => self.over = true,
            Op::Answer(_) => {
                let at = call.answered.expect("it is over");
                let first = &mut self.words.acknowledged;
                *first = Some(first.map_or(at, |first| first.min(at)));
            }
            Op::Result { .. } | Op::Heard(_) | Op::Missing => {}
        }
    }

    /// Holds an answer against what was known for certain when it was asked for.
    fn judge(&mut self, call: &Call, ttl: Moment, broken: &mut Vec<(Rule, String)>) {
        let mut breaks = |rule, how: String| broken.push((rule, how));
        match &call.op {
            Op::Saw(state) => {
                if let Some(latest) = &self.latest {
                    if state.updated < latest.updated || state.created != latest.created {
                        breaks(Rule::Forward, format!("{latest:?}, then {state:?}"));
                    }
                    if latest.status.is_terminal() && state != latest {
                        breaks(Rule::Final, format!("{latest:?}, then {state:?}"));
                    }
                }
                let undone = self.cancelled && state.status != Status::Cancelled;
                if undone || (self.over && !state.status.is_terminal()) {
                    breaks(Rule::CancelKept, format!("acknowledged, then {state:?}"));
                }
                if state.status.is_terminal() {
                    let outcome = self.outcome.get_or_insert_with(|| state.clone());
                    if outcome != state {
                        breaks(Rule::OneOutcome, format!("{outcome:?} and {state:?}"));
                    }
                }
            }
            Op::Result { form, bytes, by_tool } => {
                if self.cancelled && *by_tool {
                    breaks(Rule::CancelKept, format!("acknowledged, then the result {bytes}"));
                }
                let result = self.results[*form as usize].get_or_insert_with(|| bytes.clone());
                if result != bytes {
                    breaks(Rule::SameBytes, format!("{result} and {bytes}"));
                }
            }
            Op::Missing => {
                // That its ttl has passed can be excused only by the time of the answer.
                if let (Some(created), Some(answered)) = (self.created, call.answered)
                    && answered.saturating_sub(created) < ttl
                {
                    breaks(Rule::Found, "its creation was acknowledged, and it is unknown".to_owned());
                }
            }
            Op::Heard(word) => {
                self.words.heard.insert(word.clone());
            }
            Op::Create | Op::Cancelled | Op::CancelledOrOver | Op::Answer(_) => {}
        }
    }

    fn judge_words(&self, broken: &mut Vec<(Rule, String)>) {
        let Words { sent, acknowledged, heard } = &self.words;
        if heard.len() > 1 {
            broken.push((Rule::OneAnswer, format!("runs went on with {heard:?}")));
        }
        for word in heard {
            match (sent.get(word), acknowledged) {
                (None, _) => broken.push((Rule::OneAnswer, format!("nobody answered {word:?}"))),
                (Some(sent), Some(first)) if sent > first => {
                    broken.push((Rule::OneAnswer, format!("{word:?} was sent after another was taken")));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
