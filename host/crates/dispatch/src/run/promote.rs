//! Promotion: a running plain call becomes a task (26T-3), because its guest says so, because it
//! takes longer than a plain call may, or because it has had effects and has to ask. The run is not
//! started again; the task gets the run that is under way.

use crate::Fault;
use crate::run::promotion::{NotPromoted, Promotion};
use crate::run::run::Run;
use crate::slots::admission::Slot;
use crate::slots::stop::Stop;
use crate::task::handover::Handover;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{SemaphorePermit, oneshot};
use toolyard_protocol::tools::RequestedTtl;
use toolyard_task::audit::name_of;
use toolyard_task::task::Era;
use toolyard_task::{Fence, RunEnd, Task};

impl Run {
    /// Waits for the right to decide what becomes of the call; there is nothing to
    /// decide of one that cannot become a task.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match &self.promotion {
            Some(promotion) => Some(promotion.turn().await),
            None => None,
        }
    }

    /// Makes the call a task, durably, if it is none yet. The task keeps the questions and answers
    /// so far (26T-11).
    pub(crate) async fn become_task(&self) -> Result<(), NotPromoted> {
        let deps = &self.deps;
        let Some(promotion) = &self.promotion else { return Err(NotPromoted::MayNot) };
        let _turn = promotion.turn().await;
        if self.task().is_some() {
            return Ok(());
        }
        // A run whose client is to be asked in another round ends, and is no task's.
        let ends = promotion.over.get().is_some() || self.is_suspended();
        if ends || self.stop.is_set() || deps.slots.closing.is_set() {
            return Err(NotPromoted::Over);
        }
        let task = self.make_task(promotion).await.map_err(NotPromoted::Fault)?;
        let id = task.id;
        let tell = promotion.tell.lock().unwrap_or_else(PoisonError::into_inner).take();
        if tell.is_none_or(|tell| tell.send(task).is_err()) {
            // No caller waits any more, so no client would learn of the task.
            drop(Handover::of(&deps.tasks, id));
        }
        Ok(())
    }

    async fn make_task(&self, promotion: &Promotion) -> Result<Task, Fault> {
        let Promotion { caller, permit, progress_token, .. } = promotion;
        let incarnation = self.deps.node.ensure_registered().await?;
        let fence = Fence { incarnation, attempt: 1 };
        let terms = (Era::Stateless, RequestedTtl::Absent);
        let new = self.deps.new_task(caller, permit, progress_token.clone(), fence, terms);
        let new = Task {
            status_message: self.take_status(),
            effects: self.has_effects(),
            questions: self.question_history().answered_questions(fence.attempt, new.created_at),
            ..new
        };
        let (task, guard) = self.deps.create_task(self, new, caller, false).await?;
        *promotion.guard() = Some(guard);
        tracing::info!(
            event = "task.promoted", task = %task.id, tool = task.tool, owner = name_of(&task.owner),
            "running call became a task"
        );
        Ok(task)
    }

    /// Ends the task with the run, if the call has become one. Returns false for a plain call.
    pub(crate) async fn ended_as_task(&self, end: &RunEnd) -> bool {
        let Some(promotion) = &self.promotion else { return false };
        promotion.close().await;
        let Some(task) = self.as_task() else { return false };
        self.deps.finish_task(task, end.clone()).await;
        drop(promotion.guard().take());
        true
    }
}

/// How a call is waited for that may become a task.
pub(crate) struct PromotionWait<'a> {
    /// The news that it has become one.
    pub became: oneshot::Receiver<Task>,
    /// Set when the request is cancelled.
    pub stop: &'a Stop,
    /// How long it may take before it becomes a task.
    pub inline_for: Duration,
}

/// The outcome of a call that may become a task.
pub(crate) enum EndOrTask {
    /// It ended as a plain call.
    End(RunEnd),
    /// It goes on as this task.
    Task(Box<Task>),
}

impl Run {
    /// Drives a call to its end, or until it is a task. Like any call it goes on even if this
    /// future is dropped; then no client learns of it.
    pub(crate) async fn to_end_or_task(
        self: &Arc<Self>,
        wait: PromotionWait<'_>,
        slot: Slot,
        mut drive: BoxFuture<'static, RunEnd>,
    ) -> EndOrTask {
        if self.work.is_quick()
            && let Some(end) = (&mut drive).now_or_never()
        {
            if self.task().is_none() {
                return EndOrTask::End(end);
            }
            // It became a task and ended in its first poll; the end is written like
            // any other.
            drive = std::future::ready(end).boxed();
        }
        Box::pin(self.to_end_elsewhere(wait, slot, drive)).await
    }

    async fn to_end_elsewhere(
        self: &Arc<Self>,
        wait: PromotionWait<'_>,
        slot: Slot,
        drive: BoxFuture<'static, RunEnd>,
    ) -> EndOrTask {
        let PromotionWait { mut became, stop, inline_for } = wait;
        let (tell, mut told) = oneshot::channel();
        self.register();
        let driven = self.clone();
        let moved = async move {
            let end = drive.await;
            let was_task = driven.ended_as_task(&end).await;
            drop(slot);
            if !was_task {
                // The caller may be gone.
                drop(tell.send(end));
            }
        };
        self.deps.slots.tracker.spawn_on(moved, &self.deps.slots.guests);
        let clock = tokio::time::sleep(inline_for);
        tokio::pin!(clock);
        let (mut stopping, mut clocked) = (false, false);
        loop {
            tokio::select! {
                biased;
                Ok(task) = &mut became => return EndOrTask::Task(Box::new(task)),
                end = &mut told => return EndOrTask::End(end.unwrap_or(RunEnd::Stopped)),
                () = stop.wait(), if !stopping => {
                    stopping = true;
                    self.cancel_unless_task().await;
                }
                () = &mut clock, if !clocked => {
                    clocked = true;
                    if let Err(why) = self.become_task().await {
                        // It is waited for a while longer, as any plain call is.
                        tracing::info!(
                            event = "call.not_promoted", plugin = self.work.plugin(),
                            tool = self.work.tool_name(), reason = %why,
                            "long call does not become a task"
                        );
                    }
                }
            }
        }
    }
}

impl Run {
    /// Registers it as a plain call, unless it is a task by now.
    fn register(&self) {
        let Some(promotion) = &self.promotion else { return };
        let mut guard = promotion.guard();
        if guard.is_none() {
            *guard = Some(self.deps.slots.register(None, self.registration(), false));
        }
    }

    /// Its request is cancelled, which does nothing to a task (26H-13).
    async fn cancel_unless_task(&self) {
        let _turn = self.turn().await;
        if self.task().is_none() {
            self.stop.set();
            // After the flag: the guest must see it when it looks.
            self.work.interrupt();
        }
    }
}
