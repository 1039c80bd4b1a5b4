//! Limits of a run: each limit takes effect, is named in the error, and harms no other run.

use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::{Session, eventually, guests};

async fn limited(manifest: &str, tool: &str, arguments: Value) -> (Value, Value) {
    let host = Setup::new().with(&[guests::plugin("probe")]).manifest("probe", manifest).start().await;
    let session = Session::open(host.port()).await;
    let plain = session.call(tool, arguments.clone()).await;
    let id = session.create(tool, arguments).await;
    let task = session.until(&id, "failed").await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(session.call("echo", json!({"text": "x"})).await["isError"], false, "others are not harmed");
    (plain, task)
}

async fn bites(manifest: &str, tool: &str, arguments: Value, says: &[&str]) {
    let (plain, task) = limited(manifest, tool, arguments).await;
    assert_eq!(plain["isError"], true, "{plain}");
    let text = plain["content"][0]["text"].as_str().expect("text");
    let message = task["statusMessage"].as_str().expect("a message");
    for phrase in says {
        assert!(text.contains(phrase), "{phrase}: {text}");
        assert!(message.contains(phrase), "{phrase}: {message}");
    }
}

#[tokio::test]
async fn memory() {
    let manifest = "[limits]\nmemory = \"8MiB\"";
    let (plain, task) = limited(manifest, "grow", json!({"mib": 64})).await;
    assert_eq!(plain["isError"], true, "{plain}");
    let said = plain["content"].to_string();
    for phrase in ["8.0 MiB", "limits.memory"] {
        assert!(said.contains(phrase), "{phrase}: {said}");
        assert!(task["statusMessage"].as_str().expect("a message").contains(phrase), "{task}");
    }
}

#[tokio::test]
async fn cpu_time() {
    bites(
        "[limits]\ncpu = \"200ms\"",
        "spin",
        json!({"ms": 600_000}),
        &["processor time", "200", "limits.cpu"],
    )
    .await;
}

#[tokio::test]
async fn wall_time_of_a_guest_that_sleeps() {
    bites("[limits]\nwall = \"300ms\"", "wait", json!({"ms": 600_000}), &["300", "limits.wall"]).await;
}

#[tokio::test]
async fn wall_time_of_a_guest_that_computes() {
    bites("[limits]\nwall = \"300ms\"", "spin", json!({"ms": 600_000}), &["300", "limits.wall"]).await;
}

#[tokio::test]
async fn output() {
    bites("[limits]\noutput = \"1MiB\"", "flood", json!({"mib": 2}), &["1.0 MiB", "limits.output"]).await;
}

#[tokio::test]
async fn traps() {
    bites("", "trap", json!({}), &["trap", "unreachable"]).await;
}

#[tokio::test]
async fn a_big_result_passes_whole() {
    let host = Setup::new().with(&[guests::plugin("probe")]).start().await;
    let session = Session::open(host.port()).await;
    let plain = session.call("flood", json!({"mib": 4})).await;
    assert_eq!(plain["content"][0]["text"].as_str().expect("text").len(), 4 << 20);
    let id = session.create("flood", json!({"mib": 4})).await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"], plain["content"]);
}

#[tokio::test]
async fn the_stack() {
    let host = Setup::new().with(&[guests::fixture("stack")]).start().await;
    let session = Session::open(host.port()).await;
    for _ in 0..3 {
        assert_eq!(session.call("recurse", json!({})).await["isError"], true);
    }
}

#[tokio::test]
async fn nesting_of_what_a_guest_gives() {
    let host = Setup::new().with(&[guests::fixture("deep")]).start().await;
    let session = Session::open(host.port()).await;
    let result = session.call("deep", json!({"levels": 10_000})).await;
    assert_eq!(result["isError"], true, "{result}");
}

#[tokio::test]
async fn what_a_guest_prints_goes_to_the_log_in_bounds_and_never_to_the_client() {
    let host = Setup::new().with(&[guests::fixture("stdout")]).start().await;
    let session = Session::open(host.port()).await;
    let result = session.call("print", json!({"lines": 20_000})).await;
    assert_eq!(result["isError"], false, "{result}");
    let log = toolyard_tests::eventually("the log to have it", || async {
        let log = host.log();
        log.contains("print").then_some(log)
    })
    .await;
    assert!(log.len() < 1 << 20, "{} bytes", log.len());
}

