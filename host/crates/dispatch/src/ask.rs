//! A guest asks the client (IR-1 to IR-10). From a plain call the question is a
//! request on the call's own line; from a task it is written to the task first and
//! goes out wherever the client can be reached.

use crate::asked::same;
use crate::change::Changed;
use crate::outlet::{Outlet, Place};
use crate::run::Run;
use crate::{Caller, Dispatch, Fault};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::question::{self, Checked, Given};
use toolyard_protocol::response::with_related_task;
use toolyard_protocol::{ClientCapabilities, RawJson, RpcError};
use toolyard_task::store::{Read, StoreError};
use toolyard_task::task::{Question, Sent};
use toolyard_task::tool::{AskError, AskedQuestion, GivenAnswer};
use toolyard_task::wire::error::INVALID_PARAMS;
use toolyard_task::{Event, Fence, Refusal, Task, TaskId};

/// How often it is looked whether a question that is out nowhere can go out.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a client whose connection broke may take to come back before a
/// question goes out on another line.
const COMES_BACK: Duration = Duration::from_secs(10);
/// The longest key of a question.
const KEY_BYTES: usize = 128;

impl Run {
    /// Asks the client all of these and waits for every answer.
    pub(crate) async fn ask_client(&self, asked: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        let client = ClientCapabilities::of(&self.capabilities);
        let mut keys = HashSet::new();
        let mut checked = Vec::with_capacity(asked.len());
        for AskedQuestion { key, method, params } in asked {
            let visible =
                !key.is_empty() && key.len() <= KEY_BYTES && key.bytes().all(|b| b.is_ascii_graphic());
            if !visible || key.starts_with("host:") {
                return Err(AskError::Invalid(format!(
                    "a key is 1 to {KEY_BYTES} visible ASCII characters and does not begin with `host:`"
                )));
            }
            if !keys.insert(key.clone()) {
                return Err(AskError::Invalid(format!("the key `{key}` stands for two questions")));
            }
            let elicitation_id = self.dispatch.random_id().to_string();
            let question = question::check(&method, &params, &elicitation_id)
                .map_err(|what| AskError::Invalid(format!("the question `{key}`: {what}")))?;
            question.check_client(&client).map_err(AskError::Unsupported)?;
            checked.push((key, question));
        }
        self.asked().add(&checked, self.dispatch.settings.questions_per_call as usize)?;
        let answers = match self.task {
            Some((id, fence)) => self.ask_in_task(id, fence, checked).await?,
            None => {
                join_all(checked.into_iter().map(|(key, question)| self.ask_plainly(key, question))).await
            }
        };
        self.asked().note(&answers);
        Ok(answers)
    }

    async fn ask_plainly(&self, key: String, question: Checked) -> GivenAnswer {
        let known = self.asked().answer(&key);
        let outcome = match known {
            Some(answer) => answer,
            None => self.put(&question).await,
        };
        GivenAnswer { key, outcome }
    }

    /// One question of a plain call.
    async fn put(&self, question: &Checked) -> Result<RawJson, AskError> {
        let time = Duration::from_millis(self.dispatch.settings.question_ms);
        let until = Instant::now() + time;
        let as_task = question.kind.as_task(&ClientCapabilities::of(&self.capabilities));
        let ttl = as_task.then_some(self.dispatch.settings.question_ms);
        let result = self.request(question.kind.method(), &question.params(ttl), until).await?;
        match question::given(question.kind, as_task, &result).map_err(AskError::Refused)? {
            Given::Answer(answer) => Ok(answer),
            Given::Task(task) => self.follow(question.kind, task, until).await,
        }
    }

