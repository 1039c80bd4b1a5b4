//! The duty to tell a client of its task.

use crate::task::Tasks;
use crate::task::commit::CommitOutcome;
use std::sync::Arc;
use toolyard_task::audit::By;
use toolyard_task::{Event, TaskId};

/// The duty to tell a client of its task. Dropped before that, it cancels the task, since no client
/// would ever learn of it.
#[must_use]
pub struct Handover {
    tasks: Arc<Tasks>,
    task: TaskId,
    delivered: bool,
}

impl Handover {
    pub(crate) fn of(tasks: &Arc<Tasks>, task: TaskId) -> Self {
        Self { tasks: tasks.clone(), task, delivered: false }
    }

    /// The reply has left.
    pub fn mark_delivered(mut self) {
        self.delivered = true;
    }
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handover").field(&self.task).finish()
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if self.delivered {
            return;
        }
        let (tasks, id) = (self.tasks.clone(), self.task);
        let cancel = async move {
            let message = "The client went away before it could be told of this task.".to_owned();
            let by = By::host().because("not_delivered");
            match tasks.change(id, &Event::Cancelled { message }, &by).await {
                Ok(CommitOutcome::Done(_)) => {
                    tracing::info!(
                        event = "task.cancelled", task = %id, reason = "not_delivered",
                        "task cancelled"
                    )
                }
                Ok(CommitOutcome::Gone) => tasks.slots.runs.stop(id),
                Ok(CommitOutcome::Refused(..)) => {}
                Err(error) => {
                    tracing::error!(
                        event = "task.not_cancelled", task = %id, error = &error as &dyn std::error::Error,
                        "cannot cancel a task that its client does not know"
                    );
                    tasks.slots.runs.stop(id);
                }
            }
        };
        let slots = &self.tasks.slots;
        slots.tracker.spawn_on(cancel, &slots.guests);
    }
}
