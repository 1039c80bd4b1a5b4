//! A stateless client of a dispatcher, and what it gets.

use crate::kit::application::{tasks_of, until};
use crate::kit::calls::call_on;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    CallReply, Caller, CreatedTask, Dispatch, Fault, NoClientChannel, Outcome, Principal, RawJson, Stop,
    Task, TaskId, Terms, ToolCall,
};
use toolyard_kit::{YES, principal};
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tasks::TaskView;

pub fn client() -> Caller {
    let principal = Arc::new(Principal::Local);
    Caller::stateless(principal, None, RawJson::trusted(r#"{"elicitation":{}}"#))
}

pub fn signed_in(subject: &str) -> Caller {
    Caller::stateless(principal(subject), None, RawJson::trusted(r#"{"elicitation":{}}"#))
}

pub fn call(name: &str, retry: Retry, stop: &Arc<Stop>) -> ToolCall {
    let terms = Terms::Stateless { tasks: true, bridge: None, retry };
    ToolCall { stop: stop.clone(), ..call_on(terms, name, Arc::new(NoClientChannel)) }
}

pub async fn calls(dispatch: &Arc<Dispatch>, retry: Retry) -> Result<CallReply, Fault> {
    dispatch.call(&client(), call("t", retry, &Arc::default())).await
}

pub fn created(reply: Result<CallReply, Fault>) -> CreatedTask {
    let Ok(CallReply::Created(created)) = reply else { panic!("{reply:?}") };
    created
}

/// The task of a reply that its client received.
pub fn delivered(reply: Result<CallReply, Fault>) -> TaskView {
    let CreatedTask { view, handover, .. } = created(reply);
    handover.expect("a duty").mark_delivered();
    view
}

pub fn text(reply: &CallReply) -> &str {
    let CallReply::Result(result) = reply else { panic!("{reply:?}") };
    result.as_str()
}

pub async fn outcome(dispatch: &Arc<Dispatch>, id: &str) -> Outcome {
    let id = TaskId::parse(id).expect("an id");
    let mut states = std::pin::pin!(tasks_of(dispatch).await.follow_task(client(), id));
    let mut last = None;
    let end = async {
        while let Some(task) = states.next().await {
            last = task.outcome;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), end).await.expect("the task ends");
    last.expect("it came to something")
}

/// Answers the question of a task under this key, once it is asked.
pub async fn answer_when_asked(dispatch: &Arc<Dispatch>, id: &str, key: &str) {
    let is_asked = |task: &Task| task.open_questions().any(|question| question.wire_key() == key);
    until(dispatch, &client(), id, "the question", is_asked).await;
    let answers = [(key.to_owned(), RawJson::trusted(YES))].into();
    tasks_of(dispatch).await.update_task(&client(), id, answers).await.expect("acknowledged");
}
