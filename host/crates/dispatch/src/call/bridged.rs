//! Plain calls of clients that know no tasks: a long one is answered by a result that names its task, and
//! a call whose client stopped waiting is joined by the same call made again.

use crate::access::caller::Caller;
use crate::application::Dispatch;
use crate::bridge::text::{self, OpenQuestion, RunState, RunningTask};
use crate::bridge::timeouts::ClientKey;
use crate::call::reply::{CallReply, HandOff, TaskQuestions};
use crate::call::tools_call::{MayBeTask, PermittedCall, TaskOrigin, era_of};
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use crate::run::promotion::Promoted;
use crate::run::questions::pending::KEYS;
use crate::run::questions::round_trip::{RequestBinding, RoundTrip};
use crate::run::run::Run;
use crate::settings::bridge::BridgeTerms;
use crate::slots::stop::{Stop, StopCause};
use crate::task::handover::Handover;
use crate::task::operations::{TaskWait, outcome_of};
use crate::task::rejoin::{ExpectedOnStop, JoinKey};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_protocol::tools::RequestedTtl;
use toolyard_protocol::{ClientCapabilities, RawJson, Timestamp};
use toolyard_task::approval::CONFIRM_KEY;
use toolyard_task::audit::By;
use toolyard_task::task::Question;
use toolyard_task::wire::QuestionKind;
use toolyard_task::{Event, Owner, Task, TaskId};

/// The key of a result's `_meta` that tells programs which task goes on.
const META_TASK: &str = "io.toolyard/task";

/// How a call waits for its task.
pub(crate) struct CallWait {
    pub terms: BridgeTerms,
    /// The request of a stateless client, which is asked by the answer to it.
    pub round: Option<Arc<RequestBinding>>,
    pub stop: Arc<Stop>,
    pub channel: Arc<dyn ClientChannel>,
    pub progress_token: Option<RawJson>,
    pub client: ClientKey,
    /// The age of the call so far.
    pub age: Duration,
}

impl Dispatch {
    /// A call that may join another, or is a task from the start.
    pub(crate) async fn call_bridged(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        terms: BridgeTerms,
        round_trip: Option<Box<RoundTrip>>,
    ) -> Result<CallReply, Fault> {
        // The rare futures are boxed, so that they do not enlarge the state of each call.
        if !self.deps.tasks.rejoin.is_empty()
            && let Some(reply) = Box::pin(self.joined(caller, &call, terms, round_trip.as_deref())).await?
        {
            return Ok(reply);
        }
        if call.stop.is_set() {
            // Nothing has been done, and the client may make the call again.
            return Err(self.stop_fault());
        }
        let slot = if call.begins_as_task() { None } else { self.admit_or_queue(&call)? };
        let Some(slot) = slot else {
            return Box::pin(self.call_as_bridged_task(caller, call, terms, round_trip)).await;
        };
        let plain = self.begin_run(caller, call, slot, round_trip, MayBeTask::HandedOff(terms));
        self.drive(caller, plain).await
    }

    /// The reply to a call that joins the task of an equal call, if there is one.
    async fn joined(
        self: &Arc<Self>,
        caller: &Caller,
        call: &PermittedCall,
        terms: BridgeTerms,
        round_trip: Option<&RoundTrip>,
    ) -> Result<Option<CallReply>, Fault> {
        let tasks = &self.deps.tasks;
        let Some(owner) = caller.keeps_as() else { return Ok(None) };
        if let Err(error) = tasks.load_rejoins().await {
            // Plain calls go on without the store.
            tracing::warn!(
                event = "call.not_joined",
                error = &error as &dyn std::error::Error,
                "cannot look for the task of an equal call"
            );
            return Ok(None);
        }
        let key = JoinKey::of(&owner, call.permit.tool().spec(), call.permit.arguments());
        let Some(task) = tasks.joined(&key, &owner).await? else { return Ok(None) };
        tracing::info!(event = "call.joined", task = %task.id, tool = task.tool, "call joins a kept task");
        self.deps.observers.metrics.rejoins.inc();
        let wait = call.wait(terms, round_trip.map(RoundTrip::binding));
        self.wait_and_reply(caller, &task, wait).await.map(Some)
    }

