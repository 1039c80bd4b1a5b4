//! The view that an operator has of tasks that resume, and the retention of their journals.

use crate::audit::log;
use crate::resume::{RESUME, setup};
use serde_json::{Value, json};
use toolyard_tests::{Host, Session, eventually, until};

async fn metric(host: &Host, series: &str) -> u64 {
    host.metric(series).await.unwrap_or_else(|| panic!("no {series}"))
}

async fn shown(host: &Host, id: &str) -> Value {
    host.lines(&["tasks", "show", id, "--json"]).await.remove(0)
}

async fn parked(host: &Host, session: &Session) -> String {
    let id = session.create("chances", json!({"rounds": 1, "ask": true})).await;
    session.until(&id, "input_required").await;
    until("the task to be parked", || async { host.runs().await == 0 }).await;
    id
}

#[tokio::test]
async fn a_parked_task_is_counted_shown_and_has_a_history() {
    let (host, session) = setup("").open_as(json!({"elicitation": {}})).await;
    let id = parked(&host, &session).await;
    assert_eq!(metric(&host, "toolyard_tasks_parked").await, 1);
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    assert_eq!(metric(&host, "toolyard_tasks_parked").await, 1, "the store counts, not the host");
    let task = shown(&host, &id).await;
    assert_eq!((&task["resumes"], &task["resumptions"]), (&json!(true), &json!(0)), "{task}");
    assert!(task["parked"]["until"].is_string(), "the deadline of the question: {task}");
    let text = host.prints(&["tasks", "show", &id]).await;
    assert!(text.contains("parked  until 20"), "{text}");

    host.prints(&["tasks", "answer", &id, "--answer", "q0={\"n\":3}"]).await;
    session.until(&id, "completed").await;
    assert_eq!(metric(&host, "toolyard_tasks_parked").await, 0);
    assert_eq!(metric(&host, "toolyard_resumed_total{why=\"woken\"}").await, 1);
    assert_eq!(metric(&host, "toolyard_resumed_total{why=\"claimed\"}").await, 0);
    for counter in ["toolyard_journal_entries_total", "toolyard_journal_bytes_total"] {
        assert!(metric(&host, counter).await > 0, "{counter}");
    }
    let task = shown(&host, &id).await;
    assert_eq!((&task["parked"], &task["resumptions"]), (&Value::Null, &json!(1)), "{task}");

    let entries = host.lines(&["tasks", "history", &id, "--json"]).await;
    assert!(!json!(entries).to_string().contains("\"answers\""), "without --full there are no answers");
    let text = host.prints(&["tasks", "history", &id]).await;
    assert!(text.contains("ask       q0 elicitation/create") && text.contains("1 question; ended"), "{text}");
    let full = host.prints(&["tasks", "history", &id, "--full"]).await;
    assert!(full.lines().count() > text.lines().count(), "{full}");
}

#[tokio::test]
async fn a_task_without_a_journal_has_no_history_and_the_error_says_why() {
    let (host, session) = setup("").manifest("chances", "").open().await;
    let id = session.complete("chances", json!({"rounds": 1})).await;
    let error = host.refuses(&["tasks", "history", &id], 1, "has no journal").await;
    assert!(error.contains("durability"), "{error}");
    assert_eq!(shown(&host, &id).await["resumes"], false);
    for unknown in ["2ea458c9-6286-4e89-800b-6666c78e6bb0", "nonsense"] {
        let says = format!("no task {unknown} in this store");
        host.refuses(&["tasks", "history", unknown], 1, &says).await;
    }
}

#[tokio::test]
async fn over_the_bound_of_all_journals_ended_ones_go_and_live_ones_refuse_new_tasks() {
    let setup = setup("").set("tasks.journals", "256KiB");
    let (host, session) = setup.open_as(json!({"elicitation": {}})).await;
    let ended = session.complete("chances", json!({"rounds": 1})).await;
    // Of many owners, because one alone has a share.
    let mut lives = Vec::new();
    for _ in 0..12 {
        let owner = Session::open(host.port()).await;
        let live = owner.create("chances", json!({"rounds": 30_000, "hostSleep": 10})).await;
        lives.push((owner, live));
    }
    let params = json!({"name": "chances", "arguments": {"rounds": 1}, "task": {}});
    let call = async || session.request("tools/call", params.clone()).await;
    let refused = eventually("a refusal", || async { call().await.get("error").cloned() }).await.to_string();
    assert!(refused.contains("Busy") && refused.contains("tasks.journals"), "{refused}");
    let history = ["tasks", "history", &ended];
    let is_gone = || async { host.command(&history).await.status.code() == Some(1) };
    until("the journal of the ended task to go", is_gone).await;
    assert!(host.log().contains("journal.removed_early"), "{}", host.log());
    for (owner, live) in &lives {
        assert_eq!(owner.task(live).await["status"], "working");
        owner.result("tasks/cancel", json!({"taskId": live})).await;
    }
    until("room for another task", || async { call().await.get("result").is_some() }).await;
}

/// The operator has changed the manifest, and changes it back.
#[tokio::test]
async fn a_task_that_could_not_be_resumed_continues_once_the_operator_says_so() {
    let (host, session) = setup("").open_as(json!({"elicitation": {}})).await;
    let id = parked(&host, &session).await;
    let resume = ["tasks", "resume", &id];
    host.refuses(&resume, 1, "only a task that failed because it stalled or diverged").await;
    let manifest = host.plugins().join("chances.toml");
    let mut host = host;
    host.kill().await;
    std::fs::write(&manifest, "").expect("written");
    let host = host.another().await;
    let session = session.at(host.port());
    host.prints(&["tasks", "answer", &id, "--answer", "q0={\"n\":3}"]).await;
    let failed = session.until(&id, "failed").await;
    assert!(failed["statusMessage"].to_string().contains("does not say `durability"), "{failed}");

    std::fs::write(&manifest, RESUME).expect("written");
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    host.prints(&resume).await;
    session.until(&id, "completed").await;
    let actions: Vec<_> = log(&host).into_iter().map(|entry| entry["action"].clone()).collect();
    assert!(actions.contains(&json!("task.resumed")), "{actions:?}");
    host.refuses(&resume, 1, "").await;
}
