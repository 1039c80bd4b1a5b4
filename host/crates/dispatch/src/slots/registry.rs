//! The runs that are under way in this process, so that they can be stopped and
//! their clients told.

use crate::client::client_channel::{ClientChannel, Notice};
use crate::slots::Slots;
use crate::slots::stop::{Stop, StopCause};
use crate::slots::work::RunTarget;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_task::wire::{Progress, TaskStatus};
use toolyard_task::{Task, TaskId};

/// The key of a registered run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunKey {
    /// The run of a task.
    Task(TaskId),
    /// The run of a plain call that did not end in its first poll.
    Plain(u64),
}

impl RunKey {
    /// The entries of this key.
    const fn all(self) -> RangeInclusive<(Self, u64)> {
        (self, 0)..=(self, u64::MAX)
    }
}

/// The parts of a run that the registry needs.
#[derive(Clone)]
pub(crate) struct Registration {
    pub stop: Arc<Stop>,
    pub work: RunTarget,
    pub channel: Arc<dyn ClientChannel>,
    pub progress: Arc<LatestProgress>,
}

/// The latest progress that a guest reported.
#[derive(Default)]
pub(crate) struct LatestProgress(Mutex<Option<Progress>>);

impl LatestProgress {
    pub fn set(&self, progress: &Progress) {
        *self.0.lock() = Some(progress.clone());
    }

    fn get(&self) -> Option<Progress> {
        self.0.lock().clone()
    }
}

#[derive(Clone)]
struct RunEntry {
    run: Registration,
    /// Whether the task's record is in the store; before that, its absence there means nothing.
    stored: bool,
    /// Whether it waits for a slot.
    waiting: bool,
    /// Whether its task waits for its client's answers.
    asking: bool,
}

/// The number of this process's tasks in each state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskCounts {
    /// The number of tasks that wait for a slot.
    pub waiting: usize,
    /// The number of tasks that run.
    pub working: usize,
    /// The number of tasks that run, and wait for their clients' answers.
    pub asking: usize,
}

/// The runs that are under way in this process.
#[derive(Default)]
pub(crate) struct RunRegistry {
    count: AtomicU64,
    /// Ordered, like everything that is iterated here, so that a simulation can be repeated. The key
    /// has a number as well: a host that lost a task and takes it over again has two runs of it until
    /// the first has ended.
    by_key: Mutex<BTreeMap<(RunKey, u64), RunEntry>>,
}

impl RunRegistry {
    /// Stops the run of this task, if it is here.
    pub fn stop(&self, id: TaskId, cause: StopCause) {
        self.stop_key(RunKey::Task(id), cause);
    }

    pub fn stop_key(&self, key: RunKey, cause: StopCause) {
        self.stop_range(key.all(), cause);
    }

    fn stop_range(&self, keys: RangeInclusive<(RunKey, u64)>, cause: StopCause) {
        let registered: Vec<Registration> =
            self.by_key.lock().range(keys).map(|(_, registered)| registered.run.clone()).collect();
        for Registration { stop, work, .. } in registered {
            stop.set_because(cause);
            // After the flag: the guest must see it when it looks.
            work.interrupt();
        }
    }

    /// Notifies the client of this task's run of the state of the task (T-37).
    pub fn tell_status(&self, task: &Task) {
        let runs = RunKey::Task(task.id).all();
        let channel = self.by_key.lock().range_mut(runs).next_back().map(|(_, registered)| {
            registered.asking = task.status() == TaskStatus::InputRequired;
            registered.run.channel.clone()
        });
        // A client that knows no tasks gets no notifications about them.
        if let Some(channel) = channel.filter(|_| task.bridged.is_none()) {
            channel.notify(Some(task.id), Notice::Status(task.view()));
        }
    }

    /// The latest progress of this task's run, if it is here.
    pub fn progress(&self, id: TaskId) -> Option<Progress> {
        let runs = self.by_key.lock();
        let (_, latest) = runs.range(RunKey::Task(id).all()).next_back()?;
        latest.run.progress.get()
    }

    /// Tasks that run or wait here and whose records are stored.
    pub fn stored_tasks(&self) -> Vec<TaskId> {
        self.by_key
            .lock()
            .iter()
            .filter_map(|(key, registered)| match key {
                (RunKey::Task(id), _) if registered.stored => Some(*id),
                _ => None,
            })
            .collect()
    }

    /// Whether a run of this task is registered, its record stored or not.
    pub fn has(&self, id: TaskId) -> bool {
        self.by_key.lock().range(RunKey::Task(id).all()).next().is_some()
    }

    /// Whether the record of a task that runs or waits here is stored.
    pub fn is_stored(&self, id: TaskId) -> bool {
        self.by_key.lock().range(RunKey::Task(id).all()).any(|(_, registered)| registered.stored)
    }

    /// The number of this process's tasks in each state.
    pub fn task_counts(&self) -> TaskCounts {
        let mut task_counts = TaskCounts::default();
        for ((key, _), registered) in self.by_key.lock().iter() {
            match key {
                RunKey::Plain(_) => {}
                RunKey::Task(_) if registered.waiting => task_counts.waiting += 1,
                RunKey::Task(_) if registered.asking => task_counts.asking += 1,
                RunKey::Task(_) => task_counts.working += 1,
            }
        }
        task_counts
    }

    /// Every run, and whether it waits for a slot.
    pub fn all(&self) -> Vec<(RunKey, bool)> {
        self.by_key.lock().iter().map(|((key, _), registered)| (*key, registered.waiting)).collect()
    }

    /// Runs that were not told to stop: all, or those that wait for a slot.
    pub fn unstopped(&self, waiting: bool) -> Vec<RunKey> {
        self.by_key
            .lock()
            .iter()
            .filter(|(_, registered)| !registered.run.stop.is_set() && (registered.waiting || !waiting))
            .map(|((key, _), _)| *key)
            .collect()
    }
}

impl Slots {
    /// Registers a run; it is forgotten when the guard is dropped.
    pub fn register(self: &Arc<Self>, task: Option<TaskId>, run: Registration, waiting: bool) -> RunGuard {
        let number = self.runs.count.fetch_add(1, Ordering::Relaxed);
        let key = (task.map_or(RunKey::Plain(number), RunKey::Task), number);
        let registered = RunEntry { run, stored: task.is_none(), waiting, asking: false };
        self.runs.by_key.lock().insert(key, registered);
        RunGuard { slots: self.clone(), key }
    }
}

/// Keeps a run registered.
pub(crate) struct RunGuard {
    slots: Arc<Slots>,
    key: (RunKey, u64),
}

impl RunGuard {
    /// Notes that the task's record is in the store, by a host that `holds` its incarnation
    /// or has lost it.
    pub fn mark_stored(&self, holds: impl FnOnce() -> bool) {
        if let Some(registered) = self.slots.runs.by_key.lock().get_mut(&self.key) {
            registered.stored = true;
        }
        // Lost while the record was being written, and not among the runs that were
        // stopped then.
        if !holds() {
            self.slots.runs.stop_range(self.key..=self.key, StopCause::Ended);
        }
    }

    /// Marks the run as started, with a slot. Returns false if the host has begun to close: then
    /// the run still counts as waiting, and the drain treats its task as one that has not begun.
    pub fn mark_started(&self) -> bool {
        let mut runs = self.slots.runs.by_key.lock();
        // The drain sets this first, and then looks for waiting runs.
        if self.slots.closing.is_set() {
            return false;
        }
        if let Some(registered) = runs.get_mut(&self.key) {
            registered.waiting = false;
        }
        true
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.slots.runs.by_key.lock().remove(&self.key);
    }
}
