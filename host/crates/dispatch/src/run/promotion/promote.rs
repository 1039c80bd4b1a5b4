//! Promotion: a running plain call becomes a task (26T-3), because its guest says so, because it
//! takes longer than a plain call may, or because it has had effects and has to ask. The run is not
//! started again; the task gets the run that is under way.

use crate::access::caller::Caller;
use crate::bridge::timeouts::ClientKey;
use crate::error::Fault;
use crate::run::begin::NewTaskTerms;
use crate::run::deps::RunDeps;
use crate::run::promotion::{NotPromoted, Promoted, Promotion, PromotionCause};
use crate::run::run::Run;
use crate::settings::bridge::BridgeTerms;
use crate::slots::Counted;
use crate::slots::admission::Slot;
use crate::slots::stop::{Stop, StopCause};
use crate::task::handover::Handover;
use crate::task::rejoin::{ExpectedOnStop, ExpectedTask, JoinKey};
use futures_util::future::BoxFuture;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{SemaphorePermit, oneshot};
use toolyard_protocol::RawJson;
use toolyard_protocol::tools::RequestedTtl;
use toolyard_task::apply::caller_left;
use toolyard_task::audit::name_of;
use toolyard_task::task::{Bridged, Era};
use toolyard_task::tool::{OnClientTimeout, ToolSpec};
use toolyard_task::{Fence, RunEnd, Task};

impl Run {
    /// Waits for the right to decide what becomes of the call; `None` if it cannot become a task.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match &self.promotion {
            Some(promotion) => Some(promotion.turn().await),
            None => None,
        }
    }

    /// Makes the call a task, durably, if it is none yet. The task keeps the questions and answers
    /// so far (26T-11).
    pub(crate) async fn become_task(&self, cause: PromotionCause) -> Result<(), NotPromoted> {
        let deps = &self.deps;
        let Some(promotion) = &self.promotion else { return Err(NotPromoted::MayNot) };
        let _turn = promotion.turn().await;
        if self.task().is_some() {
            return Ok(());
        }
        // A run whose client will be asked in another round ends, and does not become a task.
        let ends = promotion.over.get().is_some() || self.questions.is_suspended();
        if ends || self.stop.is_set() || deps.slots.closing.is_set() {
            return Err(NotPromoted::Over);
        }
        let task = self.make_task(promotion, cause).await.map_err(NotPromoted::Fault)?;
        let (id, handover) = (task.id, Handover::of(&deps.tasks, &task));
        if cause == PromotionCause::ClientLeft {
            // Before its client can call again.
            deps.tasks.keep_for_rejoin(&task);
        }
        let tell = promotion.tell.lock().take();
        // A client that knows no tasks goes on waiting for the outcome unless that takes long.
        let goes_on = matches!(cause, PromotionCause::Guest | PromotionCause::Effect);
        let is_handed_off = promotion.bridge.is_none() || !goes_on;
        if let Some(bridge) = &promotion.bridge {
            // The answers to questions that were sent already count for the task.
            for (key, request, route) in self.questions.history().questions_out() {
                deps.clients.requests.release(&request);
                deps.tasks.inflight.adopt(id, key, request, route);
            }
            bridge.promoted.set();
        }
        if tell.is_some_and(|tell| tell.send(Promoted { task, is_handed_off }).is_ok()) {
            // The waiting call has the duty now.
            handover.pass_on();
        }
        Ok(())
    }

    /// Logs why the call does not become a task, and at which moment.
    pub(crate) fn log_not_promoted(&self, reason: &dyn Display, moment: &'static str) {
        tracing::info!(
            event = "call.not_promoted", plugin = self.work.plugin(), tool = self.work.tool_name(), moment,
            %reason, "call does not become a task"
        );
    }

    async fn make_task(&self, promotion: &Promotion, cause: PromotionCause) -> Result<Task, Fault> {
        let Promotion { caller, permit, progress_token, bridge, .. } = promotion;
        let incarnation = self.deps.node.ensure_registered().await?;
        let fence = Fence { incarnation, attempt: 1 };
        let now = self.deps.clock.now();
        let owner = match cause {
            PromotionCause::ClientLeft => caller.keeps_as(),
            _ => caller.rejoins_as(),
        };
        let bridged = bridge.as_ref().map(|bridge| Bridged {
            waited_ms: bridge.begun.get().map_or(0, |begun| now.since(*begun)),
            undelivered: owner.is_some(),
        });
        let era = bridge.as_ref().map_or(Era::Stateless, |bridge| bridge.era);
        let terms = NewTaskTerms { era, requested_ttl: RequestedTtl::Absent, bridged };
        let new = self.deps.new_task(caller, permit, progress_token.clone(), fence, terms);
        let status = self.voice.take_status();
        let becoming = self.task_journal().map(|journal| journal.sink.become_task());
        let questions = {
            let history = self.questions.history();
            let deadline = bridge.as_ref().map(|_| now.plus(self.deps.settings.question_ms));
            history.questions_of_task(fence.attempt, new.created_at, deadline)
        };
        let new = Task {
            owner: owner.filter(|_| bridged.is_some()).unwrap_or_else(|| new.owner.clone()),
            status_message: match cause {
                PromotionCause::ClientLeft => Some(caller_left(status.as_deref())),
                _ => status,
            },
            effects: self.questions.has_effects(),
            resume: becoming.as_ref().and_then(|becoming| becoming.resume),
            questions,
            ..new
        };
        let by = caller.by().because(cause.as_str());
        let (task, guard) = self.deps.create_task(self, new, &by, false).await?;
        drop(becoming);
        *promotion.guard() = Some(guard);
        tracing::info!(
            event = "task.promoted", task = %task.id, tool = task.tool, owner = name_of(&task.owner),
            reason = cause.as_str(),
            "running call became a task"
        );
        Ok(task)
    }

    /// Ends the task with the run, if the call has become one. Returns false for a plain call.
    pub(crate) async fn ended_as_task(&self, end: &RunEnd) -> bool {
        let Some(promotion) = &self.promotion else { return false };
        promotion.close().await;
        let Some(task) = self.task() else { return false };
        if !self.is_parked() {
            self.end_task(task, end.clone()).await;
        }
        drop(promotion.guard().take());
        true
    }
}

