//! What a chaos run came to, for a terminal and for `host/docs/reliability.md`.

use super::board::Board;
use super::effects::Tally;
use crate::history::History;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// What a run came to. There is one only if every promise was kept.
#[derive(Debug)]
pub struct Report {
    /// Repeats what the clients do, as far as a race can be repeated.
    pub seed: u64,
    /// Kills with enough live and finished tasks.
    pub kills: u32,
    /// Further kills, while what one had left was being seen to.
    pub kills_in_recovery: u32,
    /// The fewest live and finished tasks at a kill.
    pub least: (usize, usize),
    /// How often what was done.
    pub counts: BTreeMap<&'static str, u64>,
    /// Tasks that were acknowledged, every one of which was found at the end.
    pub tasks: usize,
    /// Calls that were checked.
    pub calls: u64,
    /// What was done outside.
    pub effects: Tally,
    settled: Vec<Duration>,
    began: Instant,
    took: Duration,
}

/// What each run must have seen, or it has shown nothing.
const SEEN: [&str; 11] = [
    "answers in sessions",
    "answers without a session",
    "calls cut short by a kill",
    "cancels acknowledged",
    "cancels that came too late",
    "created in sessions",
    "created without",
    "lists",
    "looked at",
    "results fetched",
    "tasks that a kill met",
];

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            kills: 0,
            kills_in_recovery: 0,
            least: (usize::MAX, usize::MAX),
            counts: BTreeMap::new(),
            tasks: 0,
            calls: 0,
            effects: Tally::default(),
            settled: Vec::new(),
            began: Instant::now(),
            took: Duration::ZERO,
        }
    }

    pub(super) fn killed(
        &mut self,
        kill: u32,
        (live, finished): (usize, usize),
        back: Duration,
        settled: Vec<Duration>,
    ) -> String {
        self.kills = kill;
        self.least = (self.least.0.min(live), self.least.1.min(finished));
        let last = settled.iter().max().copied().unwrap_or_default();
        *self.counts.entry("tasks that a kill met").or_default() += settled.len() as u64;
        let line = format!(
            "kill {kill}: {live} live, {finished} finished; back after {} ms, {} settled after {} ms",
            back.as_millis(),
            settled.len(),
            last.as_millis()
        );
        self.settled.extend(settled);
        line
    }

    pub(super) fn end(&mut self, board: &Board, history: &History, effects: Tally) {
        self.counts.extend(board.counts());
        (self.tasks, self.calls, self.effects) = (board.len(), history.calls(), effects);
        self.settled.sort_unstable();
        self.took = self.began.elapsed();
    }

    /// What should have happened in the run, and did not.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let mut missing: Vec<_> = SEEN.into_iter().filter(|what| !self.counts.contains_key(what)).collect();
        let effects = &self.effects;
        for (seen, what) in [
            (effects.once, "effects of tools that must not run twice"),
            (effects.again, "effects of tools that may run again"),
            (effects.rerun, "tools that were run again"),
        ] {
            missing.extend((seen == 0).then_some(what));
        }
        missing
    }

    fn settled_at(&self, of_a_hundred: usize) -> u128 {
        let last = self.settled.len().saturating_sub(1);
        self.settled.get(last * of_a_hundred / 100).map_or(0, Duration::as_millis)
    }

    /// The report, as it stands in the documentation.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::from("| what | figure |\n| --- | --- |\n");
        let mut row = |what: &str, figure: String| {
            writeln!(out, "| {what} | {figure} |").expect("writing to a String does not fail");
        };
        let effects = &self.effects;
        row("kills -9, each with at least so many live and finished tasks", {
            format!("{}; {} and {}", self.kills, self.least.0, self.least.1)
        });
        row("further kills, in the midst of a recovery", self.kills_in_recovery.to_string());
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
        row(
            "milliseconds from the kill until a task was seen settled: p50, p99, max",
            format!("{}, {}, {}", self.settled_at(50), self.settled_at(99), self.settled_at(100)),
        );
        for (what, count) in &self.counts {
            row(what, count.to_string());
        }
        row("seed; minutes", format!("{}; {:.1}", self.seed, self.took.as_secs_f64() / 60.0));
        out
    }
}
