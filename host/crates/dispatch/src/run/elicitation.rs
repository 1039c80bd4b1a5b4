//! A guest asks the client (IR-1 to IR-10). From a plain call the question is a request on the call's
//! own route; from a task, it is written to the task first and is sent wherever the client can be
//! reached.

use crate::client::client_channel::{ClientChannel, RouteScope};
use crate::error::Fault;
use crate::run::deps::RunDeps;
use crate::run::pending_question::{KEYS, PendingQuestion, same};
use crate::run::promotion::{NotPromoted, PromotionCause};
use crate::run::round_trip::RoundTrip;
use crate::run::run::Run;
use crate::task::commit::CommitOutcome;
use crate::task::questions::{QuestionRecipient, is_unknown_method};
use crate::task::waiters::TaskWatch;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::question::{self, CheckedQuestion, ClientAnswer, Kind};
use toolyard_protocol::{ClientCapabilities, RawJson, RpcError};
use toolyard_task::apply::{MAX_ASKED_AGAIN, MAX_QUESTIONS};
use toolyard_task::audit::By;
use toolyard_task::store::ReadTask;
use toolyard_task::task::{Era, Question};
use toolyard_task::tool::{AnswerCheck, AskedQuestion, GivenAnswer};
use toolyard_task::{AskError, Event, Fence, Refusal, StoreError, Task, TaskId};

/// How often the host retries a question that no client has received.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a client whose connection broke may take to come back before a question is sent on another
/// route.
const COMES_BACK: Duration = Duration::from_secs(10);
/// The longest key of a question.
const KEY_BYTES: usize = 128;

impl Run {
    /// The channel for the questions of its task.
    pub fn question_channel(&self) -> &Arc<dyn ClientChannel> {
        let bridge = self.promotion.as_ref().and_then(|promotion| promotion.bridge.as_ref());
        bridge.map_or(&self.client.channel, |bridge| &bridge.task_channel)
    }

    /// Sends the open questions of its task to its client.
    pub(crate) async fn offer(&self, task: &Task, scope: RouteScope) -> Result<(), StoreError> {
        let to = QuestionRecipient {
            session: self.client.session.as_ref(),
            capabilities: &self.client.capabilities,
            channel: self.question_channel(),
            scope,
            patience: COMES_BACK,
        };
        self.deps.tasks.offer_questions(task, to).await
    }

    /// Asks the client all of these and waits for every answer.
    pub(crate) async fn ask_client(&self, asked: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        let client = ClientCapabilities::of(&self.client.capabilities);
        let mut keys = HashSet::new();
        let mut posed = Vec::with_capacity(asked.len());
        let mut asks_by_text = false;
        for AskedQuestion { key, method, params, check } in asked {
            let visible =
                !key.is_empty() && key.len() <= KEY_BYTES && key.bytes().all(|b| b.is_ascii_graphic());
            if !visible || key.starts_with(KEYS) {
                return Err(AskError::Invalid(format!(
                    "a key is 1 to {KEY_BYTES} visible ASCII characters and does not begin with `{}`",
                    KEYS
                )));
            }
            if !keys.insert(key.clone()) {
                return Err(AskError::Invalid(format!("the key `{key}` stands for two questions")));
            }
            let elicitation_id = self.deps.ids.uuid().to_string();
            let question = question::check(&method, &params, &elicitation_id)
                .map_err(|what| AskError::Invalid(format!("the question `{key}`: {what}")))?;
            if let Err(unsupported) = question.check_client(&client) {
                // For a client that knows no tasks, the text of a result shows the question.
                if client.form || !self.is_answered_by_tool(question.kind) {
                    return Err(AskError::Unsupported(unsupported));
                }
                asks_by_text = true;
            }
            posed.push(PendingQuestion { key, question, check });
        }
        self.question_history().add(&posed, self.work.bounds().questions as usize)?;
        if asks_by_text && self.task().is_none() {
            let why = |why: NotPromoted| AskError::Refused(RpcError::internal(why.to_string()));
            self.become_task(PromotionCause::Question).await.map_err(why)?;
        }
        let answers = self.put_all(posed).await?;
        self.question_history().note(&answers);
        Ok(answers)
    }

    /// Whether the user answers a question of this kind by a host tool.
    fn is_answered_by_tool(&self, kind: Kind) -> bool {
        self.is_bridged() && self.deps.tasks.is_answered_by_tool(kind)
    }

