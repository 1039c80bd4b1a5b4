//! Tasks that resume: a task continues where it was when its host died, and waits without a run.

use serde_json::{Value, json};
use std::time::Duration;
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, eventually, guests};

async fn resuming() -> (Host, Session) {
    let setup = Setup::new().with(&[guests::fixture("chances")]).set("admin.listen", "127.0.0.1:0");
    let setup = setup.manifest("chances", "[task]\ndurability = \"resume\"");
    setup.open_as(json!({"elicitation": {}})).await
}

async fn seen(session: &Session, id: &str) -> Vec<Value> {
    session.until(id, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    let text = result["content"][0]["text"].as_str().expect("text");
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn a_task_whose_host_was_killed_continues_from_where_it_was() {
    let (host, session) = resuming().await;
    let id = session.create("chances", json!({"rounds": 12, "hostSleep": 400})).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    let message = eventually("the message", || async {
        let message = session.task(&id).await["statusMessage"].as_str().map(str::to_owned);
        message.filter(|message| message.contains("continues from where it was"))
    });
    message.await;
    let rounds = seen(&session, &id).await;
    assert_eq!(rounds.len(), 12);
    let times: Vec<u64> = rounds.iter().map(|round| round["now"].as_u64().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    // Those before the kill are from the journal.
    let attempts: Vec<_> = rounds.iter().map(|round| &round["info"]["attempt"]).collect();
    assert_eq!((attempts[0], attempts[11]), (&json!(1), &json!(2)), "{attempts:?}");
}

#[tokio::test]
async fn a_task_that_waits_for_an_answer_has_no_run_and_is_answered_after_a_restart() {
    let (host, session) = resuming().await;
    let id = session.create("chances", json!({"rounds": 1, "ask": true})).await;
    session.until(&id, "input_required").await;
    eventually("the run to end", || async { (host.runs().await == 0).then_some(()) }).await;
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    let answer = "q0={\"n\":3}";
    let answered = host.command(&["tasks", "answer", &id, "--answer", answer]).await;
    assert!(answered.status.success(), "{}", String::from_utf8_lossy(&answered.stderr));
    let rounds = seen(&session, &id).await;
    assert!(rounds[0]["answer"].to_string().contains("accept"), "{rounds:?}");
}

#[tokio::test]
async fn a_task_that_sleeps_for_long_has_no_run_until_its_time() {
    let (host, session) = resuming().await;
    let id = session.create("chances", json!({"rounds": 1, "hostSleep": 8000})).await;
    eventually("the run to end", || async { (host.runs().await == 0).then_some(()) }).await;
    assert_eq!(session.task(&id).await["status"], "working");
    assert_eq!(seen(&session, &id).await.len(), 1);
}
