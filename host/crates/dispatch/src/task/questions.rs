//! Which question of a task is out on which line. What was asked stands in the
//! store; where it went is known to this process only.

use crate::Fault;
use crate::access::caller::Caller;
use crate::client::client_channel::{Line, Outlet, Place, Presence};
use crate::task::Tasks;
use crate::task::commit::Changed;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolyard_protocol::question::{self, Checked, Given};
use toolyard_protocol::response::with_related_task;
use toolyard_protocol::{ClientCapabilities, RawJson, RpcError};
use toolyard_task::audit::By;
use toolyard_task::store::StoreError;
use toolyard_task::task::Sent;
use toolyard_task::tool::AskError;
use toolyard_task::wire::error::INVALID_PARAMS;
use toolyard_task::{Event, SessionId, Task, TaskId};

/// The questions that are out.
#[derive(Default)]
pub(crate) struct Desk {
    by_task: Mutex<BTreeMap<TaskId, BTreeMap<String, Out>>>,
}

/// One question.
#[derive(Default)]
struct Out {
    /// Somebody is about to send it.
    claimed: bool,
    /// It goes out without naming its task (IR-9).
    bare: bool,
    /// The lines it went out on and under which id, the latest last.
    lines: Vec<(String, Arc<dyn Line>)>,
    /// The request that the client has answered: not to be withdrawn.
    answered: Option<String>,
}

/// The right to send a question: nobody else sends it meanwhile (H-20).
pub(crate) struct Claim<'a> {
    desk: &'a Desk,
    task: TaskId,
    key: String,
    /// Whether the question must not name its task.
    pub bare: bool,
}

