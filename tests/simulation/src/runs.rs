//! The runs of guests, and their effects outside all hosts.

use crate::saga::EffectId;
use std::collections::BTreeMap;
use toolyard_task::{Fence, TaskId};

/// One run of a guest, from its first poll.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The host that executes it.
    pub host: usize,
    /// The number of its call, from the arguments.
    pub call: u64,
    /// Whether it still runs.
    pub is_going_on: bool,
    /// Its task and attempt, once known.
    pub task: Option<(TaskId, Fence)>,
    /// Whether its guest has declared effects, and the host has confirmed that they are stored.
    pub declared: bool,
    /// The effects that it wanted to record in the journal of its task.
    pub intended: Vec<EffectId>,
    /// Those that it had.
    pub effects_had: Vec<EffectId>,
    /// Whether it ended because its task was parked.
    pub is_parked: bool,
}

/// All runs.
#[derive(Debug, Default)]
pub struct Runs {
    all: Vec<Run>,
    responses: u64,
    of_task: BTreeMap<TaskId, Vec<usize>>,
}

impl Runs {
    /// Records that a guest starts on this host. Returns the number of its run.
    pub fn begin(&mut self, host: usize, call: u64) -> usize {
        self.all.push(Run { host, call, is_going_on: true, ..Run::default() });
        self.all.len() - 1
    }

    /// The run of this number.
    pub fn run(&self, number: usize) -> &Run {
        &self.all[number]
    }

    /// The run of this number, mutable.
    pub fn run_mut(&mut self, number: usize) -> &mut Run {
        &mut self.all[number]
    }

    /// Records the task of a run.
    pub fn works_on(&mut self, number: usize, task: TaskId, fence: Fence) {
        self.all[number].task = Some((task, fence));
        self.of_task.entry(task).or_default().push(number);
    }

    /// Whether a run for this call is still going on.
    pub fn any_for(&self, call: u64) -> bool {
        self.all.iter().any(|run| run.call == call && run.is_going_on)
    }

    /// The runs that are going on on this host.
    pub fn on(&self, host: usize) -> impl Iterator<Item = &Run> {
        self.all.iter().filter(move |run| run.host == host && run.is_going_on)
    }

    /// A response that differs from all others.
    pub fn next_response(&mut self) -> u64 {
        self.responses += 1;
        self.responses
    }

    /// The run of this fence ended because its task was parked.
    pub fn parked(&mut self, task: TaskId, fence: Fence) {
        for number in self.of_task.get(&task).into_iter().flatten() {
            let run = &mut self.all[*number];
            run.is_parked |= run.task == Some((task, fence));
        }
    }

    /// All known runs of this task.
    pub fn of(&self, task: TaskId) -> impl Iterator<Item = &Run> {
        self.of_task.get(&task).into_iter().flatten().map(|number| &self.all[*number])
    }
}
