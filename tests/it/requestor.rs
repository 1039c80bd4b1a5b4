//! The host as requestor (Q-*): a client runs the host's questions as tasks of its own.

use crate::questions::{RELATED, accepted, form, scripted};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolyard_tests::exchange::{Exchange, outcome};
use toolyard_tests::{Host, Session, Setup};

/// The client's name for its task.
const THEIRS: &str = "their-Y";

fn runs_tasks() -> Value {
    json!({"elicitation": {}, "sampling": {}, "tasks": {"cancel": {},
        "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}})
}

fn their_task(status: &str) -> Value {
    json!({"taskId": THEIRS, "status": status, "ttl": 60_000, "pollInterval": 20,
        "createdAt": "2025-11-25T10:31:00Z", "lastUpdatedAt": "2025-11-25T10:31:00Z"})
}

/// A plain call, and its question.
async fn asking(setup: Setup) -> (Host, Session, Exchange, Value) {
    let (host, session) = setup.open_as(runs_tasks()).await;
    let mut call = session.begin_script(json!([{"ask": [form("a")]}])).await;
    let asked = call.message().await;
    (host, session, call, asked)
}

/// A plain call whose question the client has accepted as a task.
async fn entrusted() -> (Host, Session, Exchange, Value) {
    let (host, session, call, asked) = asking(scripted()).await;
    session.respond(&asked, json!({"task": their_task("working")})).await;
    (host, session, call, asked)
}

#[tokio::test]
async fn q_1_q_4_q_5_the_task_is_made_polled_in_its_clients_interval_and_fetched() {
    const INTERVAL: Duration = Duration::from_millis(700);
    // If the client needs input itself, the host asks for its result at once.
    for statuses in [&["working", "completed"][..], &["input_required"]] {
        let (_host, session, mut call, asked) = entrusted().await;
        assert!(asked["params"]["task"]["ttl"].as_u64().is_some_and(|ttl| ttl > 0), "Q-1: {asked}");
        assert_eq!(asked["params"]["message"], "Deploy?");
        // the host does not rely on a status that the client sends.
        session.notify("notifications/tasks/status", their_task("completed")).await;
        let mut told = None::<Instant>;
        for status in statuses {
            let poll = call.message().await;
            assert!(told.is_none_or(|told| told.elapsed() >= INTERVAL), "Q-4: asked early: {poll}");
            assert_eq!(poll["method"], "tasks/get");
            assert_eq!(poll["params"], json!({"taskId": THEIRS}), "T-38: no related-task here");
            let mut task = their_task(status);
            task["pollInterval"] = json!(700);
            told = Some(Instant::now());
            session.respond(&poll, task).await;
        }
        let mut result = accepted();
        result["_meta"] = json!({RELATED: {"taskId": THEIRS}});
        let fetch = call.message().await;
        assert_eq!((&fetch["method"], &fetch["params"]["taskId"]), (&json!("tasks/result"), &json!(THEIRS)));
        session.respond(&fetch, result.clone()).await;
        let (answer, rest) = call.answer().await;
        assert_eq!(outcome(&answer["result"]), json!([{"a": result}]));
        assert!(rest.is_empty(), "Q-7, Q-8: nothing is cancelled or listed: {rest:?}");
    }
}

#[tokio::test]
async fn q_5_q_9_q_11_an_error_about_the_clients_task_and_nonsense_are_no_answer_and_nothing_hangs() {
    for nonsense in [
        None,
        Some(json!({"taskId": THEIRS, "status": "paused"})),
        Some(json!({"taskId": "another", "status": "completed"})),
        Some(json!({"status": "completed"})),
        Some(json!("completed")),
    ] {
        let (_host, session, mut call, _) = entrusted().await;
        let poll = call.message().await;
        match &nonsense {
            None => session.refuse(&poll, -32602, "gone").await,
            Some(nonsense) => session.respond(&poll, nonsense.clone()).await,
        }
        let (answer, rest) = call.answer().await;
        assert!(outcome(&answer["result"])[0]["a"]["refused"]["code"].is_i64(), "{nonsense:?}: {answer}");
        assert!(nonsense.is_some() || rest.is_empty(), "what is gone is not cancelled: {rest:?}");
    }
    let (_host, session, mut call, _) = entrusted().await;
    let poll = call.message().await;
    session.respond(&poll, their_task("failed")).await;
    let fetch = call.message().await;
    assert_eq!(fetch["method"], "tasks/result");
    session.refuse(&fetch, -1, "gone").await;
    assert_eq!(call.outcome().await[0]["a"]["refused"]["code"], -1);
}

#[tokio::test]
async fn q_7_a_client_task_that_is_no_longer_wanted_is_cancelled_as_a_task() {
    let (_host, session, mut call, asked) = entrusted().await;
    let poll = call.message().await;
    session.notify("notifications/cancelled", json!({"requestId": call.id})).await;
    let rest = call.rest().await;
    let cancel = rest.iter().find(|message| message["method"] == "tasks/cancel").expect("it is cancelled");
    assert_eq!(cancel["params"]["taskId"], THEIRS);
    assert_ne!(poll["id"], asked["id"]);
    let mut withdrawn = rest.iter().filter(|message| message["method"] == "notifications/cancelled");
    assert!(withdrawn.all(|notice| notice["params"]["requestId"] == poll["id"]), "C-6: {rest:?}");
}

#[tokio::test]
async fn q_7_q_9_a_client_task_that_takes_too_long_is_cancelled_and_the_guest_told() {
    let (_host, session, mut call, asked) = asking(scripted().set("questions.wait", "400ms")).await;
    assert!(asked["params"]["task"]["ttl"].as_u64().is_some_and(|ttl| ttl <= 400), "no longer than we wait");
    session.respond(&asked, json!({"task": their_task("working")})).await;
    let mut methods = Vec::new();
    let came = loop {
        let message = call.message().await;
        match message["method"].as_str() {
            Some("tasks/get") => session.respond(&message, their_task("working")).await,
            Some(method) => methods.push(method.to_owned()),
            None => break outcome(&message["result"]),
        }
    };
    assert_eq!(came, json!([{"a": "timed-out"}]));
    assert!(methods.contains(&"tasks/cancel".to_owned()), "{methods:?}");
}

#[tokio::test]
async fn q_10_q_12_a_task_of_ours_waits_for_a_task_of_theirs_of_the_same_name() {
    let (_host, session) = scripted().open_as(runs_tasks()).await;
    let ours = session.create_script(json!([{"ask": [form("a")]}])).await;
    let mut wait = session.begin("tasks/result", json!({"taskId": ours})).await;
    let asked = wait.next_of("elicitation/create").await;
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], ours, "Q-10: the creation carries our task");
    // The client may give its task the id of the host's task: each side has its own ids.
    let same_name = |status: &str| {
        let mut task = their_task(status);
        task["taskId"] = json!(ours);
        task
    };
    session.respond(&asked, json!({"task": same_name("working")})).await;
    let poll = wait.next_of("tasks/get").await;
    assert_eq!(poll["params"], json!({"taskId": ours}));
    // Meanwhile the host's own task has its own status.
    assert_eq!(session.task(&ours).await["status"], "input_required");
    session.respond(&poll, same_name("completed")).await;
    let fetch = wait.next_of("tasks/result").await;
    assert_eq!(session.task(&ours).await["status"], "input_required");
    session.respond(&fetch, accepted()).await;
    assert_eq!(wait.outcome().await, json!([{"a": accepted()}]));
    assert_eq!(session.task(&ours).await["status"], "completed");
    // The host does not know the client's task.
    assert_eq!(session.error("tasks/get", json!({"taskId": THEIRS})).await["code"], -32602);
}