    /// Asks checked questions, under keys that are theirs alone, and waits for every answer.
    pub(crate) async fn put_all(&self, posed: Vec<PendingQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        if let Some(observation) = self.observation() {
            posed
                .iter()
                .for_each(|PendingQuestion { key, question, .. }| observation.tell_question(key, question));
        }
        let answers = match (self.task(), &self.round_trip) {
            (Some(_), _) => self.ask_in_task(posed).await?,
            (None, Some(round_trip)) => self.ask_by_round_trip(round_trip, posed).await?,
            (None, None) => {
                let client = ClientCapabilities::of(&self.client.capabilities);
                let put = |PendingQuestion { key, question, .. }| self.ask_plainly(&client, key, question);
                let promoted = self.promotion.as_ref().and_then(|promotion| promotion.bridge.as_ref());
                match promoted {
                    None => join_all(posed.into_iter().map(put)).await,
                    Some(bridge) => {
                        let answered = join_all(posed.iter().cloned().map(put));
                        tokio::select! {
                            biased;
                            // The open questions belong to the task by now.
                            () = bridge.promoted.wait() => self.ask_in_task(posed).await?,
                            answers = answered => answers,
                        }
                    }
                }
            }
        };
        if let Some(observation) = self.observation() {
            observation.tell_answers(&answers);
        }
        Ok(answers)
    }

    /// Asks the client of a stateless plain call: if the answers are present, the guest goes on;
    /// otherwise its run ends here.
    pub(crate) async fn ask_by_round_trip(
        &self,
        round_trip: &RoundTrip,
        posed: Vec<PendingQuestion>,
    ) -> Result<Vec<GivenAnswer>, AskError> {
        let mut answers = Vec::with_capacity(posed.len());
        let mut open = Vec::new();
        for PendingQuestion { key, question, check } in &posed {
            match round_trip.answer(key, question, check.as_deref()) {
                Some(answer) => answers.push(GivenAnswer { key: key.clone(), outcome: Ok(answer) }),
                None => open.push((key.clone(), question.clone())),
            }
        }
        if open.is_empty() {
            return Ok(answers);
        }
        if self.has_effects() {
            // Asking in another round would mean running it again.
            self.question_history().note(&answers);
            return match self.become_task(PromotionCause::Question).await {
                Ok(()) => self.ask_in_task(posed).await,
                Err(why) => {
                    tracing::debug!(run = self.work.name(), %why, "a call with effects can ask no more");
                    Err(AskError::TooLate)
                }
            };
        }
        {
            // It must not become a task while it is being ended for another round.
            let _turn = self.turn().await;
            if self.task().is_none() {
                round_trip.suspend(open);
                open = Vec::new();
            }
        }
        if !open.is_empty() {
            self.question_history().note(&answers);
            return self.ask_in_task(posed).await;
        }
        // The driver of the run drops it now.
        std::future::pending().await
    }

    async fn ask_plainly(
        &self,
        client: &ClientCapabilities,
        key: String,
        question: CheckedQuestion,
    ) -> GivenAnswer {
        let known = self.question_history().answer(&key);
        let outcome = match known {
            Some(answer) => answer,
            None => self.put(client, &key, &question).await,
        };
        if let Err(AskError::Refused(error)) = &outcome
            && is_unknown_method(error)
            && self.is_answered_by_tool(question.kind)
            && self.become_task(PromotionCause::Question).await.is_ok()
        {
            // The task asks it, by the text of the result.
            return std::future::pending().await;
        }
        let given = GivenAnswer { key, outcome };
        // At once: the call may become a task while other questions are open.
        self.question_history().note(std::slice::from_ref(&given));
        given
    }

    /// One question of a plain call.
    async fn put(
        &self,
        client: &ClientCapabilities,
        key: &str,
        question: &CheckedQuestion,
    ) -> Result<RawJson, AskError> {
        let time = Duration::from_millis(self.deps.settings.question_ms);
        let until = Instant::now() + time;
        let as_task = question.kind.as_task(client);
        let ttl = as_task.then_some(self.deps.settings.question_ms);
        let result = self.question(key, question.kind.method(), &question.params(ttl), until).await?;
        match question::given(question.kind, as_task, &result).map_err(AskError::Refused)? {
            ClientAnswer::Answer(answer) => Ok(answer),
            ClientAnswer::Task(task) => self.follow(question.kind, task, until).await,
        }
    }

