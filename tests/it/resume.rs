//! Tasks that resume: a task continues where it was when its host died, and waits without a run (A9).

use crate::audit::log;
use serde_json::{Value, json};
use toolyard_tests::exchange::{next_of, outcome};
use toolyard_tests::{Host, Session, Setup, Sink, eventually, until};

pub const RESUME: &str = "[task]\ndurability = \"resume\"\n";

/// A setup with a tool that resumes, and more in its manifest.
pub fn setup(manifest: &str) -> Setup {
    Setup::fixture("chances", &format!("{RESUME}{manifest}")).set("admin.listen", "127.0.0.1:0")
}

/// The part of a manifest that lets the tool send requests to the sink.
fn http(sink: &Sink, more: &str) -> String {
    format!("[http]\nallow = [\"127.0.0.1:{}\"]\n{more}\n", sink.port())
}

async fn seen(session: &Session, id: &str) -> Vec<Value> {
    session.until(id, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    outcome(&result).as_array().expect("a list").clone()
}

/// The guest that would see a refusal of the host would not repeat its run when there is memory again.
#[tokio::test]
async fn tasks_that_together_need_more_memory_than_the_host_has_wait_for_each_other() {
    let (host, session) = setup("").set("calls.memory", "100MiB").open_as(json!({})).await;
    let steps = json!({"steps": [{"random": 1}, {"hostSleep": 300}, {"grow": 40}, {"hostSleep": 300}]});
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(session.create("chances", steps.clone()).await);
    }
    until("a task to wait for memory", || async {
        session.result("tasks/list", json!({})).await.to_string().contains("for memory")
    })
    .await;
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    for id in &tasks {
        assert_eq!(seen(&session, id).await[2], json!(true));
    }
}

/// The owner is known by a token, so that any of his sessions finds the task (C2).
#[tokio::test]
async fn a_waiting_question_reaches_a_later_session_on_its_stream_and_by_asking_about_the_task() {
    for asks_first in [true, false] {
        let host = setup("").principals(&["ann"]).start().await;
        let open = async |host: &Host| host.session_as("ann", json!({"elicitation": {}})).await;
        let id = open(&host).await.create("chances", json!({"rounds": 1, "ask": true})).await;
        let host = host.killed_and_restarted().await;
        let session = open(&host).await;
        // With a stream before the host has found the question again, or after.
        let mut stream = if asks_first { Some(session.listen().await) } else { None };
        session.until(&id, "input_required").await;
        let stream = match &mut stream {
            Some(stream) => stream,
            none => none.insert(session.listen().await),
        };
        let question = next_of(stream, "elicitation/create").await;
        session.respond(&question, json!({"action": "accept", "content": {"n": 3}})).await;
        assert!(seen(&session, &id).await[0]["answer"].to_string().contains("accept"));
    }
}

#[tokio::test]
async fn a_key_is_used_for_one_request_of_a_task_whatever_runs_it_has() {
    let sink = Sink::start().await;
    let (_host, session) = setup(&http(&sink, "idempotency-key = true")).open().await;
    let id = session.create("chances", json!({"parts": 3, "port": sink.port()})).await;
    session.until(&id, "completed").await;
    let steps = sink.steps()["parts"].clone();
    let keys: Vec<_> = steps.into_iter().map(|step| step.idempotency_key.expect("a key")).collect();
    let expected: Vec<String> = (1..=6).map(|number| format!("{id}:{number}")).collect();
    assert_eq!(keys, expected);
}

/// The other words of the manifest are in `crash/resume.rs` and in the tests of the engine.
#[tokio::test]
async fn a_request_in_doubt_is_sent_again_once_the_operator_says_so() {
    let sink = Sink::start().await;
    let manifest = http(&sink, "in-doubt = \"ask\"");
    let (host, session) = setup(&manifest).open_as(json!({"elicitation": {}})).await;
    sink.hold();
    let id = session.create("chances", json!({"rounds": 1, "port": sink.port(), "key": "k"})).await;
    let request = format!("POST http://127.0.0.1:{}/begun/k/0", sink.port());
    sink.begun("k", 1).await;
    let mut host = host.killed_and_restarted().await;
    let mut session = session.at(host.port());
    // Each doubt is another question.
    for sent in 1..=2 {
        session.until(&id, "input_required").await;
        assert_eq!(sink.of("k").begun.len(), sent, "nothing is sent before the answer");
        let answer = format!("host:doubt:1:{}={{\"decision\":\"resend\"}}", sent - 1);
        host.prints(&["tasks", "answer", &id, "--answer", &answer]).await;
        sink.begun("k", sent + 1).await;
        if sent == 1 {
            host = host.killed_and_restarted().await;
            session = session.at(host.port());
        }
    }
    sink.release();
    assert!(seen(&session, &id).await[0].to_string().contains("204"));
    assert_eq!(sink.of("k").begun.len(), 3);
    let counted = host.metric("toolyard_doubt_total{decision=\"resend\"}").await;
    assert!(counted >= Some(1), "{counted:?}");
    let doubt = || async { log(&host).into_iter().find(|entry| entry["action"] == "task.doubt") };
    let entry = eventually("the entry", doubt).await;
    assert_eq!((&entry["decision"], &entry["reason"]), (&json!("resend"), &json!("person")), "{entry}");
    assert_eq!((&entry["request"], &entry["task"]), (&json!(request), &json!(id)), "{entry}");
    let timeline = host.prints(&["tasks", "show", &id, "--timeline"]).await;
    assert!(timeline.contains("was under way when the host stopped"), "{timeline}");
}
