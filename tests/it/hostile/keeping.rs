//! Clients that make the host keep as much data for them as possible. The test measures the host's memory
//! from outside.

use super::stage::Stage;
use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::{Connection, Session, Setup, guests};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn keeping() {
    let setup = Setup::new()
        .with(&[guests::fixture("script")])
        // The host answers with a stream if a call does not end at once.
        .set("wire.stream-after", "1ms")
        .set("wire.body-bytes", "48MiB")
        .set("wire.body-bytes-per-principal", "24MiB");
    let stage = Stage::open(setup).await;
    attacks!(stage;
        answers_for_clients_that_come_back, large_arguments_in_numbers,
    );
    stage.at_rest().await;
}

/// Takes large answers as resumable streams, in session after session.
async fn answers_for_clients_that_come_back(stage: &Stage) {
    let before = stage.host.usage().resident;
    let text = "x".repeat(6 << 20);
    for _ in 0..30 {
        let session = Session::open(stage.host.port()).await;
        let message = session.message("tools/call", json!({"name": "echo", "arguments": {"text": text}}));
        // Not validated against the schema: the validation takes longer than the attack.
        let mut connection = Connection::open(stage.host.port()).await.not_mcp();
        let answer = connection.send(Method::POST, "/mcp", &session.headers(), message.to_string()).await;
        assert_eq!(answer.status, 200);
        drop(answer.bytes().await);
    }
    let gained = stage.host.usage().resident.saturating_sub(before);
    assert!(gained < 200 * MIB, "{} MiB are kept", gained / MIB);
    eprintln!("answers_for_clients_that_come_back: {} MiB more", gained / MIB);
}

async fn large_arguments_in_numbers(stage: &Stage) {
    let (session, port) = (std::sync::Arc::new(Session::open(stage.host.port()).await), stage.host.port());
    let text = "x".repeat(7 << 20);
    let mut calls = tokio::task::JoinSet::new();
    let arguments = json!({"steps": [{"sleep": 2000}], "unused": text});
    for _ in 0..24 {
        let message = session.message("tools/call", json!({"name": "script", "arguments": arguments}));
        let (session, message) = (session.clone(), message.to_string());
        calls.spawn(async move {
            let mut connection = Connection::open(port).await.not_mcp();
            let answer = connection.try_send(Method::POST, "/mcp", &session.headers(), message).await?;
            let (status, retry) = (answer.status.as_u16(), answer.header("retry-after").to_owned());
            let answer = if answer.is_events() { Value::Null } else { answer.try_json().await? };
            Some((status, retry, answer))
        });
    }
    let answers = calls.join_all().await;
    // A client whose connection closes in the middle of a body may not receive the reason.
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let served = answers.iter().filter(|(status, ..)| *status == 200).count();
    let refused: Vec<_> = answers.iter().filter(|(status, ..)| *status == 503).collect();
    assert!((1..=3).contains(&served), "{served} were served");
    for (_, retry, answer) in &refused {
        assert!(!retry.is_empty());
        assert_eq!(answer["error"]["data"]["limit"], "wire.body-bytes-per-principal", "{answer}");
    }
    eprintln!("large_arguments_in_numbers: {served} served, {} refused", refused.len());
}
