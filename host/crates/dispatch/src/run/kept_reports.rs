//! The reports of a run that are kept in the timeline of its task.

use crate::run::run::Run;
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

    /// Adds the last progress of the run, if it is not stored yet.
    pub(crate) fn keep_last_progress(&self) {
        if let Some((task, fence)) = self.task()
            && let Some(progress) = self.timeline.last(fence.attempt)
        {
            self.deps.tasks.timeline.append(task, progress);
        }
    }
}
