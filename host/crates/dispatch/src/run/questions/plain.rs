//! Questions of a plain call whose client can be asked at once: each is a request on the call's own route.

use crate::run::promotion::PromotionCause;
use crate::run::questions::client_task::{follow, send};
use crate::run::questions::in_task;
use crate::run::questions::pending::PendingQuestion;
use crate::run::run::Run;
use crate::task::questions::is_unknown_method;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::question::{self, CheckedQuestion, ClientAnswer};
use toolyard_protocol::{ClientCapabilities, RawJson};
use toolyard_task::AskError;
use toolyard_task::tool::GivenAnswer;

/// Asks all of these at once, and waits for every answer. If the call becomes a task meanwhile, the task goes on asking.
pub(super) async fn ask(run: &Run, questions: Vec<PendingQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
    let client = ClientCapabilities::of(&run.client.capabilities);
    let ask = |PendingQuestion { key, question, .. }| ask_one(run, &client, key, question);
    let Some(bridge) = run.bridge() else {
        return Ok(join_all(questions.into_iter().map(ask)).await);
    };
    let answered = join_all(questions.iter().cloned().map(ask));
    tokio::select! {
        biased;
        // The open questions belong to the task by now.
        () = bridge.promoted.wait() => in_task::ask(run, questions).await,
        answers = answered => Ok(answers),
    }
}

async fn ask_one(
    run: &Run,
    client: &ClientCapabilities,
    key: String,
    question: CheckedQuestion,
) -> GivenAnswer {
    let known = run.questions.history().answer(&key);
    let outcome = match known {
        Some(answer) => answer,
        None => answer(run, client, &key, &question).await,
    };
    if let Err(AskError::Refused(error)) = &outcome
        && is_unknown_method(error)
        && run.is_answered_by_tool(question.kind)
        && run.become_task(PromotionCause::Question).await.is_ok()
    {
        // The task asks it, by the text of the result.
        return std::future::pending().await;
    }
    let given = GivenAnswer { key, outcome };
    // At once: the call may become a task while other questions are open.
    run.questions.history().note(std::slice::from_ref(&given));
    given
}

/// The client's answer to one question.
async fn answer(
    run: &Run,
    client: &ClientCapabilities,
    key: &str,
    question: &CheckedQuestion,
) -> Result<RawJson, AskError> {
    let ms = run.deps.settings.question_ms;
    let until = Instant::now() + Duration::from_millis(ms);
    let as_task = question.kind.as_task(client);
    let params = question.params(as_task.then_some(ms));
    let response = send(run, Some(key), question.kind.method(), &params, until).await;
    let result = response.ok_or(AskError::TimedOut)?.map_err(AskError::Refused)?;
    match question::given(question.kind, as_task, &result).map_err(AskError::Refused)? {
        ClientAnswer::Answer(answer) => Ok(answer),
        ClientAnswer::Task(task) => follow(run, question.kind, task, until).await,
    }
}