    /// Questions of a task: durable first (IR-1), then sent, then answered.
    pub(crate) async fn ask_in_task(
        &self,
        posed: Vec<PendingQuestion>,
    ) -> Result<Vec<GivenAnswer>, AskError> {
        let (id, fence) = self.task().ok_or(AskError::Cancelled)?;
        // An answer that the plain call got, stored or not, must not be asked for again.
        let was_call = self.promotion.is_some();
        let (mut known, mut checked, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for PendingQuestion { key, question, check } in posed {
            let answer = if was_call { self.question_history().answer(&key) } else { None };
            if let Some(outcome) = answer {
                known.push(GivenAnswer { key, outcome });
            } else {
                keys.push((key.clone(), check));
                checked.push((key, question));
            }
        }
        if checked.is_empty() {
            return Ok(known);
        }
        let stored = loop {
            match self.store_questions(id, fence, checked.clone()).await {
                // The guest must not get it as an answer: a task that resumes outlasts the store.
                Err(error) if self.task_journal().is_some() => self.retry_store(&error).await,
                stored => break stored.map_err(store_failed)?,
            }
        };
        stored?;
        let settle = Duration::from_millis(self.deps.settings.question_settle_ms);
        let mut wait = AnswerWait {
            run: self,
            id,
            fence,
            keys,
            watch: self.deps.tasks.waiters.watch(id),
            following: FuturesUnordered::new(),
            followed: HashSet::new(),
            arrived: None,
            scope: RouteScope::Expected,
            next_look: Instant::now() + settle,
            began: Instant::now(),
        };
        loop {
            match wait.step().await {
                Ok(WaitStep::Answered(answers)) => return Ok([known, answers].concat()),
                // The guest is being stopped.
                Ok(WaitStep::Over) => return Err(AskError::Cancelled),
                Ok(WaitStep::Again) => {}
                // The question has been sent; the store will come back.
                Err(error) => self.retry_store(&error).await,
            }
        }
    }

    /// Stores the questions that are not in the task yet.
    async fn store_questions(
        &self,
        id: TaskId,
        fence: Fence,
        checked: Vec<(String, CheckedQuestion)>,
    ) -> Result<Result<(), AskError>, StoreError> {
        let task = match self.deps.tasks.store.read(id, None).await? {
            Some(ReadTask { task, .. }) if task.is_live() => task,
            _ => return Ok(Err(AskError::Cancelled)),
        };
        let deadline = match task.resume {
            // It waits without a run, so it may wait for as long as its task.
            Some(_) => task.expires_at(),
            None => self.deps.clock.now().plus(self.deps.settings.question_ms).min(task.expires_at()),
        };
        let mut new = Vec::new();
        for (key, question) in checked {
            let asked = task.questions.iter().find(|asked| asked.key == key && !asked.is_superseded());
            let is_same = |asked: &Question| {
                same(&CheckedQuestion { kind: asked.kind, params: asked.params.clone() }, &question)
            };
            let params = match asked {
                None => question.params,
                Some(asked) if is_same(asked) => {
                    if asked.answer.is_some() || asked.attempt == fence.attempt {
                        continue;
                    }
                    // It is still open, and waits as long as if it were new.
                    asked.params.clone()
                }
                // An earlier run of this task asked another question under this key: ask the new
                // one.
                Some(asked) if asked.attempt < fence.attempt => question.params,
                Some(_) => {
                    let what = format!("the key `{key}` was used for another question");
                    return Ok(Err(AskError::Invalid(what)));
                }
            };
            new.push(Question {
                key,
                kind: question.kind,
                params,
                attempt: fence.attempt,
                deadline,
                sent: Vec::new(),
                client_task: None,
                answer: None,
                asked_again: 0,
            });
        }
        if new.is_empty() {
            // All were asked, and some answered, by an earlier run of this task.
            return Ok(Ok(()));
        }
        let asked = Event::Asked { fence, questions: new };
        Ok(match self.deps.tasks.change(id, &asked, &By::host()).await? {
            CommitOutcome::Done(task) => {
                tracing::info!(
                    event = "question.asked", task = %id, count = task.open_questions().count(),
                    "task asks its client"
                );
                Ok(())
            }
            CommitOutcome::Refused(_, Refusal::KeyReused) => {
                Err(AskError::Invalid("a key was used for another question".to_owned()))
            }
            CommitOutcome::Refused(_, refusal @ Refusal::TooManyQuestions) => {
                Err(AskError::Invalid(format!("{refusal}: {MAX_QUESTIONS}")))
            }
            // The task has ended; the guest is being stopped.
            CommitOutcome::Refused(..) | CommitOutcome::Gone => Err(AskError::Cancelled),
        })
    }

    async fn follow_for(
        &self,
        question: Question,
        client_task: String,
    ) -> (String, Result<RawJson, AskError>) {
        let left = question.deadline.since(self.deps.clock.now());
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

/// A task's wait for the answers to some of its questions.
struct AnswerWait<'a> {
    run: &'a Run,
    id: TaskId,
    fence: Fence,
    keys: Vec<(String, Option<Arc<dyn AnswerCheck>>)>,
    watch: TaskWatch<'a>,
    /// Questions that the client runs as tasks of its own.
    following: FuturesUnordered<BoxFuture<'a, (String, Result<RawJson, AskError>)>>,
    followed: HashSet<String>,
    /// The result of a client's task, until it is written.
    arrived: Option<Event>,
    /// The routes for questions that are not pending on any.
    scope: RouteScope,
    next_look: Instant,
    /// When the wait began, or the run was last not parked.
    began: Instant,
}

/// The outcome of one step of a wait.
enum WaitStep {
    Answered(Vec<GivenAnswer>),
    Over,
    Again,
}

impl AnswerWait<'_> {
    /// Sends, expires and follows questions as their state demands, and waits for the next change.
    async fn step(&mut self) -> Result<WaitStep, StoreError> {
        let RunDeps { tasks, clock, .. } = &*self.run.deps;
        if let Some(answered) = &self.arrived {
            // The result of the client's own task.
            tasks.change(self.id, answered, &By::client()).await?;
            self.arrived = None;
        }
        let changed = self.watch.changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let task = match tasks.store.read(self.id, None).await? {
            Some(ReadTask { task, .. }) if task.is_live() => task,
            _ => return Ok(WaitStep::Over),
        };
        if let Some(key) = self.unfit_answer(&task) {
            tracing::info!(
                event = "question.answer_refused", task = %self.id, key,
                "answer is not valid; asking again"
            );
            let again = Event::AskedAgain { fence: Some(self.fence), key };
            tasks.change(self.id, &again, &By::host()).await?;
            return Ok(WaitStep::Again);
        }
        if let Some(answers) = answers(&task, &self.keys) {
            return Ok(WaitStep::Answered(answers));
        }
        let now = clock.now();
        let open: Vec<&Question> =
            task.open_questions().filter(|question| self.waits_for(&question.key)).collect();
        for question in &open {
            if question.deadline <= now {
                // IR-8.
                tracing::info!(
                    event = "question.timed_out", task = %self.id, key = question.key,
                    "question timed out"
                );
                let timed_out =
                    Event::Answered { key: question.key.clone(), answer: Err(AskError::TimedOut) };
                tasks.change(self.id, &timed_out, &By::host()).await?;
                return Ok(WaitStep::Again);
            }
            if let Some(client_task) = &question.client_task
                && self.followed.insert(question.key.clone())
            {
                let following = self.run.follow_for((*question).clone(), client_task.clone());
                self.following.push(following.boxed());
            }
        }
        let journal = self.run.task_journal().filter(|_| self.following.is_empty());
        let (run, began) = (self.run, self.began);
        let parks = journal.filter(|_| began.elapsed() >= run.park_after());
        let scope = std::mem::replace(&mut self.scope, RouteScope::Expected);
        // Without a run, nothing looks for another route.
        let scope = if parks.is_some() { RouteScope::Anywhere } else { scope };
        run.offer(&task, scope).await?;
        if let Some(journal) = parks {
            journal.park(None).await;
            self.began = Instant::now();
            return Ok(WaitStep::Again);
        }
        let left = open.iter().map(|question| question.deadline.since(now)).min().unwrap_or_default();
        tokio::select! {
            biased;
            () = changed => {}
            Some((key, answer)) = self.following.next() => self.arrived = Some(Event::Answered { key, answer }),
            () = tokio::time::sleep(Duration::from_millis(left)) => {}
            () = run.until_parks(began), if journal.is_some() => {}
            () = tokio::time::sleep_until(self.next_look) => {
                self.next_look = Instant::now() + LOOK_AGAIN;
                self.scope = RouteScope::Anywhere;
            }
        }
        Ok(WaitStep::Again)
    }
}

impl AnswerWait<'_> {
    fn waits_for(&self, key: &str) -> bool {
        self.keys.iter().any(|(waited, _)| waited == key)
    }