impl Desk {
    /// The right to send this question on `line`, unless it is out on one where it may
    /// still be answered: with somebody at the other end, or whose other end went away
    /// less than `patience` ago (IR-7).
    ///
    /// What went out before goes out again only to somebody who is there: the waits
    /// of clients that have left would else ask it anew in turn, until the requests that
    /// those clients did see are forgotten.
    pub fn claim(&self, task: TaskId, key: &str, patience: Duration, line: &dyn Line) -> Option<Claim<'_>> {
        let mut by_task = self.lock();
        let out = by_task.entry(task).or_default().entry(key.to_owned()).or_default();
        let is_out = out.lines.last().is_some_and(|(_, line)| match line.presence() {
            Presence::There => true,
            Presence::AwayFor(time) => time < patience,
            Presence::Gone => false,
        });
        let to_nobody = !out.lines.is_empty() && line.presence() != Presence::There;
        if out.claimed || is_out || to_nobody || out.answered.is_some() {
            return None;
        }
        out.claimed = true;
        Some(Claim { desk: self, task, key: key.to_owned(), bare: out.bare })
    }

    /// How many questions are out, or about to go out.
    pub fn open(&self) -> usize {
        self.lock().values().map(BTreeMap::len).sum()
    }

    /// The client has answered this request.
    pub fn answered(&self, task: TaskId, key: &str, request_id: &str) {
        if let Some(out) = self.lock().get_mut(&task).and_then(|keys| keys.get_mut(key)) {
            out.answered = Some(request_id.to_owned());
        }
    }

    /// The client mistook our task for one of its own: next time the question goes
    /// out without it. False if that was tried already.
    pub fn without_task(&self, task: TaskId, key: &str) -> bool {
        let mut by_task = self.lock();
        let Some(out) = by_task.get_mut(&task).and_then(|keys| keys.get_mut(key)) else { return false };
        let first = !out.bare;
        out.bare = true;
        out.lines.clear();
        first
    }

    /// Takes back what is out for questions of this task that no longer wait.
    pub fn settle(&self, task: &Task) {
        let mut settled = Vec::new();
        {
            let mut by_task = self.lock();
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
            for (id, line) in out.lines.iter().filter(|(id, _)| out.answered.as_ref() != Some(id)) {
                line.withdraw(id, "The question is no longer open.", Some(task.id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskId, BTreeMap<String, Out>>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// The question is out. If it was settled while it was being sent, it is taken
    /// back at once.
    pub fn delivered(self, request_id: String, line: Arc<dyn Line>) {
        {
            let mut by_task = self.desk.lock();
            if let Some(out) = by_task.get_mut(&self.task).and_then(|keys| keys.get_mut(&self.key)) {
                out.lines.push((request_id, line));
                return;
            }
        }
        line.withdraw(&request_id, "The question is no longer open.", Some(self.task));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut by_task = self.desk.lock();
        let Some(keys) = by_task.get_mut(&self.task) else { return };
        if let Some(out) = keys.get_mut(&self.key) {
            out.claimed = false;
            // Nothing is kept of a question that never left.
            if out.lines.is_empty() && !out.bare {
                keys.remove(&self.key);
            }
        }
        if keys.is_empty() {
            by_task.remove(&self.task);
        }
    }
}

/// To whom the questions of a task are put.
pub(crate) struct Addressee<'a> {
    pub session: Option<&'a SessionId>,
    pub capabilities: &'a RawJson,
    pub outlet: &'a Arc<dyn Outlet>,
    pub place: Place,
    /// How long a line with nobody at its other end is waited for.
    pub patience: Duration,
}

impl Tasks {
    /// Sends those open questions of a task that are out nowhere and that this
    /// client can be asked.
    pub(crate) async fn offer_questions(&self, task: &Task, to: Addressee<'_>) -> Result<(), StoreError> {
        let client = ClientCapabilities::of(to.capabilities);
        for asked in task.open_questions().filter(|question| question.client_task.is_none()) {
            let question = Checked { kind: asked.kind, params: asked.params.clone() };
            if question.check_client(&client).is_err() {
                continue;
            }
            let Some(line) = to.outlet.line(Some(task.id), to.place) else { return Ok(()) };
            let Some(claim) = self.desk.claim(task.id, &asked.key, to.patience, &*line) else { continue };
            let request_id = format!("{}.{}", task.id, self.ids.uuid().simple());
            let sent = Sent { id: request_id.clone(), session: to.session.cloned() };
            let sent = Event::Sent { key: asked.key.clone(), sent };
            // Durable before it leaves, or its answer would come for a request
            // that nobody knows.
            if !matches!(self.change(task.id, &sent, &By::host()).await?, Changed::Done(_)) {
                continue;
            }
            let left = asked.deadline.since(self.clock.now()).max(1);
            let mut params = question.params(question.kind.as_task(&client).then_some(left));
            if self.settings.related_task && !claim.bare {
                params = with_related_task(&params, &task.id.to_string());
            }
            if line.question(&asked.key, &request_id, asked.kind.method(), &params) {
                tracing::debug!(task = %task.id, key = asked.key, "question sent");
                claim.delivered(request_id, line);
            }
        }
        Ok(())
    }

    /// Takes in a client's response to a request of ours. What answers nothing, or
    /// comes from a session that was not asked, is ignored.
    ///
    /// # Errors
    /// [`Fault::Store`]: the answer is not written and should be given again.
    pub async fn answered(
        &self,
        caller: &Caller,
        request_id: &str,
        response: Result<RawJson, RpcError>,
    ) -> Result<(), Fault> {
        let Err(response) = self.clients.requests.answer(caller.session.as_ref(), request_id, response)
        else {
            return Ok(());
        };
        let task = request_id.split_once('.').and_then(|(task, _)| TaskId::parse(task));
        let Some(id) = task.filter(|_| self.settings.tasks) else {
            tracing::debug!(request_id, "a response to no request of ours");
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
                Ok(Given::Answer(answer)) => Ok(answer),
                Ok(Given::Task(task)) => {
                    tracing::info!(task = %id, key = question.key, client_task = task.id, "the client runs a question as a task");
                    self.desk.answered(id, &question.key, request_id);
                    let key = question.key.clone();
                    let entrusted = Event::Entrusted { key, client_task: task.id };
                    self.change(id, &entrusted, &caller.by()).await?;
                    return Ok(());
                }
                Err(error) => Err(AskError::Refused(error)),
            },
            Err(error) if is_mistaken(&error, id) && self.desk.without_task(id, &question.key) => {
                self.waiters.wake(id);
                return Ok(());
            }
            Err(error) => Err(AskError::Refused(error)),
        };
        self.desk.answered(id, &question.key, request_id);
        let answered = Event::Answered { key: question.key.clone(), answer };
        self.change(id, &answered, &caller.by()).await?;
        Ok(())
    }
}

/// IR-9: a client that runs tasks itself may take the task that a question names
/// for one of its own, and say that it does not know it.
fn is_mistaken(error: &RpcError, task: TaskId) -> bool {
    error.code == INVALID_PARAMS && error.message.contains(&task.to_string())
}