    /// The reply to a call that became a task in an earlier round, and now brings answers for it.
    pub(crate) async fn answer_in_round(
        self: &Arc<Self>,
        caller: &Caller,
        task: TaskId,
        answers: HashMap<String, RawJson>,
        wait: CallWait,
    ) -> Result<CallReply, Fault> {
        let id = task.to_string();
        let tasks = self.tasks().await?;
        tasks.update_task(caller, &id, answers).await?;
        let task = tasks.task(caller, &id).await?;
        self.wait_and_reply(caller, &task, wait).await
    }

    /// A call that is a task from the start, and whose caller waits for it.
    pub(crate) async fn call_as_bridged_task(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        terms: BridgeTerms,
        round_trip: Option<Box<RoundTrip>>,
    ) -> Result<CallReply, Fault> {
        let wait = call.wait(terms, round_trip.as_deref().map(RoundTrip::binding));
        let era = era_of(round_trip.as_deref());
        let origin = TaskOrigin { era, ttl: RequestedTtl::Absent, round_trip, is_bridged: true };
        let (tool, arguments) = (call.permit.tool().clone(), call.permit.arguments().clone());
        // Its client may call again before the task is stored.
        let stop = wait.stop.clone();
        let _expected = ExpectedOnStop::new(&stop, {
            let (deps, caller) = (self.deps.clone(), caller.clone());
            move |cause| (cause, deps.expected_task(&caller, tool.spec(), &arguments))
        });
        let task = {
            // An acknowledged task begins before a closing host is done, or the next host runs it.
            let _under_way = self.deps.slots.tracker.token();
            self.begin_task(caller, call, origin).await?.0
        };
        self.wait_and_reply(caller, &task, wait).await
    }

    /// The reply to a call that went on as a task.
    pub(crate) async fn reply_to_promoted(
        self: &Arc<Self>,
        caller: &Caller,
        run: &Run,
        promoted: Promoted,
        cancelled: &Arc<Stop>,
        terms: BridgeTerms,
    ) -> Result<CallReply, Fault> {
        let Promoted { task, is_handed_off } = promoted;
        let round = run.questions.round_trip.as_deref().map(RoundTrip::binding);
        let waited = Duration::from_millis(task.bridged.map_or(0, |bridged| bridged.waited_ms));
        if is_handed_off {
            return self.handed_off(caller, &task, cancelled, (terms, round.as_deref())).await;
        }
        let terms = BridgeTerms { after: terms.after.saturating_sub(waited), ..terms };
        let (channel, progress_token) = (run.client.channel.clone(), run.client.progress_token.clone());
        let client = run.bridge().expect("it is bridged").client.clone();
        let stop = cancelled.clone();
        let wait = CallWait { terms, round, stop, channel, progress_token, client, age: waited };
        self.wait_and_reply(caller, &task, wait).await
    }

    /// Waits for a task on behalf of its call. The reply gives its outcome, or says that it goes on.
    async fn wait_and_reply(
        self: &Arc<Self>,
        caller: &Caller,
        begun: &Task,
        wait: CallWait,
    ) -> Result<CallReply, Fault> {
        let CallWait { terms, round, stop, channel, progress_token, client, age } = wait;
        let began = self.deps.clock.now();
        // The next request of the client may be the equal call.
        let _on_stop = stop.on_set({
            let (this, caller, task) = (self.clone(), caller.clone(), begun.clone());
            move |cause| {
                let age = age + Duration::from_millis(this.deps.clock.now().since(began));
                let cause = this.deps.judge(cause, age, &client);
                if this.outlives(&caller, &task, Some(cause), terms) {
                    this.deps.tasks.keep_for_rejoin(&task);
                }
                cause
            }
        });
        let waited = TaskWait {
            id: begun.id,
            channel,
            progress_token,
            most: terms.after,
            is_enough: &|task: &Task| {
                asks_by_text(task, caller)
                    || waits_for_operator(task)
                    || round.is_some() && !asked_in_round(task, caller).is_empty()
            },
        };
        let task = tokio::select! {
            biased;
            () = stop.wait() => None,
            task = self.deps.tasks.wait_for(caller, waited) => Some(task?),
        };
        let Some(task) = task else {
            self.leave(caller, begun, stop.cause(), terms).await?;
            return Err(Fault::Cancelled);
        };
        match outcome_of(&task) {
            Some(outcome) => {
                self.deps.access.note_retrieved(caller, &task);
                let handover = Handover::of(&self.deps.tasks, &task);
                Ok(CallReply::HandedOff(HandOff { outcome, handover }))
            }
            None => self.handed_off(caller, &task, &stop, (terms, round.as_deref())).await,
        }
    }

