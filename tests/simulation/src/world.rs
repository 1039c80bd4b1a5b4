//! The view of an observer who sees everything: each write when the store makes it, the start and end of each
//! run, and each reply when it arrives. It checks the promises about them.
//!
//! It keeps the first broken promise, which ends the simulation.

use crate::bridge::effects;
use crate::bridge::promises::Promises;
use crate::clients::{Known, Unfinished};
use crate::ledger::Ledger;
use crate::runs::Runs;
use crate::trace::{Observed, Trace, demand};
use std::collections::BTreeMap;
use toolyard_task::tool::CallInfo;
use toolyard_task::{Fence, Task, TaskId};

/// The observed world, shared by all its hosts and clients.
pub type World = crate::trace::World<Seen>;

/// The observations so far.
#[derive(Default)]
pub struct Seen {
    /// The tasks, as they were written.
    pub ledger: Ledger,
    /// The runs of guests.
    pub runs: Runs,
    /// Tasks that their clients know.
    pub known: Vec<Known>,
    /// The result of each task, as its client got it.
    pub results: BTreeMap<TaskId, String>,
    /// Questions that have reached a client with a connection.
    pub asked: Vec<Delivered>,
    /// Questions that a stateless client has seen.
    pub open: Vec<(TaskId, Vec<String>)>,
    /// Calls that the stateless client has to repeat.
    pub unfinished: Vec<Unfinished>,
    /// Whether no store call fails or is slow.
    pub calm: bool,
    /// The calls of clients without tasks; also the time and the trace.
    pub(crate) bridge: effects::Seen,
}

/// A question that has reached a client with a connection.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// The host that sent it.
    pub host: usize,
    /// The number of the client.
    pub client: usize,
    /// The id of the request.
    pub request: String,
}

impl Seen {
    /// Nothing so far. Keeps the lines of the trace if `keep`.
    pub(crate) fn new(promises: Promises, keep: bool) -> Self {
        Self { bridge: effects::Seen::new(promises, keep), ..Self::default() }
    }

    /// A run asks for its task. Returns the task as it is stored, and the fence of the run, when the run learns of
    /// it.
    pub fn learns(&mut self, run: usize, info: &CallInfo) -> Option<(Task, Fence)> {
        let (id, attempt) = (info.task?, info.attempt);
        if self.runs.run(run).task.is_some() {
            return None;
        }
        let Some(entry) = self.ledger.entries.get(&id) else {
            self.broke(format_args!("{}: run, and not stored", short(id)));
            return None;
        };
        let task = entry.task.clone();
        // A claim that another host has made meanwhile does not belong to this run.
        let fence = Fence { attempt, ..task.fence };
        self.note(format_args!("run #{run} works on {} ({attempt})", short(id)));
        let twice = self.runs.of(id).any(|other| other.task.is_some_and(|(_, of)| of.attempt == attempt));
        demand!(self, !twice, "{}: two runs of one attempt", short(id));
        Some((task, fence))
    }
}

impl Observed for Seen {
    fn trace(&mut self) -> &mut Trace {
        self.bridge.trace()
    }

    fn time(&self) -> i64 {
        self.bridge.time()
    }
}

/// The name of a task in a trace: ids are random, so their first characters differ.
pub fn short(id: TaskId) -> String {
    id.to_string()[..8].to_owned()
}
