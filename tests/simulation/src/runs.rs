//! The runs of guests, and the effects that they had outside every host.

use std::collections::BTreeMap;
use toolyard_task::{Fence, TaskId};

/// One run of a guest, from its first poll.
#[derive(Debug, Clone)]
pub struct Run {
    /// The host that it runs on.
    pub host: usize,
    /// The call that it is for, by the arguments.
    pub call: u64,
    /// It goes on.
    pub is_going_on: bool,
    /// The task that it is known to work on, and for which attempt.
    pub task: Option<(TaskId, Fence)>,
    /// Its guest has said that effects begin, and was told that this is kept.
    pub declared: bool,
    /// How often it had an effect.
    pub effects: u32,
}

/// All runs.
#[derive(Debug, Default)]
pub struct Runs {
    all: Vec<Run>,
    of_task: BTreeMap<TaskId, Vec<usize>>,
}

impl Runs {
    /// A guest begins on this host. Gives the number of its run.
    pub fn begin(&mut self, host: usize, call: u64) -> usize {
        self.all.push(Run { host, call, is_going_on: true, task: None, declared: false, effects: 0 });
        self.all.len() - 1
    }

    /// The run of this number.
    #[must_use]
    pub fn run(&self, number: usize) -> &Run {
        &self.all[number]
    }

    /// The run of this number, to be changed.
    pub fn run_mut(&mut self, number: usize) -> &mut Run {
        &mut self.all[number]
    }

    /// The run turns out to work on this task.
    pub fn works_on(&mut self, number: usize, task: TaskId, fence: Fence) {
        self.all[number].task = Some((task, fence));
        self.of_task.entry(task).or_default().push(number);
    }

    /// Whether a run for this call goes on.
    #[must_use]
    pub fn any_for(&self, call: u64) -> bool {
        self.all.iter().any(|run| run.call == call && run.is_going_on)
    }

    /// All runs that are known to have worked on this task.
    pub fn of(&self, task: TaskId) -> impl Iterator<Item = &Run> {
        self.of_task.get(&task).into_iter().flatten().map(|number| &self.all[*number])
    }
}