    /// The client of a waiting call is gone: the task is kept for an equal call, or cancelled.
    async fn leave(
        self: &Arc<Self>,
        caller: &Caller,
        task: &Task,
        cause: Option<StopCause>,
        terms: BridgeTerms,
    ) -> Result<(), Fault> {
        let tasks = &self.deps.tasks;
        // If the host or its pipe ends, the client does not decide the fate of the task. Nor does it if
        // another caller also waits for the task.
        if cause == Some(StopCause::Ended) || tasks.waiters.has(task.id) {
            tasks.keep_for_rejoin(task);
            return Ok(());
        }
        // Before its client can call again.
        if self.outlives(caller, task, cause, terms) && tasks.keep_for_rejoin(task) {
            self.deps.observers.metrics.kept.inc();
            if cause == Some(StopCause::Presumed) {
                tasks.stop_unless_joined(caller, task.id);
            }
            tasks.change(task.id, &Event::CallerLeft, &By::client().because("client_timeout")).await?;
            return Ok(());
        }
        match tasks.cancel_by(caller, &task.id.to_string(), caller.by().because("request_cancelled")).await {
            Ok(_) | Err(Fault::AlreadyOver(_) | Fault::UnknownTask) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a task goes on although the client of its call has stopped waiting.
    fn outlives(&self, caller: &Caller, task: &Task, cause: Option<StopCause>, terms: BridgeTerms) -> bool {
        let tool = self.deps.catalog.tool(&task.tool);
        tool.is_some_and(|tool| self.deps.outlives_its_caller(caller, tool.spec(), cause, terms))
    }

    /// The reply that names the task.
    async fn handed_off(
        self: &Arc<Self>,
        caller: &Caller,
        task: &Task,
        stop: &Stop,
        (terms, round): (BridgeTerms, Option<&RequestBinding>),
    ) -> Result<CallReply, Fault> {
        if stop.is_set() {
            // 26S-2: its client hears nothing more about its request.
            self.leave(caller, task, stop.cause(), terms).await?;
            return Err(Fault::Cancelled);
        }
        let handover = Handover::of(&self.deps.tasks, task);
        tracing::info!(event = "call.handed_off", task = %task.id, tool = task.tool, "call goes on as a task");
        if let Some(session) = caller.session.as_ref().filter(|_| task.owner == Owner::Anyone) {
            self.deps.tasks.told.add(session, task.id);
        }
        let asked = asked_in_round(task, caller);
        if let Some(round) = round.filter(|_| !asked.is_empty()) {
            let input = round.ask_for_task(&self.deps, task.id, asked).await?;
            return Ok(CallReply::TaskAsks(TaskQuestions { input, handover }));
        }
        let snapshot = self.deps.catalog.snapshot();
        let tool = snapshot.tool(&task.tool);
        if let Some(tool) = &tool {
            tool.handed_off.inc();
        }
        let names = snapshot.host_tools().for_client(&self.deps.settings, caller).at(self.deps.console());
        let id = task.id.to_string();
        let now = self.deps.clock.now();
        let progress = self.deps.slots.runs.progress(task.id);
        let (running, status) =
            (self.running_task(caller, task, &id, progress.as_ref()), task.status().as_str());
        let questions = questions_by_text(task, caller, now);
        let immediate_response = tool.as_ref().and_then(|tool| tool.spec().immediate_response.as_deref());
        let text = text::hand_off(&running, task.expires_at(), now, immediate_response, &questions, &names);
        let mut result = json!({
            "content": [{"type": "text", "text": text}],
            "isError": false,
            "_meta": meta_of(task),
        });
        if snapshot.has_union(&task.tool) {
            result["structuredContent"] =
                toolyard_protocol::tools::union_schema::handoff_content(&id, status, &names.wait);
        }
        Ok(CallReply::HandedOff(HandOff { outcome: Ok(RawJson::of(&result)), handover }))
    }

    /// A task that has not ended, for a text.
    pub(crate) fn running_task<'a>(
        &self,
        caller: &Caller,
        task: &'a Task,
        id: &'a str,
        progress: Option<&'a toolyard_protocol::progress::Progress>,
    ) -> RunningTask<'a> {
        let waited = task.bridged.map_or(0, |bridged| bridged.waited_ms);
        let elapsed = self.deps.clock.now().since(task.created_at) + waited;
        RunningTask {
            tool: &task.tool,
            id,
            elapsed: Duration::from_millis(elapsed),
            progress,
            // The text itself says what it waits for.
            status: task
                .status_message
                .as_deref()
                .filter(|_| !task.waits() && task.open_approval().is_none()),
            state: match task.open_approval() {
                Some(approval) => RunState::Unapproved(approval.by),
                None if task.waits() => {
                    RunState::Queued(self.deps.slots.admission.running_of_account(&caller.account()))
                }
                None => RunState::Running,
            },
        }
    }
}

