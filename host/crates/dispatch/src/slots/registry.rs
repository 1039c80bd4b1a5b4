//! The runs that are under way in this process, so that they can be stopped and
//! their clients told.

use crate::Dispatch;
use crate::client::client_channel::{Notice, Outlet};
use crate::observe::metrics::Measured;
use crate::run::run::Run;
use crate::slots::stop::Stop;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_task::tool::ReportBounds;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Digest, Incarnation, Provider, Room, Shortage, Task, TaskId};

/// What a run runs.
#[derive(Clone)]
pub(crate) enum Work {
    /// A tool.
    Tool(Arc<Measured>),
    /// A resource, a prompt or a completion.
    Provider(Arc<dyn Provider>),
}

impl Work {
    /// For logs: the tool, or the plugin.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => tool.spec().name(),
            Self::Provider(provider) => &provider.spec().plugin,
        }
    }

    /// The tool's name, if it is one.
    pub fn tool_name(&self) -> Option<&str> {
        match self {
            Self::Tool(tool) => Some(tool.spec().name()),
            Self::Provider(_) => None,
        }
    }

    /// The file that it comes from.
    pub fn plugin(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.spec().plugin,
            Self::Provider(provider) => &provider.spec().plugin,
        }
    }

    /// How many runs of its plugin there may be at once.
    pub fn concurrency(&self) -> Option<u32> {
        match self {
            Self::Tool(tool) => tool.spec().concurrency,
            Self::Provider(provider) => provider.spec().concurrency,
        }
    }

    /// How many tasks of its plugin may wait.
    pub fn queue(&self) -> Option<u32> {
        match self {
            Self::Tool(tool) => tool.spec().queue,
            // Only tools are called as tasks.
            Self::Provider(_) => None,
        }
    }

    /// The plugin and its component.
    pub fn component(&self) -> (&str, &Digest) {
        match self {
            Self::Tool(tool) => (&tool.spec().plugin, &tool.spec().digest),
            Self::Provider(provider) => (&provider.spec().plugin, &provider.spec().digest),
        }
    }

    /// Room for a run of it.
    pub fn room(&self) -> Result<Room, Shortage> {
        match self {
            Self::Tool(tool) => tool.room(),
            Self::Provider(provider) => provider.room(),
        }
    }

    /// Whether a run of it may begin on a thread that serves clients.
    pub fn is_quick(&self) -> bool {
        match self {
            Self::Tool(tool) => tool.is_quick(),
            Self::Provider(provider) => provider.is_quick(),
        }
    }

    /// How much a run of it may say.
    pub fn bounds(&self) -> ReportBounds {
        match self {
            Self::Tool(tool) => tool.spec().reports,
            Self::Provider(provider) => provider.spec().reports,
        }
    }

    /// Makes it look at its stop sign at once.
    pub fn interrupt(&self) {
        match self {
            Self::Tool(tool) => tool.interrupt(),
            Self::Provider(provider) => provider.interrupt(),
        }
    }
}

/// What a run is registered under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunKey {
    /// The run of a task.
    Task(TaskId),
    /// The run of a plain call that did not end in its first poll.
    Plain(u64),
}

#[derive(Clone)]
struct Registered {
    stop: Arc<Stop>,
    work: Work,
    outlet: Arc<dyn Outlet>,
    /// Whether the task's record is in the store; before that, its absence there
    /// says nothing.
    stored: bool,
    /// Whether it waits for a slot.
    waiting: bool,
    /// Whether its task waits for its client's answers.
    asking: bool,
}

/// How many tasks of this process do what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// They wait for a slot.
    pub waiting: usize,
    /// They run.
    pub working: usize,
    /// They run, and wait for their clients' answers.
    pub asking: usize,
}

/// The runs that are under way in this process.
#[derive(Default)]
pub(crate) struct Runs {
    count: AtomicU64,
    /// Ordered, as is all that is gone through here, so that a simulation can be repeated.
    /// By number as well: a host that lost its hold on a task and takes it over again has
    /// two runs of it, until the first has let go.
    by_key: Mutex<BTreeMap<(RunKey, u64), Registered>>,
}

