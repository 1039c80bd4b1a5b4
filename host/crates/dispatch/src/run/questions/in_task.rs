//! Questions of a task: stored with the task first (IR-1), then sent wherever the client can be reached, then answered.

use crate::client::client_channel::RouteScope;
use crate::error::Fault;
use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::run::journal::TaskJournal;
use crate::run::questions::LOOK_AGAIN;
use crate::run::questions::client_task::follow;
use crate::run::questions::pending::{PendingQuestion, same};
use crate::run::run::Run;
use crate::task::commit::CommitOutcome;
use crate::task::waiters::TaskWatch;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::{CheckedQuestion, ClientTask};
use toolyard_task::apply::{MAX_ASKED_AGAIN, MAX_QUESTIONS};
use toolyard_task::audit::By;
use toolyard_task::store::ReadTask;
use toolyard_task::task::{Era, Question};
use toolyard_task::tool::{AnswerCheck, GivenAnswer};
use toolyard_task::wire::TaskStatus;
use toolyard_task::{AskError, Event, Fence, Refusal, StoreError, Task, TaskId};

/// Asks all of these as questions of the task that the run works on, and waits for every answer.
pub(super) async fn ask(run: &Run, questions: Vec<PendingQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
    let RunTask { id, fence, .. } = run.task().ok_or(AskError::Cancelled)?;
    // An answer that the plain call got, stored or not, must not be asked for again.
    let was_call = run.promotion.is_some();
    let (mut known, mut checked, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for PendingQuestion { key, question, check } in questions {
        let answer = if was_call { run.questions.history().answer(&key) } else { None };
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
        match store_questions(run, id, fence, checked.clone()).await {
            // The guest must not get it as an answer: a task that resumes outlasts the store.
            Err(error) if run.task_journal().is_some() => run.retry_store(&error).await,
            stored => break stored.map_err(store_failed)?,
        }
    };
    stored?;
    let settle = Duration::from_millis(run.deps.settings.question_settle_ms);
    let mut wait = AnswerWait {
        run,
        id,
        fence,
        keys,
        watch: run.deps.tasks.waiters.watch(id),
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
            Err(error) => run.retry_store(&error).await,
        }
    }
}

/// Stores the questions that are not in the task yet.
async fn store_questions(
    run: &Run,
    id: TaskId,
    fence: Fence,
    checked: Vec<(String, CheckedQuestion)>,
) -> Result<Result<(), AskError>, StoreError> {
    let task = match run.deps.tasks.store.read(id, None).await? {
        Some(ReadTask { task, .. }) if task.is_live() => task,
        _ => return Ok(Err(AskError::Cancelled)),
    };
    let deadline = match task.resume {
        // It waits without a run, so it may wait for as long as its task.
        Some(_) => task.expires_at(),
        None => run.deps.clock.now().plus(run.deps.settings.question_ms).min(task.expires_at()),
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
    Ok(match run.deps.tasks.change(id, &asked, &By::host()).await? {
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

/// Follows the task that a client runs to answer a question. Returns its answer under the key of the question.
async fn follow_for(
    run: &Run,
    question: Question,
    client_task: String,
) -> (String, Result<RawJson, AskError>) {
    let left = question.deadline.since(run.deps.clock.now());
    let until = Instant::now() + Duration::from_millis(left);
    let task = ClientTask { id: client_task, status: TaskStatus::Working, poll_interval_ms: Some(0) };
    let answer = follow(run, question.kind, task, until).await;
    (question.key, answer)
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
                let following = follow_for(self.run, (*question).clone(), client_task.clone());
                self.following.push(following.boxed());
            }
        }
        let (run, began) = (self.run, self.began);
        let journal = run.task_journal().filter(|_| self.following.is_empty());
        let parks = journal.filter(|journal| began.elapsed() >= journal.park_after());
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
            () = until_parks(journal, began) => {}
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

/// Waits until the run is to be parked; forever if it cannot be.
async fn until_parks(journal: Option<&Arc<TaskJournal>>, began: Instant) {
    match journal {
        Some(journal) => journal.until_parks(began).await,
        None => std::future::pending().await,
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
