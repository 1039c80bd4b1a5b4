//! The outcome of a chaos run, for a terminal and for `host/docs/explanation/reliability.md`.

use super::shared_state::SharedState;
use super::{effects, sagas};
use crate::history::History;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// What happened, by its name, and how often.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// The outcome of a run. It exists only if every promise was kept.
#[derive(Debug)]
pub struct Report {
    /// The seed repeats the steps of the clients, as far as a race can be repeated.
    seed: u64,
    counts: Counts,
    /// The events that the run must have seen.
    needed: Vec<&'static str>,
    settled: Vec<Duration>,
    began: Instant,
}

/// The events that each run must have seen, or it has shown nothing.
pub(super) const SEEN: [&str; 18] = [
    "answers in sessions",
    "answers without a session",
    "calls cut short",
    "cancels acknowledged",
    "cancels that came too late",
    "created in sessions",
    "created without",
    "kills -9",
    "lists",
    "looked at",
    "results fetched",
    MET,
    effects::ONCE,
    effects::AGAIN,
    effects::RERUN,
    sagas::COMPLETED,
    sagas::RESUMED,
    sagas::SENT_AGAIN,
];

/// Tasks that were live when their host was lost.
const MET: &str = "tasks that lost their host";

impl Report {
    pub(super) fn new(seed: u64, needed: Vec<&'static str>) -> Self {
        Self { seed, counts: Counts::new(), needed, settled: Vec::new(), began: Instant::now() }
    }

    /// Counts a disaster.
    pub(super) fn met(&mut self, disaster: &'static str) {
        self.met_often(disaster, 1);
    }

    /// Counts an event that happened so often.
    pub(super) fn met_often(&mut self, event: &'static str, times: usize) {
        *self.counts.entry(event).or_default() += times as u64;
    }

    /// Records how long tasks were without a host until their end was seen.
    pub(super) fn settled(&mut self, settled: Vec<Duration>) -> String {
        let last = settled.iter().max().copied().unwrap_or_default();
        self.met_often(MET, settled.len());
        let line = format!("{} settled after {} ms", settled.len(), last.as_millis());
        self.settled.extend(settled);
        line
    }

    /// Adds what was counted elsewhere.
    pub(super) fn end(&mut self, shared: &SharedState, history: &History, elsewhere: [Counts; 2]) {
        self.counts.extend(shared.counts().into_iter().chain(elsewhere.into_iter().flatten()));
        self.counts.insert("acknowledged tasks, none of them lost", shared.len() as u64);
        self.counts.insert("calls of clients in the history, no promise broken", history.calls());
        self.settled.sort_unstable();
    }

    /// The events that should have happened in the run, and did not.
    pub fn missing(&self) -> Vec<&'static str> {
        let seen = |what: &&str| self.counts.get(what).is_some_and(|count| *count > 0);
        self.needed.iter().copied().filter(|what| !seen(what)).collect()
    }

    /// The time by which this percentage of the tasks that had lost their host had ended.
    pub(super) fn settled_at(&self, of_a_hundred: usize) -> Duration {
        let last = self.settled.len().saturating_sub(1);
        self.settled.get(last * of_a_hundred / 100).copied().unwrap_or_default()
    }

    /// The report, in the form of the documentation.
    pub fn text(&self) -> String {
        let mut out = String::from("| what | figure |\n| --- | --- |\n");
        let mut row = |what: &str, figure: String| {
            writeln!(out, "| {what} | {figure} |").expect("writing to a String does not fail");
        };
        for (what, count) in &self.counts {
            row(what, count.to_string());
        }
        row(
            "milliseconds from the loss of a host until a task of it was seen to be over: p50, p99, max",
            [50, 99, 100].map(|part| self.settled_at(part).as_millis().to_string()).join(", "),
        );
        row("seed; minutes", format!("{}; {:.1}", self.seed, self.began.elapsed().as_secs_f64() / 60.0));
        out
    }
}
