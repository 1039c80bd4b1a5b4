//! The routes on which questions of tasks were sent. The questions are in the store; only this process
//! knows their routes.

use crate::access::caller::Caller;
use crate::client::client_channel::{ClientChannel, ClientPresence, ClientRoute, RouteScope};
use crate::error::Fault;
use crate::task::Tasks;
use crate::task::commit::CommitOutcome;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::question::{self, CheckedQuestion, ClientAnswer};
use toolyard_protocol::response::with_related_task;
use toolyard_protocol::{ClientCapabilities, RawJson, RpcError};
use toolyard_task::audit::By;
use toolyard_task::session::Session;
use toolyard_task::store::TaskQuestion;
use toolyard_task::task::Sent;
use toolyard_task::wire::QuestionKind;
use toolyard_task::wire::error::{INVALID_PARAMS, METHOD_NOT_FOUND};
use toolyard_task::{AskError, Event, SessionId, StoreError, Task, TaskId};

/// The prefix of the keys of the host's own questions.
pub(crate) const KEYS: &str = "host:";
/// The prefix of the keys of those about requests in doubt, which the operator may answer too.
pub(crate) const DOUBTS: &str = "host:doubt:";
/// The most tasks whose questions are sent when a client opens a stream. The others are asked on the way to
/// their results, or at the next stream.
const MAX_OFFERED: u32 = 100;

/// The questions that were sent and wait for answers.
#[derive(Default)]
pub(crate) struct InflightQuestions {
    by_task: Mutex<BTreeMap<TaskId, BTreeMap<String, InflightQuestion>>>,
}

/// A question that the host has sent, or is about to send.
#[derive(Default)]
struct InflightQuestion {
    /// A sender has claimed it.
    claimed: bool,
    /// Whether the question is sent without naming its task (IR-9).
    bare: bool,
    /// The ids that it was sent under, and their routes, the latest last.
    routes: Vec<(String, Arc<dyn ClientRoute>)>,
    /// The request that the client has answered, which must not be withdrawn.
    answered: Option<String>,
}

/// The right to send a question: no other sender has it meanwhile (H-20).
pub(crate) struct SendClaim<'a> {
    inflight: &'a InflightQuestions,
    task: TaskId,
    key: String,
    /// Whether the question must not name its task.
    pub bare: bool,
}

impl InflightQuestions {
    /// Claims the right to send this question on `route`, unless it is pending on a route that may
    /// still answer: its client is there, or left less than `patience` ago (IR-7).
    ///
    /// A question that was sent before is sent again only on a route whose client is there. Otherwise
    /// the waits of departed clients would ask it again in turn, until the requests that those clients
    /// did see are forgotten.
    pub fn claim(
        &self,
        task: TaskId,
        key: &str,
        patience: Duration,
        route: &dyn ClientRoute,
    ) -> Option<SendClaim<'_>> {
        let mut by_task = self.by_task.lock();
        let out = by_task.entry(task).or_default().entry(key.to_owned()).or_default();
        let is_out = out.routes.last().is_some_and(|(_, route)| match route.presence() {
            ClientPresence::There => true,
            ClientPresence::AwayFor(time) => time < patience,
            ClientPresence::Gone => false,
        });
        let to_nobody = !out.routes.is_empty() && route.presence() != ClientPresence::There;
        if out.claimed || is_out || to_nobody || out.answered.is_some() {
            return None;
        }
        out.claimed = true;
        Some(SendClaim { inflight: self, task, key: key.to_owned(), bare: out.bare })
    }

    /// A question that was sent for a plain call, which is this task now.
    pub fn adopt(&self, task: TaskId, key: String, request_id: String, route: Arc<dyn ClientRoute>) {
        let mut by_task = self.by_task.lock();
        by_task.entry(task).or_default().entry(key).or_default().routes.push((request_id, route));
    }

    /// The task whose question this request carries.
    fn task_of(&self, request_id: &str) -> Option<TaskId> {
        let by_task = self.by_task.lock();
        let mut tasks = by_task.iter();
        let is_out = |out: &InflightQuestion| out.routes.iter().any(|(id, _)| id == request_id);
        tasks.find(|(_, keys)| keys.values().any(is_out)).map(|(task, _)| *task)
    }

    /// How many questions wait for answers, or are about to be sent.
    pub fn count(&self) -> usize {
        self.by_task.lock().values().map(BTreeMap::len).sum()
    }

    /// The client has answered this request.
    pub fn mark_answered(&self, task: TaskId, key: &str, request_id: &str) {
        if let Some(out) = self.by_task.lock().get_mut(&task).and_then(|keys| keys.get_mut(key)) {
            out.answered = Some(request_id.to_owned());
        }
    }

    /// The client mistook our task for one of its own: next time, the question is sent without it.
    /// False if that was tried already.
    pub fn retry_without_task(&self, task: TaskId, key: &str) -> bool {
        let mut by_task = self.by_task.lock();
        let Some(out) = by_task.get_mut(&task).and_then(|keys| keys.get_mut(key)) else { return false };
        let first = !out.bare;
        out.bare = true;
        out.routes.clear();
        first
    }

    /// Withdraws the requests for questions of this task that no longer wait.
    pub fn settle(&self, task: &Task) {
        let mut settled = Vec::new();
        {
            let mut by_task = self.by_task.lock();
            let Entry::Occupied(mut keys) = by_task.entry(task.id) else { return };
            keys.get_mut().retain(|key, out| {
                let open = task.open_questions().any(|question| question.key == *key);
                if !open {
                    settled.push(std::mem::take(out));
                }
                open
            });
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        for out in settled {
            for (id, route) in out.routes.iter().filter(|(id, _)| out.answered.as_ref() != Some(id)) {
                route.withdraw(id, "The question is no longer open.", Some(task.id));
            }
        }
    }
}

