//! The view that an operator has of tasks that resume, and the retention of their journals.

use crate::audit::log;
use crate::command_line::{err, out};
use crate::resume::{RESUME, setup};
use serde_json::{Value, json};
use toolyard_tests::{Host, Session, eventually, until};

async fn metric(host: &Host, series: &str) -> u64 {
    host.metric(series).await.unwrap_or_else(|| panic!("no {series}"))
}

async fn shown(host: &Host, id: &str) -> Value {
    let shown = host.command(&["tasks", "show", id, "--json"]).await;
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    serde_json::from_str(&out(&shown)).expect("JSON")
}

/// The entries of a journal, or the error.
async fn history(host: &Host, id: &str) -> Result<Vec<Value>, String> {
    let printed = host.command(&["tasks", "history", id, "--json"]).await;
    match printed.status.code() {
        Some(0) => Ok(out(&printed).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()),
        Some(1) => Err(err(&printed)),
        other => panic!("{other:?}: {}", err(&printed)),
    }
}

async fn parked(host: &Host, session: &Session) -> String {
    let id = session.create("chances", json!({"rounds": 1, "ask": true})).await;
    session.until(&id, "input_required").await;
    until("the task to be parked", || async { host.runs().await == 0 }).await;
    id
}

async fn answer(host: &Host, session: &Session, id: &str) {
    let answered = host.command(&["tasks", "answer", id, "--answer", "q0={\"n\":3}"]).await;
    assert!(answered.status.success(), "{}", err(&answered));
    session.until(id, "completed").await;
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
    let text = out(&host.command(&["tasks", "show", &id]).await);
    assert!(text.contains("parked  until 20"), "{text}");

    answer(&host, &session, &id).await;
    assert_eq!(metric(&host, "toolyard_tasks_parked").await, 0);
    assert_eq!(metric(&host, "toolyard_resumed_total{why=\"woken\"}").await, 1);
    assert_eq!(metric(&host, "toolyard_resumed_total{why=\"claimed\"}").await, 0);
    for counter in ["toolyard_journal_entries_total", "toolyard_journal_bytes_total"] {
        assert!(metric(&host, counter).await > 0, "{counter}");
    }
    let task = shown(&host, &id).await;
    assert_eq!((&task["parked"], &task["resumptions"]), (&Value::Null, &json!(1)), "{task}");

    let entries = history(&host, &id).await.expect("a journal");
    assert!(!json!(entries).to_string().contains("\"answers\""), "without --full there are no answers");
    let text = out(&host.command(&["tasks", "history", &id]).await);
    assert!(text.contains("ask       q0 elicitation/create") && text.contains("1 question; ended"), "{text}");
    let full = out(&host.command(&["tasks", "history", &id, "--full"]).await);
    assert!(full.lines().count() > text.lines().count(), "{full}");
}

#[tokio::test]
async fn a_task_without_a_journal_has_no_history_and_the_error_says_why() {
    let (host, session) = setup("").manifest("chances", "").open().await;
    let id = session.complete("chances", json!({"rounds": 1})).await;
    let error = history(&host, &id).await.expect_err("no journal");
    assert!(error.contains("has no journal") && error.contains("durability"), "{error}");
    assert_eq!(shown(&host, &id).await["resumes"], false);
    for unknown in ["2ea458c9-6286-4e89-800b-6666c78e6bb0", "nonsense"] {
        let error = history(&host, unknown).await.expect_err("unknown");
        assert!(error.contains(&format!("no task {unknown} in this store")), "{error}");
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
    let refused = eventually("a refusal", || async {
        let answer = session.request("tools/call", params.clone()).await;
        answer.get("error").cloned()
    });
    let refused = refused.await.to_string();
    assert!(refused.contains("Busy") && refused.contains("tasks.journals"), "{refused}");
    eventually("the journal of the ended task to go", || async { history(&host, &ended).await.err() }).await;
    assert!(host.log().contains("journal.removed_early"), "{}", host.log());
    for (owner, live) in &lives {
        assert_eq!(owner.task(live).await["status"], "working");
        owner.result("tasks/cancel", json!({"taskId": live})).await;
    }
    eventually("room for another task", || async {
        let answer = session.request("tools/call", params.clone()).await;
        answer.get("result").cloned()
    })
    .await;
}

/// The operator has changed the manifest, and changes it back.
#[tokio::test]
async fn a_task_that_could_not_be_resumed_continues_once_the_operator_says_so() {
    let (host, session) = setup("").open_as(json!({"elicitation": {}})).await;
    let id = parked(&host, &session).await;
    let resume = async |host: &Host| host.command(&["tasks", "resume", &id]).await;
    let refused = resume(&host).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("only a task that failed because it stalled or diverged"),
        "{}",
        err(&refused)
    );
    let manifest = host.plugins().join("chances.toml");
    let mut host = host;
    host.kill().await;
    std::fs::write(&manifest, "").expect("written");
    let host = host.another().await;
    let session = session.at(host.port());
    let answered = host.command(&["tasks", "answer", &id, "--answer", "q0={\"n\":3}"]).await;
    assert!(answered.status.success(), "{}", err(&answered));
    let failed = session.until(&id, "failed").await;
    assert!(failed["statusMessage"].to_string().contains("does not say `durability"), "{failed}");

    std::fs::write(&manifest, RESUME).expect("written");
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    let resumed = resume(&host).await;
    assert!(resumed.status.success(), "{}", err(&resumed));
    session.until(&id, "completed").await;
    let actions: Vec<_> = log(&host).into_iter().map(|entry| entry["action"].clone()).collect();
    assert!(actions.contains(&json!("task.resumed")), "{actions:?}");
    assert_eq!(resume(&host).await.status.code(), Some(1));
}
