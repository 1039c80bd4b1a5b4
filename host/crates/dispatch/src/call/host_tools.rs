//! The host tools, with which clients that know no tasks collect, list and cancel their tasks and
//! answer questions.

use crate::access::caller::Caller;
use crate::access::rules::Object;
use crate::application::Dispatch;
use crate::bridge::HostTool;
use crate::bridge::text::{self, ListFilter, OpenQuestion, ToolNames};
use crate::call::bridged::{asked_in_round, asks_by_text, meta_of, questions_by_text};
use crate::call::reply::{CallReply, HandOff};
use crate::call::tools_call::{Terms, ToolCall};
use crate::catalog::tools_list::CatalogSnapshot;
use crate::error::Fault;
use crate::run::questions::pending::KEYS;
use crate::run::questions::round_trip::{RequestBinding, RoundTrip};
use crate::settings::bridge::BridgeTerms;
use crate::slots::stop::StopCause;
use crate::task::handover::Handover;
use crate::task::operations::TaskWait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::form;
use toolyard_protocol::tools::{CallParams, text_result, with_text_in_front};
use toolyard_task::task::{Question, Summary};
use toolyard_task::wire::QuestionKind;
use toolyard_task::{Outcome, Owner, Task};

/// The most tasks that a list names.
const MAX_LISTED: u32 = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitArguments {
    task_id: Option<String>,
    seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArguments {
    task_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerArguments {
    task_id: String,
    key: String,
    action: AnswerAction,
    content: Option<RawJson>,
}

#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum AnswerAction {
    Accept,
    Decline,
    Cancel,
}

/// Why a host tool has no result: a text for the model.
enum Refused {
    Text(String),
    /// No such task, which counts as a failed look-up.
    Unknown(String),
    Fault(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Dispatch {
    /// The host tool of this name, if the client of the call is offered it.
    pub(crate) fn host_tool(
        &self,
        snapshot: &CatalogSnapshot,
        name: &str,
        terms: &Terms,
    ) -> Option<(HostTool, BridgeTerms)> {
        let (Terms::Sessions { bridge, .. } | Terms::Stateless { bridge, .. }) = terms;
        let terms = bridge.filter(|_| self.deps.settings.tasks)?;
        Some((snapshot.host_tools().find(name)?, terms))
    }

    /// Calls a host tool.
    pub(crate) async fn call_host_tool(
        self: &Arc<Self>,
        caller: &Caller,
        tool: HostTool,
        call: ToolCall,
        terms: BridgeTerms,
    ) -> Result<CallReply, Fault> {
        let snapshot = self.deps.catalog.snapshot();
        let is_offered = self.deps.catalog.offers_host_tools(&snapshot, caller)
            && !self.deps.access.denies_by_name(caller, Object::Tool(&call.params.name));
        drop(snapshot);
        if !is_offered {
            return Err(Fault::UnknownTool(toolyard_protocol::visible::clip(&call.params.name, 128)));
        }
        self.cluster.recover_once().await?;
        let names = self.deps.catalog.snapshot().host_tools().for_client(&self.deps.settings, caller);
        let names = names.at(self.deps.console());
        let (stop, begun) = (call.stop.clone(), self.deps.clock.now());
        let done = async {
            match tool {
                HostTool::Wait => self.task_wait(caller, &call, terms, &names).await,
                HostTool::List => self.task_list_text(caller, &call.params, &names).await,
                HostTool::Cancel => self.task_cancel_text(caller, &call.params, &names).await,
                HostTool::Answer => self.task_answer(caller, &call.params, &names).await,
            }
        };
        let done = tokio::select! {
            biased;
            // The task goes on; only the wait ends.
            () = stop.wait() => {
                let age = Duration::from_millis(self.deps.clock.now().since(begun));
                let cause = stop.cause().unwrap_or(StopCause::Ended);
                self.deps.judge(cause, age, &(call.rate_key.clone(), terms.name_hash));
                return Err(Fault::Cancelled);
            }
            done = done => done,
        };
        match done {
            Ok(reply) => Ok(reply),
            Err(Refused::Text(text)) => Ok(CallReply::Result(text_result(&text, true))),
            Err(Refused::Unknown(text)) => Ok(CallReply::UnknownTask(text_result(&text, true))),
            Err(Refused::Fault(fault)) => Err(fault),
        }
    }

    async fn task_wait(
        self: &Arc<Self>,
        caller: &Caller,
        call: &ToolCall,
        terms: BridgeTerms,
        names: &ToolNames,
    ) -> Result<CallReply, Refused> {
        let WaitArguments { task_id, seconds } = arguments(&call.params, &names.wait)?;
        let most = terms.wait.as_secs();
        let terms = self.deps.tasks.timeouts.limit(terms, &call.rate_key);
        if let Some(wrong) = seconds.filter(|seconds| *seconds > most) {
            let text = format!("{}: `seconds` is a number from 0 to {most}, not {wrong}.", names.wait);
            return Err(Refused::Text(text));
        }
        let id = match task_id {
            Some(id) => id,
            None => self.task_to_wait_for(caller, names).await?,
        };
        let task = self.find_task(caller, &id, names).await?;
        let round = match &call.terms {
            Terms::Stateless { retry, .. } => {
                let (name, arguments) = (call.params.name.clone(), call.params.arguments.clone());
                let binding = RequestBinding::of(caller, "tools/call", name, arguments);
                Some(RoundTrip::begin(&self.deps, binding, retry.clone()).await?)
            }
            Terms::Sessions { .. } => None,
        };
        if let Some((_, answers)) =
            round.as_ref().and_then(|round| round.answers_of_task()).filter(|(asked, _)| *asked == task.id)
        {
            self.tasks().await?.update_task(caller, &id, answers).await?;
        }
        let wait = TaskWait {
            id: task.id,
            channel: call.channel.clone(),
            progress_token: call.params.progress_token.clone(),
            most: seconds.map_or(terms.wait, |seconds| terms.wait.min(Duration::from_secs(seconds))),
            is_enough: &|task: &Task| {
                asks_by_text(task, caller) || round.is_some() && !asked_in_round(task, caller).is_empty()
            },
        };
        let task = self.deps.tasks.wait_for(caller, wait).await?;
        let asked = asked_in_round(&task, caller);
        if let Some(round) = round.filter(|_| task.is_live() && !asked.is_empty()) {
            let input = round.binding().ask_for_task(&self.deps, task.id, asked).await?;
            return Ok(CallReply::InputRequired(input));
        }
        Ok(self.status_reply(caller, &task, terms, names))
    }

    /// The reply about a task that a client waited for.
    fn status_reply(
        self: &Arc<Self>,
        caller: &Caller,
        task: &Task,
        terms: BridgeTerms,
        names: &ToolNames,
    ) -> CallReply {
        let id = task.id.to_string();
        let Some(outcome) = &task.outcome else {
            let now = self.deps.clock.now();
            let questions = questions_by_text(task, caller, now);
            let text = if questions.is_empty() {
                let progress = self.deps.slots.runs.progress(task.id);
                let running = self.running_task(caller, task, &id, progress.as_ref());
                // Earlier waits are not counted: the time tells how many there were.
                let before =
                    running.elapsed.saturating_sub(terms.after).as_secs() / terms.wait.as_secs().max(1);
                text::still_running(&running, u32::try_from(before).unwrap_or(u32::MAX), names)
            } else {
                text::waiting_for_answer(&id, &task.tool, &questions, names)
            };
            let content = json!([{"type": "text", "text": text}]);
            let result = json!({"content": content, "isError": false, "_meta": meta_of(task)});
            return CallReply::Result(RawJson::of(&result));
        };
        self.deps.access.note_retrieved(caller, task);
        let result = match outcome {
            Outcome::Result { result, .. } => with_text_in_front(result, &text::done_prefix(&id, &task.tool)),
            Outcome::Error(error) => text_result(&text::failed(&id, &task.tool, error), true),
            Outcome::Cancelled => text_result(&text::cancelled(&id, &task.tool), true),
            Outcome::Expired => text_result(&text::expired(&id, &task.tool), true),
        };
        CallReply::HandedOff(HandOff { outcome: Ok(result), handover: Handover::of(&self.deps.tasks, task) })
    }

    /// The task that a call without an id means: the only live one, or the newest that ended.
    async fn task_to_wait_for(&self, caller: &Caller, names: &ToolNames) -> Result<String, Refused> {
        if caller.owns_bridged() == Some(Owner::Anyone) {
            return Err(Refused::Text(text::id_needed(&names.wait)));
        }
        let tasks = self.deps.tasks.newest(caller, MAX_LISTED).await?;
        let live: Vec<&Summary> = tasks.iter().filter(|task| !task.status.is_terminal()).collect();
        match live[..] {
            [task] => Ok(task.id.to_string()),
            [] => {
                let ended = tasks.first().map(|task| task.id.to_string());
                ended.ok_or_else(|| Refused::Text(text::no_task(names)))
            }
            _ => Err(Refused::Text(text::several_tasks(&live, self.deps.clock.now(), names))),
        }
    }

    async fn task_list_text(
        &self,
        caller: &Caller,
        params: &CallParams,
        names: &ToolNames,
    ) -> Result<CallReply, Refused> {
        let ListArguments { status } = arguments(params, &names.list)?;
        let filter = match status.as_deref() {
            None => ListFilter::default(),
            Some(name) => ListFilter::parse(name).ok_or_else(|| {
                let name = form::quoted(name, 200);
                Refused::Text(format!("{}: `status` is live, done or all, not {name}.", names.list))
            })?,
        };
        let tasks = self.deps.tasks.newest(caller, MAX_LISTED).await?;
        let is_meant = |task: &&Summary| match filter {
            ListFilter::Live => !task.status.is_terminal(),
            ListFilter::Done => task.status.is_terminal(),
            ListFilter::All => true,
        };
        let meant: Vec<&Summary> = tasks.iter().filter(is_meant).collect();
        let text = text::task_list(&meant, filter, self.deps.clock.now(), names);
        Ok(CallReply::Result(text_result(&text, false)))
    }

    async fn task_cancel_text(
        &self,
        caller: &Caller,
        params: &CallParams,
        names: &ToolNames,
    ) -> Result<CallReply, Refused> {
        let CancelArguments { task_id } = arguments(params, &names.cancel)?;
        let task = self.find_task(caller, &task_id, names).await?;
        let id = task.id.to_string();
        let text = match self.deps.tasks.cancel_task(caller, &id).await {
            Ok(_) => text::stopped(&id, &task.tool),
            Err(Fault::AlreadyOver(_)) => text::already_ended(&id, &task.tool, names),
            Err(Fault::UnknownTask) => return Err(Refused::Unknown(text::unknown_task(&task_id, names))),
            Err(fault) => return Err(fault.into()),
        };
        Ok(CallReply::Result(text_result(&text, false)))
    }

    async fn task_answer(
        &self,
        caller: &Caller,
        params: &CallParams,
        names: &ToolNames,
    ) -> Result<CallReply, Refused> {
        let tool = names.answer.as_deref().unwrap_or(text::ANSWER);
        let AnswerArguments { task_id, key, action, content } = arguments(params, tool)?;
        if names.answer.is_none() {
            let text = format!("{tool} is not offered here: answer the question where your client shows it.");
            return Err(Refused::Text(text));
        }
        // The model must not give itself permissions.
        if key.starts_with(KEYS) {
            return Err(Refused::Text(text::only_the_user().to_owned()));
        }
        let task = self.find_task(caller, &task_id, names).await?;
        let id = task.id.to_string();
        let is_meant = |question: &&Question| question.wire_key() == key || question.key == key;
        let question = task.open_questions().find(is_meant);
        let is_answerable = |question: &&Question| {
            matches!(question.kind, QuestionKind::Form | QuestionKind::Url) && !question.key.starts_with(KEYS)
        };
        let Some(question) = question.filter(is_answerable) else {
            return Err(Refused::Text(text::no_such_question(&id, &task.tool, &key, names)));
        };
        let content = content.filter(|_| action == AnswerAction::Accept);
        if let Some(fault) = misfit(question, action, content.as_ref()) {
            let asked = OpenQuestion::of(question, self.deps.clock.now());
            let text = text::answer_misfit(&id, &task.tool, &fault, Some(&asked), names);
            return Err(Refused::Text(text));
        }
        let mut answer = json!({"action": action});
        if let Some(content) = content {
            answer["content"] = content.decode().unwrap_or_default();
        }
        let responses = HashMap::from([(question.wire_key().into_owned(), RawJson::of(&answer))]);
        self.deps.tasks.update_task(caller, &id, responses).await?;
        let text = text::answer_passed_on(&id, &task.tool, names);
        Ok(CallReply::Result(text_result(&text, false)))
    }

    /// The caller's task of this id.
    async fn find_task(&self, caller: &Caller, id: &str, names: &ToolNames) -> Result<Task, Refused> {
        match self.deps.tasks.task(caller, id).await {
            Err(Fault::UnknownTask) => Err(Refused::Unknown(text::unknown_task(id, names))),
            found => Ok(found?),
        }
    }
}

/// Why an answer does not fit its question.
fn misfit(question: &Question, action: AnswerAction, content: Option<&RawJson>) -> Option<String> {
    if action != AnswerAction::Accept || question.kind != QuestionKind::Form {
        return None;
    }
    let Some(content) = content else { return Some("`content` is missing".to_owned()) };
    form::misfit(&question.params, content)
}

/// The arguments of a host tool.
fn arguments<T: DeserializeOwned>(params: &CallParams, tool: &str) -> Result<T, Refused> {
    params.arguments.decode().map_err(|error| Refused::Text(format!("{tool}: {error}")))
}