    /// Questions of a task: durable first (IR-1), then out, then answered.
    async fn ask_in_task(
        &self,
        id: TaskId,
        fence: Fence,
        checked: Vec<(String, Checked)>,
    ) -> Result<Vec<GivenAnswer>, AskError> {
        let keys: Vec<String> = checked.iter().map(|(key, _)| key.clone()).collect();
        let task = self.store_questions(id, fence, checked).await?;
        let mut task = match task {
            Some(task) => task,
            // Nothing new: an earlier run of this task asked the same.
            None => self.read(id).await?,
        };
        let mut following = FuturesUnordered::new();
        let mut followed = HashSet::new();
        let watch = self.dispatch.waiters.watch(id);
        // The first chance belongs to whoever already waits for the result.
        let mut next_look = Instant::now() + Duration::from_millis(self.dispatch.settings.question_settle_ms);
        self.offer(&task, Place::Expected, COMES_BACK).await?;
        loop {
            let changed = watch.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            task = self.read(id).await?;
            if let Some(answers) = answers(&task, &keys) {
                return Ok(answers);
            }
            for question in task.open_questions().filter(|question| keys.contains(&question.key)) {
                let entrusted = question.client_task.as_ref();
                if let Some(client_task) = entrusted.filter(|_| followed.insert(question.key.clone())) {
                    following.push(self.follow_for(question.clone(), client_task.clone()));
                }
            }
            let overdue = self.time_left(&task, &keys);
            tokio::select! {
                biased;
                () = changed => self.offer(&task, Place::Expected, COMES_BACK).await?,
                Some((key, answer)) = following.next() => {
                    self.dispatch.change(id, &Event::Answered { key, answer }).await.map_err(unstored)?;
                }
                () = tokio::time::sleep(overdue) => self.give_up_overdue(&task, &keys).await?,
                () = tokio::time::sleep_until(next_look) => {
                    next_look = Instant::now() + LOOK_AGAIN;
                    self.offer(&task, Place::Anywhere, COMES_BACK).await?;
                }
            }
        }
    }

    /// Writes down those questions that are not in the task yet.
    async fn store_questions(
        &self,
        id: TaskId,
        fence: Fence,
        checked: Vec<(String, Checked)>,
    ) -> Result<Option<Task>, AskError> {
        let task = self.read(id).await?;
        let time = Duration::from_millis(self.dispatch.settings.question_ms);
        let deadline = self.dispatch.clock.now().plus(time.as_millis() as u64).min(task.expires_at());
        let mut new = Vec::new();
        for (key, Checked { kind, params }) in checked {
            match task.questions.iter().find(|asked| asked.key == key) {
                None => new.push(Question {
                    key,
                    kind,
                    params,
                    attempt: fence.attempt,
                    deadline,
                    sent: Vec::new(),
                    client_task: None,
                    answer: None,
                }),
                Some(asked) => {
                    let before = Checked { kind: asked.kind, params: asked.params.clone() };
                    if !same(&before, &Checked { kind, params }) {
                        let what = format!("the key `{key}` was used for another question");
                        return Err(AskError::Invalid(what));
                    }
                }
            }
        }
        if new.is_empty() {
            return Ok(None);
        }
        let asked = Event::Asked { fence, questions: new };
        match self.dispatch.change(id, &asked).await.map_err(unstored)? {
            Changed::Done(task) => {
                tracing::info!(task = %id, questions = task.open_questions().count(), "task asks its client");
                Ok(Some(task))
            }
            Changed::Refused(_, Refusal::KeyReused) => {
                Err(AskError::Invalid("a key was used for another question".to_owned()))
            }
            // It is over; the guest is being stopped.
            Changed::Refused(..) | Changed::Gone => Err(AskError::Cancelled),
        }
    }

    async fn read(&self, id: TaskId) -> Result<Task, AskError> {
        match self.dispatch.stores.tasks.read(id).await.map_err(unstored)? {
            Some(Read { task, .. }) if task.is_live() => Ok(task),
            _ => Err(AskError::Cancelled),
        }
    }

    async fn offer(&self, task: &Task, place: Place, patience: Duration) -> Result<(), AskError> {
        let to = Addressee {
            session: self.session.as_ref(),
            capabilities: &self.capabilities,
            outlet: &self.outlet,
            place,
            patience,
        };
        self.dispatch.offer_questions(task, to).await.map_err(unstored)
    }

