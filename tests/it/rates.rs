//! Rate limits (T-42), per principal and per tool: the host rejects with 429 and `Retry-After` before it does
//! anything. The rates are a few an hour, so that even a slow machine does not refill them meanwhile.

use crate::authentication::knock_by;
use crate::authority::{both, post};
use serde_json::{Value, json};
use toolyard_tests::http::Answer;
use toolyard_tests::{Host, Session, Setup, token, until};

async fn host(rates: &[(&str, &str)]) -> Host {
    let setup = Setup::probe().principals(&["alice", "bob"]);
    let with_rate = |setup: Setup, (key, rate): &(&str, &str)| setup.set(&format!("rates.{key}"), rate);
    rates.iter().fold(setup, with_rate).start().await
}

/// Checks a rejection; returns the limit that it names.
async fn too_often(answer: Answer) -> String {
    assert_eq!(answer.status, 429);
    let seconds: u64 = answer.header("retry-after").parse().expect("seconds");
    assert!((1..=3600).contains(&seconds), "{seconds}");
    let body = answer.json().await;
    assert_eq!(body["error"]["code"], -32603, "{body}");
    let wait = body["error"]["data"]["retryAfterMs"].as_u64().expect("milliseconds");
    assert!(wait.div_ceil(1000) == seconds, "{body} against {seconds} s");
    body["error"]["data"]["limit"].as_str().expect("a limit").to_owned()
}

fn echo() -> Value {
    json!({"name": "echo", "arguments": {"text": "x"}})
}

fn nap() -> Value {
    json!({"name": "wait", "arguments": {"ms": 1}})
}

fn task() -> Value {
    json!({"name": "wait", "arguments": {"ms": 1}, "task": {}})
}

#[tokio::test]
async fn t_42_calls_tasks_and_polls_have_rates_of_their_own_also_in_a_batch() {
    let host = host(&[("calls", "3/h"), ("creation", "2/h"), ("polling", "4/h")]).await;
    let (alice, bob) = both(&host).await;
    for _ in 0..3 {
        assert_eq!(post(&alice, "tools/call", echo()).await.status, 200);
    }
    assert_eq!(too_often(post(&alice, "tools/call", echo()).await).await, "rates.calls");
    let first = alice.create("wait", json!({"ms": 1})).await;
    alice.create("wait", json!({"ms": 1})).await;
    assert_eq!(too_often(post(&alice, "tools/call", task()).await).await, "rates.creation");
    for _ in 0..4 {
        alice.task(&first).await;
    }
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        let refused = post(&alice, method, json!({"taskId": first})).await;
        assert_eq!(too_often(refused).await, "rates.polling", "{method}");
    }
    // All others continue, and alice may still send requests without a rate limit.
    assert_eq!(post(&bob, "tools/call", echo()).await.status, 200);
    assert_eq!(post(&alice, "tools/list", json!({})).await.status, 200);
    // Another session of hers does not reset the limit.
    let again = host.session_of("alice").await;
    assert_eq!(too_often(post(&again, "tools/call", echo()).await).await, "rates.calls");
    // The rejected requests had no effect.
    assert_eq!(host.lines(&["tasks", "list", "--json"]).await.len(), 2);
    // Members of a batch are counted one by one.
    let token = token("bob");
    let session = Session::open_by(host.port(), "2025-03-26", json!({}), Some(&token)).await.session;
    let call = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": echo()});
    let answer = session.post(&json!([call(1), call(2), call(3), call(4)])).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json().await;
    let refused = answers.as_array().expect("answers").iter().filter(|answer| answer.get("error").is_some());
    assert_eq!(refused.count(), 2, "{answers}");
}

#[tokio::test]
async fn t_42_requests_of_any_kind_and_sessions_have_rates() {
    let one = host(&[("requests", "6/h")]).await;
    // Two requests open the session.
    let alice = one.session_of("alice").await;
    for _ in 0..4 {
        assert_eq!(post(&alice, "ping", json!({})).await.status, 200);
    }
    for refused in [post(&alice, "ping", json!({})).await, alice.get(None).await] {
        assert_eq!(too_often(refused).await, "rates.requests");
    }
    let other = host(&[("sessions", "2/h")]).await;
    let (_alice, _bob) = both(&other).await;
    other.session_of("alice").await;
    let third = knock_by(&other, &token("alice")).await;
    assert_eq!(too_often(third).await, "rates.sessions");
}

#[tokio::test]
async fn t_42_t_43_who_looks_up_too_much_that_is_not_there_is_stopped_and_reported() {
    let host = host(&[("failed-lookups", "3/h")]).await;
    let (alice, bob) = both(&host).await;
    let mine = alice.create("wait", json!({"ms": 1})).await;
    let unknown = json!({"taskId": "00000000-0000-4000-8000-000000000000"});
    for _ in 0..4 {
        let answer = post(&alice, "tasks/get", unknown.clone()).await;
        assert_eq!(answer.json().await["error"]["message"], "Task not found");
    }
    assert_eq!(too_often(post(&alice, "tasks/get", unknown.clone()).await).await, "rates.failed-lookups");
    // For a while she can look up no task, not even her own.
    let own = post(&alice, "tasks/get", json!({"taskId": mine})).await;
    assert_eq!(too_often(own).await, "rates.failed-lookups");
    assert_eq!(post(&bob, "tasks/get", unknown).await.status, 200);
    let reports = host.log().lines().filter(|line| line.contains("rates.failed-lookups")).count();
    assert_eq!(reports, 1, "one report, not one for each");
}

#[tokio::test]
async fn t_42_a_manifest_sets_how_often_a_tool_is_called_by_everybody_together() {
    let manifest = "[tools.wait]\nrate = \"3/h\"\n";
    let host = Setup::probe().manifest("probe", manifest).principals(&["alice", "bob"]).start().await;
    let (alice, bob) = both(&host).await;
    assert_eq!(post(&alice, "tools/call", nap()).await.status, 200);
    assert_eq!(post(&bob, "tools/call", task()).await.status, 200);
    assert_eq!(post(&bob, "tools/call", nap()).await.status, 200);
    for session in [&alice, &bob] {
        assert_eq!(too_often(post(session, "tools/call", nap()).await).await, "tools.NAME.rate");
        assert_eq!(too_often(post(session, "tools/call", task()).await).await, "tools.NAME.rate");
    }
    assert_eq!(post(&alice, "tools/call", echo()).await.status, 200);
    // A reload that changes something else does not reset the limit.
    let changed = format!("{manifest}description = \"Says it again.\"\n");
    std::fs::write(host.plugins().join("probe.toml"), changed).expect("a manifest");
    until("the new description", || async {
        alice.result("tools/list", json!({})).await.to_string().contains("Says it again.")
    })
    .await;
    assert_eq!(post(&alice, "tools/call", nap()).await.status, 429);
}
