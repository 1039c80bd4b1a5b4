//! Checks the answers that many clients received about many tasks against the promises of the host. A task is
//! one register with a tiny state, so each task is checked separately. Every rule is one pass over the task's
//! calls in the order of time.
//!
//! Two calls are ordered if one was answered before the other was sent; the order of overlapping calls is
//! unknown. The wire format has no version of a task: the time of its last change serves as one, since every
//! visible change advances it (T-20).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// A point in time, in any monotonic unit.
pub type Moment = u64;

/// A call that a client made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The task.
    pub task: String,
    /// The time at which it was sent.
    pub sent: Moment,
    /// The time at which its answer was complete; `None` if there was no answer.
    pub answered: Option<Moment>,
    /// The operation, with its answer.
    pub op: Op,
}

/// An operation, with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The task was created. Only recorded if the creation was acknowledged.
    Create,
    /// The task was shown: by `tasks/get`, in a list, or by a cancel of a session.
    Saw(State),
    /// A cancel was acknowledged as done.
    Cancelled,
    /// A cancel was acknowledged in a way that does not tell whether it came in time (26T-20).
    CancelledOrOver,
    /// The result, in its wire form.
    Result {
        /// The form; each has its own bytes.
        form: Form,
        /// The bytes.
        bytes: String,
        /// Whether the tool itself ended and gave this result.
        by_tool: bool,
    },
    /// A client answered the question with this word.
    Answer(String),
    /// A run of the task continued with this word.
    Heard(String),
    /// The host knew no such task.
    Missing,
}

/// The wire form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The answer to `tasks/result`, in a session.
    Session,
    /// Within the answer to `tasks/get`, without a session.
    Alone,
}

/// The state of a task in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its status, in the terms of 2025-11-25.
    pub status: Status,
    /// The time of its creation, as on the wire.
    pub created: String,
    /// The time of its last change, as on the wire. All have one length, so they sort by time.
    pub updated: String,
    /// Its status message.
    pub message: Option<String>,
}

/// The status of a task, in the terms of 2025-11-25.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Still running or queued.
    Working,
    /// Waiting for answers.
    InputRequired,
    /// Ended with a result.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended by a cancel.
    Cancelled,
}

impl Status {
    /// Parses the wire name; `None` if it is unknown.
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

    /// Whether no other status can follow.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The promises of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A task whose creation was acknowledged exists until its ttl.
    Found,
    /// The time of the last change never decreases, and the time of the creation never changes.
    Forward,
    /// One version has one state.
    OneState,
    /// There is one terminal outcome, for every client and at any time.
    OneOutcome,
    /// No other status follows a terminal one.
    Final,
    /// An acknowledged cancel stays cancelled.
    CancelKept,
    /// The result has the same bytes, however often it is read.
    SameBytes,
    /// A question has one answer: one that a client sent, and not one that was sent after the acknowledgement
    /// of another.
    OneAnswer,
    /// A guest that must not run twice had its effects at most once, and the task reports them truthfully.
    /// The counter of the effects judges this rule.
    Effects,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule that was broken.
    pub rule: Rule,
    /// The task.
    pub task: String,
    /// The observation.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: task {}: {}", self.rule, self.task, self.how)
    }
}

/// The knowledge about a task from the calls so far.
#[derive(Debug, Default)]
struct Known {
    /// The time at which its creation was sent.
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
    /// The first acknowledgement of any answer.
    acknowledged: Option<Moment>,
    heard: BTreeSet<String>,
}

/// The history of a run, added in parts: all calls of a part have ended or broken off before the next part
/// begins.
#[derive(Debug)]
pub struct History {
    ttl: Moment,
    tasks: HashMap<String, Known>,
    calls: u64,
}

impl History {
    /// An empty history, of tasks with this ttl.
    #[must_use]
    pub fn new(ttl: Moment) -> Self {
        Self { ttl, tasks: HashMap::new(), calls: 0 }
    }

    /// The number of calls added.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Adds a part; returns the promises broken in it.
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
            // First all calls that had ended when this call was sent.
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

    /// Learns from a call that ended before the next judged call was sent.
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
                let at = call.answered.expect("the call was answered");
                let first = &mut self.words.acknowledged;
                *first = Some(first.map_or(at, |first| first.min(at)));
            }
            Op::Result { .. } | Op::Heard(_) | Op::Missing => {}
        }
    }

    /// Checks an answer against what was certain when its request was sent.
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
                // Only the time of the answer can excuse a missing task with a passed ttl.
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
                (None, _) => broken.push((Rule::OneAnswer, format!("no client answered {word:?}"))),
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