impl SendClaim<'_> {
    /// The question has been sent. If it was settled while it was being sent, it is withdrawn at once.
    pub fn mark_sent(self, request_id: String, route: Arc<dyn ClientRoute>) {
        {
            let mut by_task = self.inflight.by_task.lock();
            if let Some(out) = by_task.get_mut(&self.task).and_then(|keys| keys.get_mut(&self.key)) {
                out.routes.push((request_id, route));
                return;
            }
        }
        route.withdraw(&request_id, "The question is no longer open.", Some(self.task));
    }
}

impl Drop for SendClaim<'_> {
    fn drop(&mut self) {
        let mut by_task = self.inflight.by_task.lock();
        let Some(keys) = by_task.get_mut(&self.task) else { return };
        if let Some(out) = keys.get_mut(&self.key) {
            out.claimed = false;
            // Nothing is kept of a question that never left.
            if out.routes.is_empty() && !out.bare {
                keys.remove(&self.key);
            }
        }
        if keys.is_empty() {
            by_task.remove(&self.task);
        }
    }
}

/// The client that the questions of a task are sent to.
pub(crate) struct QuestionRecipient<'a> {
    pub session: Option<&'a SessionId>,
    pub capabilities: &'a RawJson,
    pub channel: &'a Arc<dyn ClientChannel>,
    pub scope: RouteScope,
    /// How long to wait for the client of a route to come back.
    pub patience: Duration,
}

impl Tasks {
    /// Sends the open questions of a task that are not pending on any route and that this client can be
    /// asked.
    pub(crate) async fn offer_questions(
        &self,
        task: &Task,
        to: QuestionRecipient<'_>,
    ) -> Result<(), StoreError> {
        let client = ClientCapabilities::of(to.capabilities);
        for asked in task.open_questions().filter(|question| question.client_task.is_none()) {
            let question = CheckedQuestion { kind: asked.kind, params: asked.params.clone() };
            if question.check_client(&client).is_err() {
                continue;
            }
            let Some(route) = to.channel.route(Some(task.id), to.scope) else { return Ok(()) };
            let Some(claim) = self.inflight.claim(task.id, &asked.key, to.patience, &*route) else {
                continue;
            };
            let request_id = format!("{}.{}", task.id, self.ids.uuid().simple());
            let sent = Sent { id: request_id.clone(), session: to.session.cloned() };
            let sent = Event::Sent { key: asked.key.clone(), sent };
            // Durable before it leaves: an answer must always find its request.
            if !matches!(self.change(task.id, &sent, &By::host()).await?, CommitOutcome::Done(_)) {
                continue;
            }
            let left = asked.deadline.since(self.clock.now()).max(1);
            let mut params = question.params(question.kind.as_task(&client).then_some(left));
            if !claim.bare {
                params = with_related_task(&params, &task.id.to_string());
            }
            if route.question(&asked.key, &request_id, asked.kind.method(), &params) {
                tracing::debug!(task = %task.id, key = asked.key, "question sent");
                claim.mark_sent(request_id, route);
            }
        }
        Ok(())
    }