impl Runs {
    /// Registers a run; it is forgotten when the guard is dropped.
    pub fn register(dispatch: &Arc<Dispatch>, task: Option<TaskId>, run: &Run, waiting: bool) -> RunGuard {
        let runs = &dispatch.runs;
        let number = runs.count.fetch_add(1, Ordering::Relaxed);
        let key = (task.map_or(RunKey::Plain(number), RunKey::Task), number);
        let registered = Registered {
            stop: run.stop.clone(),
            work: run.work.clone(),
            outlet: run.outlet.clone(),
            stored: task.is_none(),
            waiting,
            asking: false,
        };
        runs.lock().insert(key, registered);
        RunGuard { dispatch: dispatch.clone(), key }
    }

    /// Stops the run of this task, if it is here.
    pub fn stop(&self, id: TaskId) {
        self.stop_key(RunKey::Task(id));
    }

    pub fn stop_key(&self, key: RunKey) {
        self.stop_between((key, 0), (key, u64::MAX));
    }

    fn stop_between(&self, first: (RunKey, u64), last: (RunKey, u64)) {
        let registered: Vec<Registered> =
            self.lock().range(first..=last).map(|(_, registered)| registered.clone()).collect();
        for Registered { stop, work, .. } in registered {
            stop.set();
            // After the flag: the guest must see it when it looks.
            work.interrupt();
        }
    }

    /// Tells the client of this task's run how the task stands (T-37).
    pub fn tell_status(&self, task: &Task) {
        let key = RunKey::Task(task.id);
        let outlet = self.lock().range_mut((key, 0)..=(key, u64::MAX)).next_back().map(|(_, registered)| {
            registered.asking = task.status() == TaskStatus::InputRequired;
            registered.outlet.clone()
        });
        if let Some(outlet) = outlet {
            outlet.notify(Some(task.id), Notice::Status(task.view()));
        }
    }

    /// Tasks that run or wait here and whose records are stored.
    pub fn stored_tasks(&self) -> Vec<TaskId> {
        self.lock()
            .iter()
            .filter_map(|(key, registered)| match key {
                (RunKey::Task(id), _) if registered.stored => Some(*id),
                _ => None,
            })
            .collect()
    }

    /// Whether a run of this task is registered, its record stored or not.
    pub fn has(&self, id: TaskId) -> bool {
        let key = RunKey::Task(id);
        self.lock().range((key, 0)..=(key, u64::MAX)).next().is_some()
    }

    /// Whether the record of a task that runs or waits here is stored.
    pub fn is_stored(&self, id: TaskId) -> bool {
        let key = RunKey::Task(id);
        self.lock().range((key, 0)..=(key, u64::MAX)).any(|(_, registered)| registered.stored)
    }

    /// How many tasks of this process do what.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for ((key, _), registered) in self.lock().iter() {
            match key {
                RunKey::Plain(_) => {}
                RunKey::Task(_) if registered.waiting => census.waiting += 1,
                RunKey::Task(_) if registered.asking => census.asking += 1,
                RunKey::Task(_) => census.working += 1,
            }
        }
        census
    }

    /// Every run, and whether it waits for a slot.
    pub fn all(&self) -> Vec<(RunKey, bool)> {
        self.lock().iter().map(|((key, _), registered)| (*key, registered.waiting)).collect()
    }

    /// Runs that were not told to stop: all, or those that wait for a slot.
    pub fn unstopped(&self, waiting: bool) -> Vec<RunKey> {
        self.lock()
            .iter()
            .filter(|(_, registered)| !registered.stop.is_set() && (registered.waiting || !waiting))
            .map(|((key, _), _)| *key)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(RunKey, u64), Registered>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a run registered.
pub(crate) struct RunGuard {
    dispatch: Arc<Dispatch>,
    key: (RunKey, u64),
}

impl RunGuard {
    /// Notes that the task's record is in the store, under this incarnation.
    pub fn stored(&self, incarnation: Incarnation) {
        if let Some(registered) = self.dispatch.runs.lock().get_mut(&self.key) {
            registered.stored = true;
        }
        // Lost while the record was being written, and not among the runs that were
        // stopped then.
        if self.dispatch.membership.current() != Some(incarnation) {
            self.dispatch.runs.stop_between(self.key, self.key);
        }
    }

    /// Notes that the run has its slot. False if the host has begun to close: then it
    /// waits as before, and whoever closes sees to its task as to one that has not begun.
    pub fn started(&self) -> bool {
        let mut runs = self.dispatch.runs.lock();
        // Whoever closes says so first, and then looks who waits.
        if self.dispatch.closing.is_set() {
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
        self.dispatch.runs.lock().remove(&self.key);
    }
}
