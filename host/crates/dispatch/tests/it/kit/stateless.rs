//! A stateless client of a dispatcher, and what it gets.

use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, CreatedTask, Dispatch, Fault, NoClientChannel, Outcome, Principal,
    RawJson, Stop, Subject, TaskId, Terms, ToolCall,
};
use toolyard_protocol::stateless::input::Retry;
use toolyard_task::tool::{AskedQuestion, RunEnd};
use toolyard_task::wire::text_result;

pub const FORM: &str = r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;

pub const YES: &str = r#"{"action":"accept","content":{}}"#;

pub fn client() -> Caller {
    let principal = Arc::new(Principal::Local);
    Caller::stateless(principal, None, RawJson::trusted(r#"{"elicitation":{}}"#))
}

pub fn signed_in(subject: &str) -> Caller {
    let principal = Principal::Subject(Subject {
        issuer: "https://a.example".into(),
        subject: subject.into(),
        client: None,
        scopes: std::collections::BTreeSet::new(),
        claims: serde_json::Value::Null,
        expires_at: None,
    });
    Caller::stateless(Arc::new(principal), None, RawJson::trusted(r#"{"elicitation":{}}"#))
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
        terms: Terms::Stateless { tasks: true, retry },
        stop: stop.clone(),
        channel: Arc::new(NoClientChannel),
        task_channel: Arc::new(NoClientChannel),
    }
}

pub async fn calls(dispatch: &Arc<Dispatch>, retry: Retry) -> Result<CallReply, Fault> {
    dispatch.call(&client(), call("t", retry, &Arc::default())).await
}

pub fn says(text: &str) -> RunEnd {
    RunEnd::Result { is_error: false, result: text_result(text, false), message: None }
}

pub fn question(key: &str) -> AskedQuestion {
    AskedQuestion {
        key: key.to_owned(),
        method: "elicitation/create".to_owned(),
        params: RawJson::trusted(FORM),
        check: None,
    }
}

pub fn created(reply: Result<CallReply, Fault>) -> CreatedTask {
    match reply {
        Ok(CallReply::Created(created)) => created,
        other => panic!("{other:?}"),
    }
}

pub fn text(reply: &CallReply) -> &str {
    match reply {
        CallReply::Result(result) => result.as_str(),
        other => panic!("{other:?}"),
    }
}

pub async fn outcome(dispatch: &Arc<Dispatch>, id: &str) -> Outcome {
    let id = TaskId::parse(id).expect("an id");
    let mut states = std::pin::pin!(dispatch.follow_task(client(), id));
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
        let task = dispatch.task(&client(), id).await.expect("there");
        if task.open_questions().any(|question| question.wire_key() == key) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