    /// Sends the open questions of the tasks of a session's owner that are out with no other client: the session in
    /// which a task began may have ended, and a task that is parked has no run that asks.
    pub(crate) async fn offer_open(&self, session: &Session) -> Result<(), StoreError> {
        let Some(lookup) = self.clients.lookup() else { return Ok(()) };
        let channel = lookup.channel(Some(&session.id));
        for id in self.store.select(TaskQuestion::Asking(session.owner.clone()), MAX_OFFERED).await? {
            let Some(read) = self.store.read(id, None).await? else { continue };
            let of_client = (Some(&session.id), &session.client_capabilities);
            self.offer_anywhere(&read.task, of_client, &channel).await?;
        }
        Ok(())
    }

    /// Sends the open questions of a task that are out with no client, on any stream of this one.
    pub(crate) async fn offer_anywhere(
        &self,
        task: &Task,
        (session, capabilities): (Option<&SessionId>, &RawJson),
        channel: &Arc<dyn ClientChannel>,
    ) -> Result<(), StoreError> {
        let (scope, patience) = (RouteScope::Anywhere, Duration::ZERO);
        self.offer_questions(task, QuestionRecipient { session, capabilities, channel, scope, patience })
            .await
    }

    /// Whether the user of a client without tasks answers questions of this kind by a host tool.
    pub(crate) fn is_answered_by_tool(&self, kind: QuestionKind) -> bool {
        let answers = self.settings.bridge.as_ref().is_some_and(|bridge| bridge.answers);
        answers && matches!(kind, QuestionKind::Form | QuestionKind::Url)
    }

    /// Accepts a client's response to a request of this host.
    pub(crate) async fn take_response(
        &self,
        caller: &Caller,
        request_id: &str,
        response: Result<RawJson, RpcError>,
    ) -> Result<(), Fault> {
        let is_unknown = response.as_ref().err().is_some_and(is_unknown_method);
        if is_unknown && self.clients.requests.elicits(request_id) {
            caller.note_refusal();
        }
        let Err(response) = self.clients.requests.answer(caller.session.as_ref(), request_id, response)
        else {
            return Ok(());
        };
        let task = request_id.split_once('.').and_then(|(task, _)| TaskId::parse(task));
        // A question of a plain call that became a task does not name the task.
        let task = task.or_else(|| self.inflight.task_of(request_id));
        let Some(id) = task.filter(|_| self.settings.tasks) else {
            tracing::debug!(request_id, "a response to an unknown request");
            return Ok(());
        };
        let task = match self.visible(caller, id).await {
            Ok(task) => task,
            Err(Fault::UnknownTask) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let Some((question, sent)) = task.question_sent_as(request_id) else { return Ok(()) };
        if sent.session != caller.session || question.answer.is_some() || !task.is_live() {
            tracing::debug!(task = %id, key = question.key, "a response that comes too late, or from another session");
            return Ok(());
        }
        let client = ClientCapabilities::of(&caller.capabilities);
        let answer = match response {
            Ok(result) => match question::given(question.kind, question.kind.as_task(&client), &result) {
                Ok(ClientAnswer::Answer(answer)) => Ok(answer),
                Ok(ClientAnswer::Task(task)) => {
                    tracing::info!(
                        event = "question.runs_as_task", task = %id, key = question.key,
                        client_task = task.id,
                        "client runs a question as a task"
                    );
                    self.inflight.mark_answered(id, &question.key, request_id);
                    let key = question.key.clone();
                    let entrusted = Event::Entrusted { key, client_task: task.id };
                    self.change(id, &entrusted, &caller.by()).await?;
                    return Ok(());
                }
                Err(error) => Err(AskError::Refused(error)),
            },
            Err(error)
                if mistakes_our_task(&error, id) && self.inflight.retry_without_task(id, &question.key) =>
            {
                self.waiters.wake(id);
                return Ok(());
            }
            Err(_)
                if is_unknown
                    && task.bridged.is_some()
                    && !question.key.starts_with(KEYS)
                    && self.is_answered_by_tool(question.kind) =>
            {
                caller.note_refusal();
                // It stays open, and is not sent again.
                self.inflight.mark_answered(id, &question.key, request_id);
                self.waiters.wake(id);
                return Ok(());
            }
            Err(error) => Err(AskError::Refused(error)),
        };
        self.inflight.mark_answered(id, &question.key, request_id);
        let answered = Event::Answered { key: question.key.clone(), answer };
        self.change(id, &answered, &caller.by()).await?;
        Ok(())
    }
}

/// Whether a client does not know the request, although its capabilities name it.
pub(crate) fn is_unknown_method(error: &RpcError) -> bool {
    error.code == METHOD_NOT_FOUND
}

/// IR-9: a client that runs tasks itself may take the task that a question names
/// for one of its own, and say that it does not know it.
fn mistakes_our_task(error: &RpcError, task: TaskId) -> bool {
    error.code == INVALID_PARAMS && error.message.contains(&task.to_string())
}
