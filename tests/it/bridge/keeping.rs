//! Calls whose caller stopped waiting, and tasks that another session finds.

use super::clients::{FIRST_TYPESCRIPT, SECOND_TYPESCRIPT};
use super::{drive, is_full, order, scaled, setup};
use crate::clients::{Client, runs};
use serde_json::{Value, json};
use toolyard_tests::{Host, Session, Setup, Sink, eventually, token};

/// A host for Alice, who finds her tasks from every session.
fn setup_for_alice(sink: &Sink) -> Setup {
    setup(sink).principals(&["alice"]).set("bridge.grace", "2s").set("bridge.after", "60s")
}

async fn alice(host: &Host) -> Session {
    host.session_of("alice").await
}

/// Alice's tasks. The request makes its session task-aware, so it uses a separate session.
async fn tasks(host: &Host) -> Vec<Value> {
    let listed = alice(host).await.result("tasks/list", json!({})).await;
    listed["tasks"].as_array().expect("tasks").clone()
}

async fn a_timeout_keeps_the_run(client: &Client, mode: &[&str]) {
    let Some(client) = client.installed() else { return };
    let sink = Sink::start().await;
    let host = setup_for_alice(&sink).start().await;
    let arguments = order(&sink, "k", 6_000);
    let params = json!({"name": "slow", "arguments": arguments, "timeout": 3_000});
    drive(client, &host, mode, &params, Some(&token("alice"))).await;
    let kept = eventually("the kept task", || async { tasks(&host).await.pop() }).await;
    let message = kept["statusMessage"].as_str().unwrap_or_default();
    assert!(message.ends_with("(its caller stopped waiting)"), "{kept}");

    let joined = alice(&host).await.call("slow", arguments).await;
    assert_eq!(joined["structuredContent"]["key"], "k", "{joined}");
    assert_eq!(sink.of("k").begun, [1], "an equal call joins the run");
}

runs! {
    a_timeout_of_the_typescript_client_keeps_the_run =>
        a_timeout_keeps_the_run(&FIRST_TYPESCRIPT, &["timesOut"]);
    #[ignore = "nightly: clients"]
    a_timeout_of_the_second_typescript_client_keeps_the_run =>
        a_timeout_keeps_the_run(&SECOND_TYPESCRIPT, &["legacy", "timesOut"]);
}

/// Cancels before and after `bridge.grace`: the client gives a reason, so the age does not matter.
async fn a_person_stops_the_run(client: &Client, mode: &[&str]) {
    let Some(client) = client.installed() else { return };
    let sink = Sink::start().await;
    let host = setup_for_alice(&sink).start().await;
    let metrics = format!("http://127.0.0.1:{}/metrics", host.admin());
    for after in [500, scaled(30_000)] {
        let arguments = json!({"ms": 600_000});
        let params = json!({"name": "spin", "arguments": arguments, "after": after, "metrics": metrics});
        let summary = drive(client, &host, mode, &params, Some(&token("alice"))).await;
        let most = if is_full() { 50.0 } else { 1_000.0 };
        assert!(summary["stopped"].as_f64().is_some_and(|stopped| stopped < most), "{summary}");
        assert!(tasks(&host).await.is_empty(), "nothing is kept");
    }
}

runs! {
    a_person_stops_the_run_with_the_typescript_client =>
        a_person_stops_the_run(&FIRST_TYPESCRIPT, &["aborts"]);
    #[ignore = "nightly: clients"]
    a_person_stops_the_run_with_the_second_typescript_client =>
        a_person_stops_the_run(&SECOND_TYPESCRIPT, &["legacy", "aborts"]);
    #[ignore = "nightly: clients"]
    a_person_stops_the_run_without_a_session =>
        a_person_stops_the_run(&SECOND_TYPESCRIPT, &["auto", "aborts"]);
}
