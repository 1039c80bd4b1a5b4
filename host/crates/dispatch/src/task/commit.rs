//! The one way a stored task changes: read, `apply`, compare and write, carry out the effects.

use crate::slots::stop::StopCause;
use crate::task::Tasks;
use toolyard_task::audit::By;
use toolyard_task::journal::LastChunks;
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::{Effect, Event, Outcome, Refusal, StoreError, Task, TaskId, Transition, apply};

/// The outcome of a change.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// The change is durable; this is the task now.
    Done(Task),
    /// The change does not apply; this is the task as it is.
    Refused(Task, Refusal),
    /// There is no such task any more.
    Gone,
}

impl Tasks {
    /// Applies `event` to the task. After a lost compare, it applies the event to the newer record.
    /// Its audit entries (T-43) and the events of its timeline are in the same commit.
    pub(crate) async fn change(
        &self,
        id: TaskId,
        event: &Event,
        by: &By,
    ) -> Result<CommitOutcome, StoreError> {
        self.change_with(id, event, by, None).await
    }

    /// As [`Tasks::change`], with the last chunks of the journal in the same commit.
    pub(crate) async fn change_with(
        &self,
        id: TaskId,
        event: &Event,
        by: &By,
        last: Option<&LastChunks>,
    ) -> Result<CommitOutcome, StoreError> {
        loop {
            let Some(read) = self.store.read(id, None).await? else {
                return Ok(CommitOutcome::Gone);
            };
            if read.task.is_gone(read.now) {
                return Ok(CommitOutcome::Gone);
            }
            let transition = match apply(&read.task, event.clone(), read.now) {
                Ok(transition) => transition,
                Err(refusal) => {
                    if refusal == Refusal::Terminal {
                        // The client that ended it may have got an error of the store.
                        self.slots.runs.stop(id, StopCause::Ended);
                    }
                    return Ok(CommitOutcome::Refused(read.task, refusal));
                }
            };
            let records = Records::changed(event, &transition.task, by);
            let records = Records { journal: last.cloned(), ..records };
            match self.store.commit(&transition.task, records).await? {
                // Durable before visible: effects come after the commit.
                CommitStatus::Done => {
                    let ended = read.task.is_live() && transition.task.drops_journal();
                    let task = self.carry_out(transition);
                    if ended || matches!(event, Event::Unresumable { .. }) {
                        self.drop_journal(id).await;
                    }
                    return Ok(CommitOutcome::Done(task));
                }
                CommitStatus::Stale => {}
            }
        }
    }

    /// Carries out the effects of a transition that is durable. Returns the task.
    fn carry_out(&self, Transition { task, effects }: Transition) -> Task {
        for effect in effects.into_iter().flatten() {
            match effect {
                Effect::RecordEnd => {
                    if let Some(outcome) = &task.outcome {
                        self.observers.metrics.count_ended(outcome);
                    }
                    self.count_outcome(&task);
                }
                Effect::WithdrawQuestions => self.inflight.settle(&task),
                Effect::NotifyStatus => self.slots.runs.tell_status(&task),
                Effect::WakeWaiters => self.waiters.wake(task.id),
                Effect::StopRun => {
                    let is_wanted = task.outcome == Some(Outcome::Cancelled);
                    let cause = if is_wanted { StopCause::Wanted } else { StopCause::Ended };
                    self.slots.runs.stop(task.id, cause);
                }
                Effect::WakeRun => self.due.notify_one(),
            }
        }
        task
    }

    /// Ends a task whose ttl has passed.
    pub(crate) async fn expire(&self, id: TaskId) -> Result<CommitOutcome, StoreError> {
        let changed = self.change(id, &Event::Expired, &By::host()).await?;
        if let CommitOutcome::Done(task) = &changed {
            log_end(task, "ttl");
        }
        Ok(changed)
    }
}

/// Logs that the store failed, and that the host tries again. `task` is the one that waits for it.
pub(crate) fn log_store_retry(task: Option<TaskId>, error: &StoreError) {
    tracing::warn!(
        event = "store.retrying",
        task = task.map(tracing::field::display),
        error = error as &dyn std::error::Error,
        "store failed; trying again"
    );
}

/// Logs that a task has ended, and what ended it.
pub(crate) fn log_end(task: &Task, reason: &str) {
    tracing::info!(
        event = "task.ended", task = %task.id, tool = task.tool, status = task.status().as_str(),
        reason,
        "task ended"
    );
}
