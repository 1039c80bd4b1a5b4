//! The functions of the host that a run may call.

use super::Run;
use crate::client::client_channel::Notice;
use crate::error::Fault;
use crate::observe::observer::CallEvent;
use crate::run::promotion::{NotPromoted, PromotionCause};
use crate::task::commit::CommitOutcome;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::audit::By;
use toolyard_task::host_call::HostAction;
use toolyard_task::journal::DoubtDecision;
use toolyard_task::task::Era;
use toolyard_task::tool::{AskedQuestion, CallInfo, CpuShare, GivenAnswer, OfferChange, Report};
use toolyard_task::{AccessRequest, AskError, Event, HttpTape, NotPermitted, RunContext, RunJournal};

/// The longest time for which a stream is released.
const LONGEST_RELEASE: Duration = Duration::from_secs(60);

#[async_trait]
impl RunContext for Run {
    fn stopped(&self) -> bool {
        self.stop.is_set()
    }

    fn may_act(&self) -> bool {
        // By the clock, not by a flag: a paused process may go on before the flag is set.
        self.task().is_none_or(|(_, fence)| self.deps.node.current() == Some(fence.incarnation))
    }

    fn journal(&self) -> Option<Arc<dyn RunJournal>> {
        self.journal.get().map(|journal| journal.clone() as Arc<dyn RunJournal>)
    }

    fn report(&self, report: Report) {
        self.client.channel.reported(&report);
        if let Some(observation) = self.observation() {
            observation.tell(CallEvent::Reported(&report));
        }
        self.keep_report(&report);
        match report {
            Report::Progress(progress) => {
                if let Some(latest) = self.progress.get() {
                    latest.set(&progress);
                }
                if self.client.progress_token.is_none() {
                    return;
                }
                if !self.reports.lock().progress(progress) {
                    return;
                }
            }
            Report::Status(message) => {
                if self.task().is_none() && self.promotion.is_none() {
                    return;
                }
                self.reports.lock().status(message);
            }
            Report::Log { level, logger, data } => return self.log(level, logger, data),
            Report::Changed(change) => {
                if change == OfferChange::Resources {
                    self.deps.catalog.resources.mark_changed(Some(self.work.plugin()));
                }
                return self.deps.catalog.announce(change);
            }
            Report::ElicitationComplete { key } => {
                let agreed = self.question_history().agreed_to(&key);
                if let Some(elicitation_id) = agreed {
                    self.notify(Notice::ElicitationComplete { elicitation_id });
                }
                return;
            }
            Report::Usage(spent) => return self.spent(spent),
            Report::HostCall(call) => return self.keep_host_call(&call),
            // Text that is held back leaves in time.
            Report::Output { .. } if self.task().is_none() => return,
            Report::Output { .. } => {}
            Report::ReleaseStream { retry_ms } => {
                // A task has no connection of its own to free.
                if self.task().is_none() {
                    self.send_progress(true);
                    self.client.channel.release(Duration::from_millis(retry_ms).min(LONGEST_RELEASE));
                }
                return;
            }
        }
        self.reported.notify_one();
    }

    fn share(&self) -> CpuShare {
        self.client.share.clone()
    }

    fn info(&self) -> CallInfo {
        CallInfo {
            task: self.task().map(|(id, _)| id),
            attempt: self.task().map_or(1, |(_, fence)| fence.attempt),
            deadline: self.as_task().map(|task| task.expires_at),
            client_capabilities: self.client.capabilities.clone(),
            trace: self.observers.trace.clone(),
        }
    }

    fn http_tape(&self) -> Option<&dyn HttpTape> {
        self.client.channel.http_tape()
    }

    fn tells_missing_capabilities(&self) -> bool {
        // A task that was taken over has no rounds any more.
        self.round_trip.is_some() || self.as_task().is_some_and(|task| task.era == Era::Stateless)
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        let (began, count) = (Instant::now(), questions.len());
        let answers = self.ask_client(questions).await;
        let what = HostAction::Question { count, is_answered: answers.is_ok() };
        self.keep_wait(began, what);
        answers
    }

    async fn permission(&self, wanted: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        let began = Instant::now();
        let permitted = self.permitted(wanted).await;
        let what = HostAction::Permission { is_given: permitted.is_ok() };
        // A verdict that is known already takes no time.
        self.keep_wait(began, what);
        permitted
    }

    async fn decide_doubt(&self, doubt: &str, request: &str) -> Option<(DoubtDecision, String)> {
        self.doubt_decision(doubt, request).await
    }

    async fn begin_task(&self) -> Result<(), String> {
        // With sessions, only the caller makes a call a task, unless its client knows no tasks.
        if self.round_trip.is_none() && !self.is_bridged() {
            return Ok(());
        }
        match self.become_task(PromotionCause::Guest).await {
            // A call that cannot become a task goes on as it is; `call-info` tells the guest.
            Ok(()) | Err(NotPromoted::MayNot) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }

    async fn before_effect(&self) {
        let Some(promotion) = self.promotion.as_ref().filter(|promotion| promotion.bridge.is_some()) else {
            return;
        };
        // Another caller could not find the task. But a call that is asked in rounds would be made again in each.
        let is_found = promotion.caller.rejoins_as().is_some() || self.round_trip.is_some();
        if is_found && let Err(why) = self.become_task(PromotionCause::Effect).await {
            tracing::info!(
                event = "call.not_promoted", plugin = self.work.plugin(), tool = self.work.tool_name(),
                reason = %why,
                "call does not become a task before its first effect"
            );
        }
    }

    async fn effects(&self) -> Result<(), AskError> {
        // Until the effects are recorded, the call must not become a task that does not know of them.
        let _turn = self.turn().await;
        let Some((id, fence)) = self.task() else {
            if let Some(round_trip) = &self.round_trip {
                round_trip.use_up(&*self.deps.clients.keys).await?;
            }
            self.affected.store(true, Ordering::Release);
            return Ok(());
        };
        loop {
            match self.deps.tasks.change(id, &Event::Effects { fence }, &By::host()).await {
                Ok(CommitOutcome::Done(_)) => return Ok(()),
                Ok(_) => return Err(AskError::Cancelled),
                // Else each repetition would get the failure.
                Err(error) if self.task_journal().is_some() => self.retry_store(&error).await,
                Err(error) => return Err(AskError::Refused(Fault::Store(error).rpc())),
            }
        }
    }
}
