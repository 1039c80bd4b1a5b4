//! Traces of calls: one record at the end of each.
//!
//! Not here: how a trace is encoded or sent, and the finer clock of traces. Both are behind the
//! port [`Traces`].

use crate::observe::Observers;
use crate::observe::call_end::CallEnd;
use crate::observe::event::{EventSink, RunEvent, RunFacts};
use crate::observe::host_call_log::HostCalls;
use crate::observe::metrics::MeasuredTool;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use toolyard_protocol::TraceContext;
use toolyard_task::TaskId;
use toolyard_task::tool::{Report, RunUsage, ToolSpec};

/// A collector of traces. It must not block: the call waits for it.
pub trait Traces: Send + Sync + 'static {
    /// Now, in nanoseconds since 1970.
    fn now(&self) -> u64;

    /// A new span for a call that came with `parent`, and whether it is recorded.
    fn begin(&self, parent: Option<&TraceContext>) -> TraceContext;

    /// A recorded call has ended.
    fn ended(&self, call: EndedCall<'_>);
}

/// A call that has ended.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// The span of the call itself.
    pub context: &'a TraceContext,
    /// The span that it came with.
    pub parent: Option<&'a TraceContext>,
    /// The called tool.
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
    /// The resources that the guest used.
    pub spent: Option<RunUsage>,
    /// Requests, sockets and waits of the guest.
    pub host_calls: &'a HostCalls,
}

impl Observers {
    /// Sets the collector of traces of calls. The first one stays.
    pub fn set_traces(&self, traces: Arc<dyn Traces>) {
        drop(self.traces.set(traces));
    }

    /// The place in a trace of a call that came with `parent`, and its record if one
    /// is kept. Where nothing is traced, guests still learn of the caller's trace.
    pub(crate) fn trace(
        &self,
        parent: Option<TraceContext>,
        tool: &Arc<MeasuredTool>,
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
                run: Mutex::default(),
                traces: traces.clone(),
            })
        });
        (Some(context), recording)
    }
}

/// A recorded call under way. It reports its end, or, dropped without one, that it was stopped.
pub(crate) struct Recording {
    context: TraceContext,
    parent: Option<TraceContext>,
    tool: Arc<MeasuredTool>,
    /// The task that the call became.
    task: OnceLock<TaskId>,
    began: u64,
    run: Mutex<RecordedRun>,
    traces: Arc<dyn Traces>,
}

#[derive(Default)]
struct RecordedRun {
    started: Option<u64>,
    spent: Option<RunUsage>,
    told: bool,
}

impl Recording {
    /// Reports the end of the run.
    fn end(&self, end: CallEnd, host_calls: &HostCalls) {
        let (started, spent) = {
            let mut run = self.run.lock();
            if std::mem::replace(&mut run.told, true) {
                return;
            }
            (run.started, run.spent)
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
            host_calls,
        });
    }
}

impl EventSink for Recording {
    fn receive(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        match event {
            RunEvent::Started(_) => {
                let now = self.traces.now();
                self.run.lock().started = Some(now);
            }
            RunEvent::IsTask => {
                // Only the first task counts.
                let _ = run.task.map(|(task, _)| self.task.set(task));
            }
            RunEvent::Reported(Report::Usage(spent)) => self.run.lock().spent = Some(*spent),
            RunEvent::Ended { called, host_calls, .. } => self.end(called, host_calls),
            _ => {}
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(CallEnd::Stopped, &HostCalls::default());
    }
}
