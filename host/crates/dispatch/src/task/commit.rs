//! The one way a stored task changes: read, `apply`, compare and write, wake.

use crate::task::Tasks;
use toolyard_task::audit::{By, Entry};
use toolyard_task::store::{Committed, StoreError};
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Event, Refusal, Task, TaskId, apply};

/// What came of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It is durable; this is the task now.
    Done(Task),
    /// It does not apply; this is the task as it is.
    Refused(Task, Refusal),
    /// There is no such task any more.
    Gone,
}

impl Tasks {
    /// Applies `event` to the task. A lost compare is judged anew by what is
    /// there then. What the audit log says of it is in the same commit (T-43).
    pub(crate) async fn change(&self, id: TaskId, event: &Event, by: &By) -> Result<Changed, StoreError> {
        loop {
            let Some(read) = self.store.read(id, None).await? else {
                return Ok(Changed::Gone);
            };
            if read.task.is_gone(read.now) {
                return Ok(Changed::Gone);
            }
            let next = match apply(&read.task, event.clone(), read.now) {
                Ok(next) => next,
                Err(refusal) => {
                    if refusal == Refusal::Terminal {
                        // Whoever ended it may have been told that the store failed.
                        self.slots.runs.stop(id);
                    }
                    return Ok(Changed::Refused(read.task, refusal));
                }
            };
            let entries = Entry::changed(event, &next, by);
            match self.store.commit(&next, entries).await? {
                Committed::Done => {
                    if let Some(outcome) = &next.outcome {
                        // A task with an outcome does not change, so it is counted once.
                        self.observers.metrics.task_ended(outcome);
                        self.keeps(&next);
                    }
                    // Durable before visible: who is told is told after the commit.
                    // First what is out is taken back, while its line still is.
                    self.desk.settle(&next);
                    if shown(&read.task) != shown(&next) {
                        self.slots.runs.tell_status(&next);
                    }
                    self.waiters.wake(id);
                    return Ok(Changed::Done(next));
                }
                Committed::Stale => {}
            }
        }
    }

    /// Ends a task whose ttl has passed, and stops its guest.
    pub(crate) async fn expire(&self, id: TaskId) -> Result<Changed, StoreError> {
        let changed = self.change(id, &Event::Expired, &By::host()).await?;
        if let Changed::Done(task) = &changed {
            self.slots.runs.stop(id);
            tracing::info!(task = %id, tool = task.tool, "task ended by its ttl");
        }
        Ok(changed)
    }
}

/// What a client sees of a task, but for the times.
fn shown(task: &Task) -> (TaskStatus, Option<&str>) {
    (task.status(), task.status_message.as_deref())
}
