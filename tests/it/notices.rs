//! Messages to a client besides answers: progress, status, logs (P-*, T-37 to T-39, G-*), and that they stop
//! after a cancellation (C-*).

use crate::questions::{RELATED, scripted};
use serde_json::{Value, json};
use toolyard_tests::Session;
use toolyard_tests::exchange::{next, next_of};

fn log(level: &str, data: &str) -> Value {
    json!({"log": {"level": level, "logger": "script", "data": data}})
}

/// The levels of the log messages among these messages.
fn levels(messages: &[Value]) -> Vec<&str> {
    let logs = messages.iter().filter(|message| message["method"] == "notifications/message");
    logs.filter_map(|message| message["params"]["level"].as_str()).collect()
}

const ALL: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

async fn logged(session: &Session, steps: &[Value]) -> Vec<Value> {
    let params = json!({"name": "script", "arguments": {"steps": steps}});
    session.request_and_notices("tools/call", params).await.1
}

#[tokio::test]
async fn g_1_g_2_the_level_is_set_per_session_and_outlives_a_restart() {
    let (host, session) = scripted().open().await;
    let steps: Vec<Value> = ALL.iter().map(|level| log(level, "x")).collect();
    let other = Session::open(host.port()).await;
    assert_eq!(levels(&logged(&session, &steps).await), ALL[1..], "before any is set: info and above");
    for (index, level) in ALL.iter().enumerate() {
        assert_eq!(session.result("logging/setLevel", json!({"level": level})).await, json!({}), "J-9");
        assert_eq!(levels(&logged(&session, &steps).await), ALL[index..], "{level}");
    }
    assert_eq!(levels(&logged(&other, &steps).await), ALL[1..], "another session has its own");
    for wrong in [json!({"level": "loud"}), json!({"level": 3}), json!({})] {
        assert_eq!(session.error("logging/setLevel", wrong).await["code"], -32602);
    }
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    assert_eq!(levels(&logged(&session, &steps).await), ["emergency"]);
}

#[tokio::test]
async fn t_37_the_status_of_a_task_is_told_on_creation_and_at_each_change_to_its_own_session_only() {
    let (host, session) = scripted().open().await;
    let stranger = Session::open(host.port()).await;
    let mut theirs = stranger.listen().await;
    let mut listening = session.listen().await;
    let task = session.create_script(json!([{"status": "half"}, {"sleep": 400}])).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|last: &Value| last["status"] != "completed") {
        let notice = next(&mut listening).await.expect("the stream stays open");
        assert_eq!(notice["method"], "notifications/tasks/status", "{notice}");
        told.push(notice["params"].clone());
    }
    assert!(told.iter().all(|status| status["taskId"] == task && status.get("_meta").is_none()), "{told:?}");
    assert_eq!(told[0]["status"], "working");
    assert!(told.iter().any(|status| status["statusMessage"] == "half"), "{told:?}");
    let keys = told[0].as_object().expect("an object").keys().filter(|name| *name != "statusMessage");
    let whole = ["createdAt", "lastUpdatedAt", "pollInterval", "status", "taskId", "ttl"];
    assert!(keys.eq(&whole), "a whole task: {told:?}");
    // Also of a cancel that came from elsewhere.
    let task = session.create_script(json!([{"sleep": 600_000}])).await;
    host.prints(&["tasks", "cancel", &task]).await;
    while next(&mut listening).await.expect("open")["params"]["status"] != "cancelled" {}
    // The stranger received none of it: its next message is its own.
    let own = stranger.create_script(json!([])).await;
    assert_eq!(next(&mut theirs).await.expect("its own")["params"]["taskId"], own);
}

#[tokio::test]
async fn p_1_p_2_t_38_t_39_what_a_task_says_names_it_and_ends_with_it() {
    let (_host, session) = scripted().open().await;
    let messages = logged(&session, &[json!({"progress": {"progress": 1.0}}), json!({"sleep": 300})]).await;
    assert_eq!(messages, [Value::Null; 0], "P-1: there is no progress without a token");
    let mut steps = vec![log("error", "x")];
    steps.extend((0..200).flat_map(|step| [json!({"progress": {"progress": step}}), json!({"sleep": 20})]));
    let mut listening = session.listen().await;
    let call =
        json!({"name": "script", "arguments": {"steps": steps}, "task": {}, "_meta": {"progressToken": "p"}});
    let task = session.result("tools/call", call).await["task"]["taskId"].take();
    for method in ["notifications/message", "notifications/progress"] {
        let notice = next_of(&mut listening, method).await;
        assert_eq!(notice["params"]["_meta"][RELATED]["taskId"], task, "{notice}");
    }
    session.result("tasks/cancel", json!({"taskId": task})).await;
    while next(&mut listening).await.expect("open")["params"]["status"] != "cancelled" {}
    let other = session.create_script(json!([])).await;
    assert_eq!(next(&mut listening).await.expect("open")["params"]["taskId"], other, "P-2, T-39");
}