/// The `_meta` of a result that names a task.
pub(crate) fn meta_of(task: &Task) -> serde_json::Value {
    json!({META_TASK: {
        "taskId": task.id.to_string(),
        "status": task.status().as_str(),
        "pollAfterMs": task.poll_interval_ms,
    }})
}

impl PermittedCall {
    pub(crate) fn wait(&self, terms: BridgeTerms, round: Option<Arc<RequestBinding>>) -> CallWait {
        CallWait {
            terms,
            round,
            stop: self.stop.clone(),
            channel: self.channel.clone(),
            progress_token: self.progress_token.clone(),
            client: (self.rate_key.clone(), terms.name_hash),
            age: Duration::ZERO,
        }
    }
}

/// Whether a task waits for an answer that this caller gives by a host tool only.
pub(crate) fn asks_by_text(task: &Task, caller: &Caller) -> bool {
    task.open_questions().any(|question| is_asked_by_text(question, caller))
}

/// Whether a task waits for an approval that its client is not asked for, which may take longer than a client
/// waits.
fn waits_for_operator(task: &Task) -> bool {
    task.open_approval().is_some() && !task.open_questions().any(|question| question.key == CONFIRM_KEY)
}

/// The questions of a task that its client puts to a person when they are in the answer to its request. So can those of
/// the host itself.
pub(crate) fn asked_in_round(task: &Task, caller: &Caller) -> Vec<(String, CheckedQuestion)> {
    let client = ClientCapabilities::of(&caller.capabilities);
    let asked = task.open_questions().filter(|question| question.client_task.is_none()).map(|question| {
        let asked = CheckedQuestion { kind: question.kind, params: question.params.clone() };
        (question.wire_key().into_owned(), asked)
    });
    asked.filter(|(_, question)| question.check_client(&client).is_ok()).collect()
}

/// A question of the host itself is never answered by a tool.
fn is_asked_by_text(question: &Question, caller: &Caller) -> bool {
    let is_answerable = matches!(question.kind, QuestionKind::Form | QuestionKind::Url);
    is_answerable && !question.key.starts_with(KEYS) && !caller.takes_forms()
}

/// The questions of a task that its client cannot be asked by a request.
pub(crate) fn questions_by_text(task: &Task, caller: &Caller, now: Timestamp) -> Vec<OpenQuestion> {
    let asked = task.open_questions().filter(|question| is_asked_by_text(question, caller));
    asked.map(|question| OpenQuestion::of(question, now)).collect()
}
