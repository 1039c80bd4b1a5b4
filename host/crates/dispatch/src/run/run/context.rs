//! The functions of the host that a run may call.

use super::Run;
use crate::client::client_channel::Notice;
use crate::error::Fault;
use crate::run::as_task::RunTask;
use crate::run::promotion::{NotPromoted, PromotionCause};
use crate::task::commit::CommitOutcome;
use async_trait::async_trait;
use std::sync::Arc;
use tokio::time::Instant;
use toolyard_task::audit::By;
use toolyard_task::host_call::HostAction;
use toolyard_task::journal::DoubtDecision;
use toolyard_task::task::Era;
use toolyard_task::tool::{AskedQuestion, CallInfo, CpuShare, GivenAnswer, Report};
use toolyard_task::{AccessRequest, AskError, Event, HttpTape, NotPermitted, RunContext, RunJournal};

#[async_trait]
impl RunContext for Run {
    fn stopped(&self) -> bool {
        self.stop.is_set()
    }

    fn may_act(&self) -> bool {
        // By the clock, not by a flag: a paused process may go on before the flag is set.
        self.task().is_none_or(|task| self.deps.node.current() == Some(task.fence.incarnation))
    }

    fn journal(&self) -> Option<Arc<dyn RunJournal>> {
        self.journal.get().map(|journal| journal.clone() as Arc<dyn RunJournal>)
    }

    fn report(&self, report: Report) {
        match &report {
            Report::Changed(change) => self.deps.catalog.announce(change.clone()),
            Report::ElicitationComplete { key } => {
                let agreed = self.questions.history().agreed_to(key);
                if let Some(elicitation_id) = agreed {
                    self.voice.notify(self.view(), Notice::ElicitationComplete { elicitation_id });
                }
            }
            _ => {}
        }
        self.voice.report(self.view(), report);
    }

    fn share(&self) -> CpuShare {
        self.client.share.clone()
    }

    fn info(&self) -> CallInfo {
        CallInfo {
            task: self.task().map(|task| task.id),
            attempt: self.task().map_or(1, |task| task.fence.attempt),
            deadline: self.task().map(|task| task.expires_at),
            client_capabilities: self.client.capabilities.clone(),
            trace: self.voice.trace.clone(),
        }
    }

    fn http_tape(&self) -> Option<&dyn HttpTape> {
        self.client.channel.http_tape()
    }

    fn tells_missing_capabilities(&self) -> bool {
        // A task that was taken over has no rounds any more.
        self.questions.round_trip.is_some() || self.task().is_some_and(|task| task.era == Era::Stateless)
    }

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        let (began, count) = (Instant::now(), questions.len());
        let answers = self.ask_client(questions).await;
        let what = HostAction::Question { count, is_answered: answers.is_ok() };
        self.voice.waited(self.view(), began, what);
        answers
    }

    async fn permission(&self, wanted: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        let began = Instant::now();
        let permitted = self.permitted(wanted).await;
        let what = HostAction::Permission { is_given: permitted.is_ok() };
        // A verdict that is known already takes no time.
        self.voice.waited(self.view(), began, what);
        permitted
    }

    async fn decide_doubt(&self, doubt: &str, request: &str) -> Option<(DoubtDecision, String)> {
        self.doubt_decision(doubt, request).await
    }

    async fn begin_task(&self) -> Result<(), String> {
        // With sessions, only the caller makes a call a task, unless its client knows no tasks.
        if self.questions.round_trip.is_none() && !self.is_bridged() {
            return Ok(());
        }
        match self.become_task(PromotionCause::Guest).await {
            // A call that cannot become a task goes on as it is; `call-info` tells the guest.
            Ok(()) | Err(NotPromoted::MayNot) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }

    async fn before_effect(&self) {
        let (Some(promotion), Some(_)) = (&self.promotion, self.bridge()) else { return };
        // Another caller could not find the task. But a call that is asked in rounds would be made again in each.
        let is_found = promotion.caller.rejoins_as().is_some() || self.questions.round_trip.is_some();
        if is_found && let Err(why) = self.become_task(PromotionCause::Effect).await {
            self.log_not_promoted(&why, "before its first effect");
        }
    }

    async fn effects(&self) -> Result<(), AskError> {
        // Until the effects are recorded, the call must not become a task that does not know of them.
        let _turn = self.turn().await;
        let Some(RunTask { id, fence, .. }) = self.task() else {
            if let Some(round_trip) = &self.questions.round_trip {
                round_trip.use_up(&*self.deps.clients.keys).await?;
            }
            self.questions.set_effects();
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
