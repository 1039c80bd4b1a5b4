//! The receivers of the events of one run besides its client. A run without any allocates nothing.

use crate::observe::Observers;
use crate::observe::call_end::CallEnd;
use crate::observe::call_history::HistoryEntry;
use crate::observe::call_log::CallLog;
use crate::observe::event::{EventSink as _, RunEvent, RunFacts};
use crate::observe::host_call_log::HostCallLog;
use crate::observe::metrics::MeasuredTool;
use crate::observe::observer::Observation;
use crate::observe::run_timeline::RunTimeline;
use crate::observe::trace::Recording;
use std::sync::Arc;
use toolyard_protocol::{Timestamp, TraceContext};
use toolyard_task::RunEnd;
use toolyard_task::host_call::HostCall;
use toolyard_task::timeline::TimelineStore;

/// The receivers of the events of one run besides its client.
pub(crate) struct RunSinks {
    metrics: Option<Arc<MeasuredTool>>,
    /// The record of the call, if it is traced.
    recording: Option<Box<Recording>>,
    /// The entry of the run in the history of plain calls, if there is one.
    history: Option<Box<HistoryEntry>>,
    /// The observed call, if there is an observer.
    observation: Option<Arc<Observation>>,
    timeline: RunTimeline,
    call_log: Arc<CallLog>,
    host_calls: HostCallLog,
}

impl RunSinks {
    /// The receivers of a run that is set up now, and the trace that its guest's own requests belong to. `tool` is
    /// `None` for a provider, `trace` the trace that the call came with.
    pub fn new(
        observers: &Observers,
        tool: Option<&Arc<MeasuredTool>>,
        (trace, observation): (Option<TraceContext>, Option<Arc<Observation>>),
        timeline: Arc<dyn TimelineStore>,
        now: impl FnOnce() -> Timestamp,
    ) -> (Self, Option<TraceContext>) {
        let ((trace, recording), history) = match tool {
            Some(tool) => (observers.trace(trace, tool), observers.begin_history(now)),
            None => ((trace, None), None),
        };
        let sinks = Self {
            metrics: tool.cloned(),
            recording,
            history,
            observation,
            timeline: RunTimeline::new(timeline),
            call_log: observers.call_log.clone(),
            host_calls: HostCallLog::default(),
        };
        (sinks, trace)
    }

    /// Passes an event to all receivers.
    pub fn emit(&self, run: &RunFacts<'_>, event: RunEvent<'_>) {
        self.timeline.receive(run, event);
        self.metrics.as_deref().receive(run, event);
        self.recording.as_deref().receive(run, event);
        self.history.as_deref().receive(run, event);
        self.call_log.receive(run, event);
        self.observation.as_deref().receive(run, event);
    }

    /// The host has done this for the guest.
    pub fn add_host_call(&self, run: &RunFacts<'_>, call: &HostCall) {
        if self.host_calls.add(call, self.recording.is_some() || self.history.is_some()) {
            self.emit(run, RunEvent::HostCall(call));
        }
    }

    /// The run has ended.
    pub fn end(&self, run: &RunFacts<'_>, called: CallEnd, end: &RunEnd, cause: Option<&'static str>) {
        self.emit(run, RunEvent::Ended { end, called, cause, host_calls: &self.host_calls.take() });
    }

    /// The events of the timeline that were held back.
    pub const fn timeline(&self) -> &RunTimeline {
        &self.timeline
    }
}