/// How to wait for a call that may become a task.
pub(crate) struct PromotionWait {
    /// Receives its task.
    pub became: oneshot::Receiver<Promoted>,
    /// How long it may take before it becomes a task.
    pub inline_for: Duration,
    /// Present if the client knows no tasks.
    pub bridge: Option<BridgeTerms>,
}

/// The outcome of a call that may become a task.
pub(crate) enum EndOrTask {
    /// The call ended as a plain call.
    End(RunEnd),
    /// The call goes on as this task.
    Task(Box<Promoted>),
}

impl Run {
    /// Drives a call that did not end in its first poll to its end, or until it is a task. Like any
    /// call it goes on even if this future is dropped; then no client learns of it.
    pub(crate) async fn to_end_or_task(
        self: &Arc<Self>,
        wait: PromotionWait,
        stop: &Stop,
        slot: Slot,
        drive: BoxFuture<'static, RunEnd>,
    ) -> EndOrTask {
        let PromotionWait { mut became, inline_for, bridge } = wait;
        if let Some(bridge) = self.bridge() {
            // It begins once.
            let _ = bridge.begun.set(self.deps.clock.now());
        }
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
        let _promotable = bridge.map(|_| Counted::new(&self.deps.slots.promotable));
        let clock = tokio::time::sleep(inline_for);
        tokio::pin!(clock);
        let mut heartbeat = self.heartbeat(bridge.is_some());
        let (mut stopping, mut clocked, mut leaving) = (false, false, false);
        loop {
            tokio::select! {
                biased;
                Ok(promoted) = &mut became => return EndOrTask::Task(Box::new(promoted)),
                end = &mut told => return EndOrTask::End(end.unwrap_or(RunEnd::Stopped)),
                () = stop.wait(), if !stopping => {
                    stopping = true;
                    match bridge.filter(|terms| self.outlives(stop.cause(), *terms)) {
                        Some(_) => self.keep_or_cancel(stop.cause()).await,
                        None => self.cancel_unless_task(stop.cause()).await,
                    }
                }
                silent_for = heartbeat.tick() => self.voice.beat(self.view(), silent_for),
                // The next host runs it, or says what became of it.
                () = self.deps.slots.leaving.wait(), if bridge.is_some() && !leaving => {
                    leaving = true;
                    drop(self.become_task(PromotionCause::HostLeaves).await);
                }
                () = &mut clock, if !clocked => {
                    clocked = true;
                    if let Err(why) = self.become_task(PromotionCause::LongCall).await {
                        // The host goes on waiting for it, as for any plain call.
                        self.log_not_promoted(&why, "its inline time is over");
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

    /// Whether the call goes on as a task although its client has stopped waiting. Its owner must be
    /// able to find the task.
    fn outlives(&self, cause: Option<StopCause>, terms: BridgeTerms) -> bool {
        let Some(promotion) = &self.promotion else { return false };
        let spec = promotion.permit.tool().spec();
        self.deps.outlives_its_caller(&promotion.caller, spec, cause, terms)
    }

    /// How long a bridged call has lasted beyond its first poll.
    fn age(&self) -> Duration {
        let begun = self.bridge().and_then(|bridge| bridge.begun.get());
        Duration::from_millis(begun.map_or(0, |begun| self.deps.clock.now().since(*begun)))
    }

    /// Makes it a task that its client learns of when it calls again.
    async fn keep_or_cancel(&self, cause: Option<StopCause>) {
        if let Err(why) = self.become_task(PromotionCause::ClientLeft).await {
            self.log_not_promoted(&why, "its client stopped waiting");
            self.cancel_unless_task(cause).await;
        }
    }

    /// From the moment in which its client leaves, equal calls wait for the task that it becomes.
    pub(crate) fn expected_on_stop<'a>(
        self: &Arc<Self>,
        stop: &'a Stop,
        terms: BridgeTerms,
    ) -> ExpectedOnStop<'a> {
        let run = self.clone();
        ExpectedOnStop::new(stop, move |cause| {
            let cause = match run.bridge() {
                Some(bridge) => run.deps.judge(cause, run.age(), &bridge.client),
                None => cause,
            };
            (cause, if run.outlives(Some(cause), terms) { run.expected_task() } else { None })
        })
    }

    fn expected_task(&self) -> Option<ExpectedTask> {
        let Promotion { caller, permit, .. } = &**self.promotion.as_ref()?;
        self.deps.expected_task(caller, permit.tool().spec(), permit.arguments())
    }

    /// Keeps the end of a call as that of a task if the client stopped waiting at the same moment: an
    /// equal call gets it, and nothing runs twice.
    pub(crate) async fn keep_end(&self, end: &RunEnd, stop: &Stop, terms: BridgeTerms) {
        let Some(promotion) = self.promotion.as_ref().filter(|_| stop.is_set()) else { return };
        let has_ended = !matches!(end, RunEnd::Stopped);
        if !has_ended || self.task().is_some() || !self.outlives(stop.cause(), terms) {
            return;
        }
        match self.make_task(promotion, PromotionCause::ClientLeft).await {
            Ok(task) => {
                self.deps.observers.metrics.kept.inc();
                self.deps.tasks.keep_for_rejoin(&task);
                if let Some(task) = self.task() {
                    self.end_task(task, end.clone()).await;
                }
                drop(promotion.guard().take());
            }
            Err(fault) => self.log_not_promoted(&fault, "it ended after its client stopped waiting"),
        }
    }

    /// Cancels the request of the run, which does nothing to a task (26H-13).
    async fn cancel_unless_task(&self, cause: Option<StopCause>) {
        let _turn = self.turn().await;
        if self.task().is_none() {
            self.stop.set_because(cause.unwrap_or(StopCause::Ended));
            // After the flag: the guest must see it when it looks.
            self.work.interrupt();
        }
    }
}

impl RunDeps {
    /// A call of this tool is about to become a task whose client has left. Equal calls wait until the
    /// guard is dropped; no call joins a task that belongs to anyone.
    pub fn expected_task(
        &self,
        caller: &Caller,
        spec: &ToolSpec,
        arguments: &RawJson,
    ) -> Option<ExpectedTask> {
        let owner = caller.keeps_as()?;
        Some(self.tasks.rejoin.expect(JoinKey::of(&owner, spec, arguments)))
    }

    /// The cause by which a call of this age was stopped. A client that did not say why is judged by the age.
    pub fn judge(&self, cause: StopCause, age: Duration, client: &ClientKey) -> StopCause {
        let note = |says_so| self.tasks.timeouts.note(client, age, self.clock.now(), says_so);
        match cause {
            StopCause::Unsaid if note(false) => return StopCause::Presumed,
            StopCause::Unsaid => return StopCause::Wanted,
            // Only learned: the reason, or the end of its connection, says what becomes of the call.
            StopCause::Timeout => _ = note(true),
            StopCause::Disconnected => _ = note(false),
            StopCause::Presumed | StopCause::Wanted | StopCause::Detached | StopCause::Ended => {}
        }
        cause
    }

    /// Whether a call goes on as a task although its client, which knows no tasks, has stopped waiting.
    /// Its owner must be able to find the task.
    pub fn outlives_its_caller(
        &self,
        caller: &Caller,
        spec: &ToolSpec,
        cause: Option<StopCause>,
        terms: BridgeTerms,
    ) -> bool {
        let Some(bridge) = &self.settings.bridge else { return false };
        let keeps = spec.on_client_timeout.unwrap_or(bridge.on_client_timeout) == OnClientTimeout::Keep;
        caller.keeps_as().is_some()
            && match cause {
                Some(StopCause::Timeout | StopCause::Presumed) => keeps,
                Some(StopCause::Disconnected) => terms.keeps_on_disconnect,
                Some(StopCause::Detached) => true,
                Some(StopCause::Unsaid | StopCause::Wanted | StopCause::Ended) | None => false,
            }
    }
}