    /// A question whose answer does not fit, and whose client can be asked again because it answers
    /// by key (26T-22). With sessions the guest gets the answer as it is.
    fn unfit_answer(&self, task: &Task) -> Option<String> {
        if task.era != Era::Stateless && task.bridged.is_none() {
            return None;
        }
        let is_unfit = |(key, check): &&(String, Option<Arc<dyn AnswerCheck>>)| {
            let question = task.questions.iter().find(|question| question.key == *key);
            let question = question.filter(|question| question.asked_again < MAX_ASKED_AGAIN);
            match (check, question.and_then(|question| question.answer.as_ref())) {
                (Some(check), Some(Ok(answer))) => check.check(answer).is_err(),
                _ => false,
            }
        };
        self.keys.iter().find(is_unfit).map(|(key, _)| key.clone())
    }
}

/// The answers to all of these keys, if all are present.
fn answers(task: &Task, keys: &[(String, Option<Arc<dyn AnswerCheck>>)]) -> Option<Vec<GivenAnswer>> {
    let answer = |(key, _): &(String, Option<Arc<dyn AnswerCheck>>)| {
        let question = task.questions.iter().find(|question| question.key == *key)?;
        Some(GivenAnswer { key: key.clone(), outcome: question.answer.clone()? })
    };
    keys.iter().map(answer).collect()
}

fn store_failed(error: StoreError) -> AskError {
    AskError::Refused(Fault::Store(error).rpc())
}
