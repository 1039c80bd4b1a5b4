//! The reports of a run that are kept: in the timeline of its task, in its trace, and in the history of
//! calls.

use crate::observe::call_end::CallEnd;
use crate::observe::metrics::MeasuredTool;
use crate::run::run::Run;
use crate::slots::stop::StopCause;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::RunEnd;
use toolyard_task::host_call::{HostAction, HostCall, MIN_WAIT};
use toolyard_task::timeline::NewEvent;
use toolyard_task::tool::Report;

impl Run {
    /// Adds a report to the timeline of the run's task. A plain call pays for the check whether it is one.
    pub(crate) fn keep_report(&self, report: &Report) {
        let Some((task, fence)) = self.task() else { return };
        let store = &self.deps.tasks.timeline;
        if let Report::Usage(used) = report {
            store.append_usage(task, fence.attempt, *used);
        } else if let Some(event) = self.timeline.event(fence.attempt, report) {
            store.append(task, event);
        }
    }

    /// Adds what the host has just done for the guest.
    pub(crate) fn keep_host_call(&self, call: &HostCall) {
        let is_listed = self.host_calls.add(call, self.keeps_host_calls());
        if let Some((task, fence)) = self.task()
            && is_listed
        {
            self.deps.tasks.timeline.append(task, NewEvent::host_call(fence.attempt, call));
        }
    }

    /// Adds a wait of the guest that began then, unless it is not worth a mention.
    pub(crate) fn keep_wait(&self, began: Instant, what: HostAction) {
        let took = began.elapsed();
        if took >= MIN_WAIT {
            self.keep_host_call(&HostCall { took, what });
        }
    }

    /// Adds the text of the guest that was held back and may be stored now.
    pub(crate) fn keep_due_output(&self) {
        if let Some((task, fence)) = self.task() {
            for event in self.timeline.due_output(fence.attempt) {
                self.deps.tasks.timeline.append(task, event);
            }
        }
    }

    /// Adds everything that was held back. The guest is gone.
    pub(crate) fn keep_last_events(&self) {
        let Some((task, fence)) = self.task() else { return };
        let further = self.host_calls.further();
        let further = (!further.is_empty()).then(|| NewEvent::further_host_calls(fence.attempt, further));
        for event in self.timeline.last(fence.attempt).into_iter().chain(further) {
            self.deps.tasks.timeline.append(task, event);
        }
    }

    /// Whether anything needs the host calls of the run at its end.
    pub(crate) const fn keeps_host_calls(&self) -> bool {
        self.observers.recording.is_some() || self.observers.history.is_some()
    }

    /// Reports the end to the trace and to the history of plain calls.
    pub(crate) fn record_end(&self, tool: &MeasuredTool, called: CallEnd, end: &RunEnd) {
        let host_calls = self.host_calls.take();
        if let Some(recording) = &self.observers.recording {
            recording.end(called, &host_calls);
        }
        if let Some(history) = &self.observers.history
            && self.task().is_none()
        {
            let principal =
                self.client.principal.as_ref().map(|principal| principal.name()).unwrap_or_default();
            let call = (tool.spec().name(), principal);
            let end = (called, end, self.usage().copied());
            history.end(call, end, host_calls, self.deps.clock.now());
        }
    }

    /// Logs the end of the run, unless `log.rate` is reached.
    pub(crate) fn log_end(&self, tool: &MeasuredTool, called: CallEnd) {
        if !self.deps.observers.call_log.admits(self.deps.settings.log_rate) {
            return;
        }
        let code = match called {
            CallEnd::Error(code) => Some(code),
            _ => None,
        };
        let cause = match called {
            CallEnd::Stopped => self.stop.cause().map(StopCause::name),
            _ => None,
        };
        let usage = self.usage();
        tracing::info!(
            event = "call.ended",
            tool = tool.spec().name(),
            principal = self.client.principal.as_ref().map(|principal| display(principal.to_string())),
            outcome = called.name(),
            code,
            cause,
            ms = usage.map(|used| milliseconds(used.wall)),
            cpu_ms = usage.map(|used| milliseconds(used.cpu)),
            task = self.task().map(|(task, _)| display(task)),
            "call ended"
        );
    }
}

/// With microseconds, for people who compare calls.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
