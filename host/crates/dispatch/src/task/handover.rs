//! The duty to tell a client of its task.

use crate::slots::stop::StopCause;
use crate::task::Tasks;
use crate::task::commit::CommitOutcome;
use crate::task::rejoin::JoinKey;
use std::sync::Arc;
use toolyard_task::audit::By;
use toolyard_task::{Event, Owner, Task, TaskId};

/// The duty to tell a client of its task. If dropped before that, it cancels the task, since no client
/// would ever learn of it, unless an equal call of its owner joins the task.
#[must_use]
pub struct Handover {
    tasks: Arc<Tasks>,
    task: TaskId,
    /// Present if the record says that the caller has not been told.
    rejoin: Option<Box<JoinKey>>,
    done: bool,
}

impl Handover {
    pub(crate) fn of(tasks: &Arc<Tasks>, task: &Task) -> Self {
        let rejoin = task.is_undelivered().then(|| Box::new(JoinKey::of_task(task)));
        // Its caller knows it from another reply.
        let done = rejoin.is_none() && task.bridged.is_some() && task.owner != Owner::Anyone;
        Self { tasks: tasks.clone(), task: task.id, rejoin, done }
    }

    /// The reply has left.
    pub fn mark_delivered(mut self) {
        self.done = true;
        if self.rejoin.is_none() {
            return;
        }
        let (tasks, id) = (self.tasks.clone(), self.task);
        tasks.forget_rejoin(id);
        let slots = self.tasks.slots.clone();
        let note = async move {
            if let Err(error) = tasks.change(id, &Event::Delivered, &By::host()).await {
                // An equal call may join the task once more, which runs nothing twice.
                tracing::warn!(
                    event = "task.delivery_not_stored", task = %id,
                    error = &error as &dyn std::error::Error,
                    "cannot store that the caller knows its task"
                );
            }
        };
        slots.tracker.spawn_on(note, &slots.guests);
    }

    /// Another one has the duty.
    pub(crate) fn pass_on(mut self) {
        self.done = true;
    }
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handover").field(&self.task).finish()
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (tasks, id) = (self.tasks.clone(), self.task);
        if let Some(key) = &self.rejoin {
            return tasks.add_rejoin(id, **key, None);
        }
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
                Ok(CommitOutcome::Gone) => tasks.slots.runs.stop(id, StopCause::Ended),
                Ok(CommitOutcome::Refused(..)) => {}
                Err(error) => {
                    tracing::error!(
                        event = "task.not_cancelled", task = %id, error = &error as &dyn std::error::Error,
                        "cannot cancel a task that its client does not know"
                    );
                    tasks.slots.runs.stop(id, StopCause::Ended);
                }
            }
        };
        let slots = &self.tasks.slots;
        slots.tracker.spawn_on(cancel, &slots.guests);
    }
}
