//! The outcome of a chaos run, for a terminal and for `host/docs/explanation/reliability.md`.

use super::effects::EffectCounts;
use super::sagas::SagaCounts;
use super::shared_state::{Kind, SharedState};
use crate::history::History;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The outcome of a run. It exists only if every promise was kept.
#[derive(Debug)]
pub struct Report {
    /// The seed repeats the steps of the clients, as far as a race can be repeated.
    pub seed: u64,
    /// The disasters, with their counts.
    pub disasters: BTreeMap<&'static str, u64>,
    /// The fewest live and finished tasks at a disaster.
    pub least: (usize, usize),
    /// The steps of the clients, with their counts.
    pub counts: BTreeMap<&'static str, u64>,
    /// Acknowledged tasks, all of which existed at the end.
    pub tasks: usize,
    /// Calls that were checked.
    pub calls: u64,
    /// The effects outside of the hosts.
    pub effects: EffectCounts,
    /// Tasks that resume.
    pub sagas: SagaCounts,
    /// The events that the run must have seen.
    needed: Vec<&'static str>,
    settled: Vec<Duration>,
    /// The longest of these times of a saga.
    latest_saga: Duration,
    began: Instant,
    took: Duration,
}

/// The events that each run must have seen, or it has shown nothing.
pub(super) const SEEN: [&str; 12] = [
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
];

/// Tasks that were live when their host was lost.
const MET: &str = "tasks that lost their host";

impl Report {
    pub(super) fn new(seed: u64, needed: Vec<&'static str>) -> Self {
        Self {
            seed,
            disasters: BTreeMap::new(),
            least: (usize::MAX, usize::MAX),
            counts: BTreeMap::new(),
            tasks: 0,
            calls: 0,
            effects: EffectCounts::default(),
            sagas: SagaCounts::default(),
            needed,
            settled: Vec::new(),
            latest_saga: Duration::ZERO,
            began: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Counts a disaster.
    pub(super) fn met(&mut self, disaster: &'static str) {
        *self.disasters.entry(disaster).or_default() += 1;
    }

    /// Records the number of live and finished tasks at a disaster.
    pub(super) fn least(&mut self, live: usize, finished: usize) {
        self.least = (self.least.0.min(live), self.least.1.min(finished));
    }

    /// Records how long tasks were without a host until their end was seen.
    pub(super) fn settled(&mut self, settled: Vec<(Kind, Duration)>) -> String {
        let last = settled.iter().map(|(_, time)| *time).max().unwrap_or_default();
        *self.counts.entry(MET).or_default() += settled.len() as u64;
        let line = format!("{} settled after {} ms", settled.len(), last.as_millis());
        let sagas = settled.iter().filter(|(kind, _)| kind.resumes());
        self.latest_saga = sagas.fold(self.latest_saga, |latest, (_, time)| latest.max(*time));
        self.settled.extend(settled.into_iter().map(|(_, time)| time));
        line
    }

    pub(super) fn end(
        &mut self,
        shared: &SharedState,
        history: &History,
        effects: EffectCounts,
        sagas: SagaCounts,
    ) {
        self.counts.extend(shared.counts());
        (self.tasks, self.calls) = (shared.len(), history.calls());
        (self.effects, self.sagas) = (effects, sagas);
        self.settled.sort_unstable();
        self.took = self.began.elapsed();
    }

    /// The events that should have happened in the run, and did not.
    pub fn missing(&self) -> Vec<&'static str> {
        let seen = |what: &&str| self.counts.contains_key(what) || self.disasters.contains_key(what);
        let mut missing: Vec<_> = self.needed.iter().copied().filter(|what| !seen(what)).collect();
        let (effects, sagas) = (&self.effects, &self.sagas);
        for (seen, what) in [
            (effects.once, "effects of tools that must not run twice"),
            (effects.again, "effects of tools that may run again"),
            (effects.rerun, "tools that were run again"),
            (sagas.completed, "completed sagas"),
            (sagas.resumptions as usize, "sagas that were resumed"),
            (sagas.again, "requests in doubt that were sent again"),
        ] {
            missing.extend((seen == 0).then_some(what));
        }
        missing
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
        let effects = &self.effects;
        for (what, count) in &self.disasters {
            row(what, count.to_string());
        }
        row(
            "the fewest live and finished tasks at any of them",
            format!("{} and {}", self.least.0, self.least.1),
        );
        row("acknowledged tasks; lost", format!("{}; 0", self.tasks));
        row("calls of clients in the history; promises broken", format!("{}; 0", self.calls));
        row("terminal states that changed", "0".to_owned());
        row(
            "calls of non-idempotent tools that had effects (never acknowledged among them); run twice",
            format!("{} ({}); 0", effects.once, effects.unacknowledged),
        );
        row(
            "calls of tools with `rerun` that had effects; of these run again; highest attempt",
            format!("{}; {}; {}", effects.again, effects.rerun, effects.highest),
        );
        let sagas = &self.sagas;
        row(
            "acknowledged tasks that resume; completed; failed because a request was in doubt",
            format!("{}; {}; {}", sagas.sagas, sagas.completed, sagas.doubted),
        );
        row("runs of completed ones after the first", sagas.resumptions.to_string());
        row(
            "distinct requests of theirs; in doubt by the journals read; arrived again in doubt; and without",
            format!("{}; {}; {}; 0", sagas.effects, sagas.in_doubt, sagas.again),
        );
        row(
            "milliseconds from the loss of a host until the latest end of one that resumes",
            self.latest_saga.as_millis().to_string(),
        );
        row(
            "milliseconds from the loss of a host until a task of it was seen to be over: p50, p99, max",
            [50, 99, 100].map(|part| self.settled_at(part).as_millis().to_string()).join(", "),
        );
        for (what, count) in &self.counts {
            row(what, count.to_string());
        }
        row("seed; minutes", format!("{}; {:.1}", self.seed, self.took.as_secs_f64() / 60.0));
        out
    }
}
