//! The run of a task, from its turn to its outcome.

use crate::error::RETRY_AFTER_MS;
use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::run::journal::TaskJournal;
use crate::run::run::{CheckedTool, Run};
use crate::slots::admission::{PendingSlot, Slot, SlotRequest, UnapprovedRequest};
use crate::slots::registry::RunGuard;
use crate::task::commit::{CommitOutcome, log_end};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::Timestamp;
use toolyard_task::audit::By;
use toolyard_task::journal::LastChunks;
use toolyard_task::{Event, Outcome, Refusal, RunEnd, Task, TaskId};

/// How a task gets its slot.
pub(crate) enum SlotTurn {
    Now(Slot),
    Queued(PendingSlot),
    /// The task enters the queue once it is approved.
    Approval(UnapprovedRequest),
    /// The task enters the queue after a pause.
    After(Duration, SlotRequest),
}

impl RunDeps {
    /// Spawns the run of a task, from its turn to its end.
    pub fn spawn_task(
        self: &Arc<Self>,
        task: Task,
        tool: CheckedTool,
        run: Arc<Run>,
        turn: SlotTurn,
        guard: RunGuard,
    ) {
        let this = self.clone();
        let life = async move {
            this.run_task(task, tool, run, turn, &guard).await;
            drop(guard);
        };
        self.slots.tracker.spawn_on(life, &self.slots.guests);
    }

    /// The life of a task after its creation, in one spawned future.
    async fn run_task(
        self: &Arc<Self>,
        task: Task,
        tool: CheckedTool,
        run: Arc<Run>,
        turn: SlotTurn,
        guard: &RunGuard,
    ) {
        let as_task = run.task().expect("it was made one before it was spawned");
        let RunTask { id, fence, expires_at, .. } = as_task;
        let (arguments, mut slot) = match turn {
            SlotTurn::Now(slot) => (task.arguments.detached(), slot),
            SlotTurn::Queued(_) | SlotTurn::After(..) | SlotTurn::Approval(_) => {
                // The arguments may be large. The store keeps them until the task has a slot.
                drop(task);
                let slot = tokio::select! {
                    biased;
                    () = run.stop.wait() => return,
                    slot = Box::pin(self.slot_in_turn(&run, turn)) => slot,
                };
                let Some(slot) = slot else { return };
                if !guard.mark_started() {
                    return run.stop.wait().await;
                }
                // Durable before the guest begins: a later reader must know that
                // it may have had effects.
                // Detached: while the run waits, the rest of the task is not kept for its arguments.
                let started = Event::Started { fence };
                match Box::pin(self.change_at_last(id, &started, expires_at, None)).await {
                    Some(CommitOutcome::Done(task)) => (task.arguments.detached(), slot),
                    // By this run itself: the store had reported a failure, but had written.
                    Some(CommitOutcome::Refused(task, Refusal::AlreadyStarted)) if task.fence == fence => {
                        (task.arguments.detached(), slot)
                    }
                    _ => return,
                }
            }
        };
        // Boxed, so that the future of a queued task is small.
        let end = Box::pin(run.clone().drive_tool(tool, arguments, slot.take_reservation())).await;
        if !run.is_parked() {
            run.end_task(as_task, end).await;
        }
        drop(slot);
        if run.task_journal().is_some() {
            // There is room for another one.
            self.tasks.due.notify_one();
        }
    }

    /// Waits for a slot.
    async fn slot_in_turn(&self, run: &Run, turn: SlotTurn) -> Option<Slot> {
        let request = match turn {
            SlotTurn::Now(slot) => return Some(slot),
            SlotTurn::Queued(pending) => return pending.slot().await,
            SlotTurn::Approval(unapproved) => run.approved(unapproved).await?,
            SlotTurn::After(pause, request) => {
                // A timer takes up to a millisecond, even for none.
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                request
            }
        };
        loop {
            match self.slots.admission.enqueue(request.clone()) {
                Ok(pending) => return pending.slot().await,
                // The queue of its plugin is full: the task was accepted, so it tries again.
                Err(_) => tokio::time::sleep(Duration::from_millis(RETRY_AFTER_MS)).await,
            }
        }
    }

    /// Stores the outcome of a task, and the end of its journal.
    async fn finish_task(&self, task: RunTask, end: RunEnd, journal: Option<&TaskJournal>) {
        let RunTask { id, fence, expires_at, .. } = task;
        let (outcome, message) = match end {
            RunEnd::Result { is_error, result, message } => (Outcome::Result { is_error, result }, message),
            RunEnd::Error(error) => {
                let message = error.message.clone();
                (Outcome::Error(error), Some(message))
            }
            RunEnd::Stopped => {
                // The event that stopped it has set the outcome of the task.
                tracing::info!(event = "run.stopped", task = %id, "run stopped");
                return;
            }
        };
        let last = match journal {
            None => None,
            Some(journal) => match journal.last_chunks().await {
                Ok(last) => last,
                // Another run has the task, or will.
                Err(lost) => return tracing::debug!(task = %id, %lost, "task not ended by this run"),
            },
        };
        let finished = match journal.is_some_and(TaskJournal::is_stuck) {
            true => Event::Stuck { fence, outcome, message },
            false => Event::Finished { fence, outcome, message },
        };
        match self.change_at_last(id, &finished, expires_at, last.as_ref()).await {
            Some(CommitOutcome::Done(task)) => {
                if let Some(last) = last {
                    self.count_journal(&last.chunks);
                }
                log_end(&task, "finished");
            }
            Some(CommitOutcome::Refused(task, refusal)) => {
                tracing::debug!(task = %id, status = task.status().as_str(), %refusal, "a late result was dropped");
            }
            Some(CommitOutcome::Gone) | None => {}
        }
    }

    /// Applies an event of a run. Retries while the store cannot be reached, until the task's time is
    /// up.
    async fn change_at_last(
        &self,
        id: TaskId,
        event: &Event,
        until: Timestamp,
        last: Option<&LastChunks>,
    ) -> Option<CommitOutcome> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.tasks.change_with(id, event, &By::host(), last).await {
                Ok(changed) => return Some(changed),
                Err(error) => {
                    tracing::error!(
                        event = "task.end_not_stored", task = %id, error = &error as &dyn std::error::Error,
                        "cannot store the end of a task; trying again"
                    );
                    if self.clock.now() >= until {
                        return None;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
            }
        }
    }
}

impl Run {
    /// Ends the task with the end of this run. Boxed, so that the future of a plain call is small.
    pub fn end_task(&self, task: RunTask, end: RunEnd) -> BoxFuture<'_, ()> {
        let journal = self.task_journal().map(AsRef::as_ref);
        self.deps.finish_task(task, end, journal).boxed()
    }
}