    /// How long until the first of these questions has waited long enough.
    fn time_left(&self, task: &Task, keys: &[String]) -> Duration {
        let now = self.dispatch.clock.now();
        let waiting = task.open_questions().filter(|question| keys.contains(&question.key));
        let left = waiting.map(|question| question.deadline.since(now)).min();
        Duration::from_millis(left.unwrap_or_default())
    }

    /// IR-8: questions whose time is up are answered by that.
    async fn give_up_overdue(&self, task: &Task, keys: &[String]) -> Result<(), AskError> {
        let now = self.dispatch.clock.now();
        for question in task.open_questions() {
            if keys.contains(&question.key) && question.deadline <= now {
                tracing::info!(task = %task.id, key = question.key, "nobody answered in time");
                let timed_out =
                    Event::Answered { key: question.key.clone(), answer: Err(AskError::TimedOut) };
                self.dispatch.change(task.id, &timed_out).await.map_err(unstored)?;
            }
        }
        Ok(())
    }

    async fn follow_for(
        &self,
        question: Question,
        client_task: String,
    ) -> (String, Result<RawJson, AskError>) {
        let left = question.deadline.since(self.dispatch.clock.now());
        let until = Instant::now() + Duration::from_millis(left);
        let task = question::ClientTask {
            id: client_task,
            status: toolyard_task::wire::TaskStatus::Working,
            poll_interval_ms: Some(0),
        };
        let answer = self.follow(question.kind, task, until).await;
        (question.key, answer)
    }
}

/// The answers to all of these keys, if all are there.
fn answers(task: &Task, keys: &[String]) -> Option<Vec<GivenAnswer>> {
    let answer = |key: &String| {
        let question = task.questions.iter().find(|question| question.key == *key)?;
        Some(GivenAnswer { key: key.clone(), outcome: question.answer.clone()? })
    };
    keys.iter().map(answer).collect()
}

fn unstored(error: StoreError) -> AskError {
    AskError::Refused(Fault::Store(error).rpc())
}

/// To whom the questions of a task are put.
pub(crate) struct Addressee<'a> {
    pub session: Option<&'a toolyard_task::SessionId>,
    pub capabilities: &'a RawJson,
    pub outlet: &'a Arc<dyn Outlet>,
    pub place: Place,
    /// How long a line with nobody at its other end is waited for.
    pub patience: Duration,
}

impl Dispatch {
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
            let Some(claim) = self.desk.claim(task.id, &asked.key, to.patience) else { continue };
            let request_id = format!("{}.{}", task.id, self.ids.uuid().simple());
            let sent = Sent { id: request_id.clone(), session: to.session.cloned() };
            let sent = Event::Sent { key: asked.key.clone(), sent };
            // Durable before it leaves, or its answer would come for a request
            // that nobody knows.
            if !matches!(self.change(task.id, &sent).await?, Changed::Done(_)) {
                continue;
            }
            let left = asked.deadline.since(self.clock.now()).max(1);
            let mut params = question.params(question.kind.as_task(&client).then_some(left));
            if self.settings.related_task && !claim.bare {
                params = with_related_task(&params, &task.id.to_string());
            }
            if line.request(&request_id, asked.kind.method(), &params) {
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
        let Err(response) = self.requests.answer(caller.session.as_ref(), request_id, response) else {
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
                    self.change(id, &Event::Entrusted { key, client_task: task.id }).await?;
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
        self.change(id, &Event::Answered { key: question.key.clone(), answer }).await?;
        Ok(())
    }
}

/// IR-9: a client that runs tasks itself may take the task that a question names
/// for one of its own, and say that it does not know it.
fn is_mistaken(error: &RpcError, task: TaskId) -> bool {
    error.code == INVALID_PARAMS && error.message.contains(&task.to_string())
}
