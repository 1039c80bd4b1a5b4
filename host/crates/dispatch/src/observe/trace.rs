//! What is told of a call to whoever traces: one record when it is over.
//!
//! What may not live here: how a trace is written down or sent, and the clock of
//! traces, which is finer than ours. Both are behind the port [`Traces`].

use crate::observe::Observers;
use crate::observe::call_end::CallEnd;
use crate::observe::metrics::Measured;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use toolyard_protocol::TraceContext;
use toolyard_task::TaskId;
use toolyard_task::tool::{Spent, ToolSpec};

/// Who keeps traces. Nothing here may wait: a call waits for it.
pub trait Traces: Send + Sync + 'static {
    /// Now, in nanoseconds since 1970.
    fn now(&self) -> u64;

    /// A new span for a call that came with `parent`, and whether it is recorded.
    fn begin(&self, parent: Option<&TraceContext>) -> TraceContext;

    /// A call that is recorded is over.
    fn ended(&self, call: EndedCall<'_>);
}

/// A call that is over.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// Its own span.
    pub context: &'a TraceContext,
    /// The span that it came with.
    pub parent: Option<&'a TraceContext>,
    /// What was called.
    pub tool: &'a ToolSpec,
    /// The task that it became.
    pub task: Option<TaskId>,
    /// When it was taken in, by [`Traces::now`].
    pub began: u64,
    /// When its run began; none if it was stopped while it waited for its turn.
    pub started: Option<u64>,
    /// When it was over.
    pub ended: u64,
    /// How.
    pub end: CallEnd,
    /// What the guest took.
    pub spent: Option<Spent>,
}

impl Observers {
    /// Has calls traced from now on. Only the first to be named counts.
    pub fn trace_to(&self, traces: Arc<dyn Traces>) {
        drop(self.traces.set(traces));
    }

    /// The place in a trace of a call that came with `parent`, and its record if one
    /// is kept. Where nothing is traced, guests still learn of the caller's trace.
    pub fn trace(
        &self,
        parent: Option<TraceContext>,
        tool: &Arc<Measured>,
    ) -> (Option<TraceContext>, Option<Box<Recording>>) {
        let Some(traces) = self.traces.get() else { return (parent, None) };
        let context = traces.begin(parent.as_ref());
        let recording = context.sampled.then(|| {
            Box::new(Recording {
                context: context.clone(),
                parent,
                tool: tool.clone(),
                task: OnceLock::new(),
                began: traces.now(),
                course: Mutex::default(),
                traces: traces.clone(),
            })
        });
        (Some(context), recording)
    }
}

/// A call under way that is recorded. It is told of when it has ended, or when it is
/// dropped without an end.
pub(crate) struct Recording {
    context: TraceContext,
    parent: Option<TraceContext>,
    tool: Arc<Measured>,
    /// The task that the call became.
    task: OnceLock<TaskId>,
    began: u64,
    course: Mutex<Course>,
    traces: Arc<dyn Traces>,
}

#[derive(Default)]
struct Course {
    started: Option<u64>,
    spent: Option<Spent>,
    told: bool,
}

impl Recording {
    /// The call is this task from now on.
    pub fn set_task(&self, task: TaskId) {
        // It is told once.
        let _ = self.task.set(task);
    }

    /// The run begins.
    pub fn started(&self) {
        let now = self.traces.now();
        self.lock().started = Some(now);
    }

    /// What the run took.
    pub fn spent(&self, spent: Spent) {
        self.lock().spent = Some(spent);
    }

    /// The run is over.
    pub fn ended(&self, end: CallEnd) {
        let (started, spent) = {
            let mut course = self.lock();
            if std::mem::replace(&mut course.told, true) {
                return;
            }
            (course.started, course.spent)
        };
        self.traces.ended(EndedCall {
            context: &self.context,
            parent: self.parent.as_ref(),
            tool: self.tool.spec(),
            task: self.task.get().copied(),
            began: self.began,
            started,
            ended: self.traces.now(),
            end,
            spent,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.ended(CallEnd::Stopped);
    }
}
