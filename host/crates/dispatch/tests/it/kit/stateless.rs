//! A stateless client of a dispatcher, and what it gets.

use crate::kit::application::tasks_of;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, CreatedTask, Dispatch, Fault, NoClientChannel, Outcome, Principal,
    RateKey, RawJson, Stop, TaskId, Terms, ToolCall,
};
use toolyard_kit::principal;
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
    ToolCall {
        params: CallParams {
            name: name.to_owned(),
            arguments: RawJson::empty_object(),
            task: None,
            progress_token: None,
            trace: None,
        },
        terms: Terms::Stateless { tasks: true, bridge: None, retry },
        stop: stop.clone(),
        channel: Arc::new(NoClientChannel),
        task_channel: Arc::new(NoClientChannel),
        rate_key: RateKey::Local,
    }
}

pub async fn calls(dispatch: &Arc<Dispatch>, retry: Retry) -> Result<CallReply, Fault> {
    dispatch.call(&client(), call("t", retry, &Arc::default())).await
}

pub fn created(reply: Result<CallReply, Fault>) -> CreatedTask {
    match reply {
        Ok(CallReply::Created(created)) => created,
        other => panic!("{other:?}"),
    }
}

/// The task of a reply that its client received.
pub fn delivered(reply: Result<CallReply, Fault>) -> TaskView {
    let CreatedTask { view, handover, .. } = created(reply);
    handover.expect("a duty").mark_delivered();
    view
}

pub fn text(reply: &CallReply) -> &str {
    match reply {
        CallReply::Result(result) => result.as_str(),
        other => panic!("{other:?}"),
    }
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

pub async fn eventually_asks(dispatch: &Arc<Dispatch>, id: &str, key: &str) {
    loop {
        let task = tasks_of(dispatch).await.task(&client(), id).await.expect("there");
        if task.open_questions().any(|question| question.wire_key() == key) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
