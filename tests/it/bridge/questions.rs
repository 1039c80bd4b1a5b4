//! Questions of tools for clients that cannot be asked: the model passes the user's answer on.

use super::{collect, instruction, text};
use crate::questions::{accepted, form};
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, guests};

/// A host, a session of a client without elicitation, and the hand-off of a call that asks.
async fn asked() -> (Host, Session, Value) {
    let setup = Setup::new().with(&[guests::fixture("script")]).set("bridge.enabled", "true");
    let (host, session) = setup.open().await;
    let result = session.call("script", json!({"steps": [{"ask": [form("deploy")]}]})).await;
    (host, session, result)
}

/// The answer that the hand-off suggests, with changes.
async fn answered(session: &Session, result: &Value, changes: Value) -> Value {
    let mut answer = instruction(result, "task_answer");
    for (name, value) in changes.as_object().expect("an object") {
        answer[name] = value.clone();
    }
    session.call("task_answer", answer).await
}

#[tokio::test]
async fn a_hand_off_shows_the_question_and_task_answer_answers_it() {
    let (_host, session, result) = asked().await;
    for part in ["is waiting for an answer from the user", "\"Deploy?\"", "ok: true or false, required"] {
        assert!(text(&result).contains(part), "{part}: {result}");
    }
    let wrong = answered(&session, &result, json!({"content": {"ok": "maybe"}})).await;
    assert!(wrong["isError"] == true && text(&wrong).contains("ok"), "{wrong}");
    let taken = answered(&session, &result, accepted()).await;
    assert_eq!(taken["isError"], false, "{taken}");
    let task = instruction(&result, "task_answer")["task_id"].as_str().expect("an id").to_owned();
    let done = collect(&session, &task).await;
    assert_eq!(done["content"][1]["text"], json!([{"deploy": accepted()}]).to_string(), "{done}");
}

/// Only a person may allow what the host itself asks about.
#[tokio::test]
async fn task_answer_refuses_the_questions_of_the_host() {
    let (_host, session, result) = asked().await;
    let key = json!({"key": "host:permission:http"});
    let refused = answered(&session, &result, key).await;
    assert!(refused["isError"] == true && text(&refused).contains("Only the user"), "{refused}");
}