#[tokio::test]
async fn concurrency_of_a_plugin() {
    let manifest = "[limits]\nconcurrency = 1";
    let host = Setup::new().with(&[guests::plugin("probe")]).manifest("probe", manifest).start().await;
    let session = Session::open(host.port()).await;
    let first = session.create("wait", json!({"ms": 600_000})).await;
    let error = session.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    assert_eq!(error["data"]["limit"], "limits.concurrency");
    let second = session.create("wait", json!({"ms": 1})).await;
    assert!(session.task(&second).await["statusMessage"].as_str().expect("a message").contains("Waiting"));
    session.result("tasks/cancel", json!({"taskId": first})).await;
    session.until(&second, "completed").await;
}

#[tokio::test]
async fn a_guest_that_computes_delays_nobody() {
    let host = Setup::new().with(&[guests::plugin("probe")]).start().await;
    let session = Session::open(host.port()).await;
    let mut spinning = Vec::new();
    for _ in 0..20 {
        spinning.push(session.create("spin", json!({"ms": 600_000})).await);
    }
    for id in &spinning {
        assert_eq!(session.task(id).await["status"], "working");
        assert_eq!(session.call("echo", json!({"text": "x"})).await["isError"], false);
    }
    for id in &spinning {
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
}

#[tokio::test]
async fn the_queue_of_a_plugin() {
    let manifest = "[limits]\nconcurrency = 1\nqueue = 1";
    let host = Setup::new().with(&[guests::plugin("probe")]).manifest("probe", manifest).start().await;
    let session = Session::open(host.port()).await;
    let wait = |ms: u64| json!({"name": "wait", "arguments": {"ms": ms}, "task": {}});
    let runs = session.create("wait", json!({"ms": 600_000})).await;
    let waits = session.create("wait", json!({"ms": 1})).await;
    let error = session.error("tools/call", wait(1)).await;
    assert_eq!(
        (&error["code"], &error["data"]["limit"]),
        (&json!(-32603), &json!("limits.queue")),
        "{error}"
    );
    assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
    // A task that leaves the queue makes room in it, soon after the cancel is acknowledged.
    session.result("tasks/cancel", json!({"taskId": waits})).await;
    let next = eventually("room in the line", || async {
        let created = session.request("tools/call", wait(1)).await;
        let refused = &created["error"]["data"]["limit"];
        assert!(refused.is_null() || refused == "limits.queue", "{created}");
        created["result"]["task"]["taskId"].as_str().map(str::to_owned)
    })
    .await;
    session.result("tasks/cancel", json!({"taskId": runs})).await;
    session.until(&next, "completed").await;
}

#[tokio::test]
async fn the_memory_of_all_runs_together() {
    let setup = Setup::new().with(&[guests::plugin("probe")]).set("calls.memory", "4MiB");
    let host = setup.start().await;
    let session = Session::open(host.port()).await;
    let mut asleep = Vec::new();
    // Each run starts with more than a MiB.
    while asleep.len() < 4 {
        asleep.push(session.create("wait", json!({"ms": 600_000})).await);
    }
    let error = session.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    assert_eq!(error["data"]["limit"], "calls.memory", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("4 MiB of memory for guests"), "{message}");
    let last = asleep.last().expect("some");
    let waiting = session.task(last).await;
    assert!(
        waiting["statusMessage"].as_str().expect("a message").contains("Waiting"),
        "not failed: {waiting}"
    );
    for id in &asleep[..3] {
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
    assert_eq!(session.call("echo", json!({"text": "x"})).await["isError"], false);
    session.result("tasks/cancel", json!({"taskId": last})).await;
}

#[tokio::test]
async fn what_needs_more_than_there_is_at_all_is_not_loaded() {
    let setup = Setup::new().with(&[guests::plugin("probe")]).set("calls.memory", "1MiB");
    let host = setup.start().await;
    let log = host.log();
    assert!(log.contains("probe.wasm") && log.contains("`calls.memory`"), "{log}");
}
