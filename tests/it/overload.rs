//! Overload: the host rejects a client over a limit at once, names the limit and gives a time to retry, and
//! serves all others as before. `make bench` (`--only overload`) measures thousands of clients.

use crate::say;
use serde_json::{Value, json};
use toolyard_tests::{Session, Setup, text};

/// The limit that the answer of a busy host names.
fn named(error: &Value) -> &str {
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
    error["data"]["limit"].as_str().unwrap_or_else(|| panic!("no limit: {error}"))
}

/// T-42, T-44: each limit on running and queued work, reached in turn.
#[tokio::test]
async fn t_44_every_bound_is_refused_by_its_name() {
    let waits = json!({"name": "wait", "arguments": {"ms": 600_000}, "task": {}});
    let plain = json!({"name": "wait", "arguments": {"ms": 1}});
    for (limit, settings, params) in [
        ("calls.running", &[("calls.running", "2")][..], &plain),
        ("calls.running-per-principal", &[("calls.running-per-principal", "2")], &plain),
        (
            "tasks.waiting-per-principal",
            &[("calls.running-per-principal", "1"), ("tasks.waiting-per-principal", "1")],
            &waits,
        ),
        ("tasks.live", &[("tasks.live", "2")], &waits),
        ("limits.concurrency", &[], &plain),
        ("limits.queue", &[], &waits),
    ] {
        let mut setup = Setup::probe();
        if limit.starts_with("limits.") {
            setup = setup.manifest("probe", "[limits]\nconcurrency = 1\nqueue = 1");
        }
        for (key, value) in settings {
            setup = setup.set(key, value);
        }
        let (_host, session) = setup.open().await;
        for _ in 0..2 {
            session.result("tools/call", waits.clone()).await;
        }
        assert_eq!(named(&session.error("tools/call", params.clone()).await), limit);
        assert_eq!(session.request("ping", json!({})).await["result"], json!({}), "{limit}");
    }
}

#[tokio::test]
async fn t_44_requests_of_one_session_are_bounded() {
    let (host, session) = Setup::probe().set("wire.requests-per-session", "2").open().await;
    let call = || session.begin("tools/call", json!({"name": "wait", "arguments": {"ms": 600_000}}));
    // Both have become streams, so both calls are running.
    let _under_way = (call().await, call().await);
    assert_eq!(named(&session.error("ping", json!({})).await), "wire.requests-per-session");
    assert_eq!(Session::open(host.port()).await.request("ping", json!({})).await["result"], json!({}));
}

/// Queued arguments are in the store, not in memory.
#[tokio::test]
async fn the_arguments_of_tasks_in_line_are_not_held_in_memory() {
    const TASKS: u64 = 100;
    const MIB: usize = 1 << 20;
    let setup = Setup::probe().set("calls.running-per-principal", "1");
    let (host, session) = setup.manifest("probe", "[tools.echo]\ntask-support = \"optional\"").open().await;
    let first = session.create("wait", json!({"ms": 600_000})).await;
    let before = host.usage().resident >> 10;
    let mut last = String::new();
    for _ in 0..TASKS {
        last = session.create("echo", json!({"text": "x".repeat(MIB)})).await;
    }
    let full = host.usage().resident >> 10;
    say(&format!("{TASKS} tasks in the queue with 1 MiB each: {before} KiB before, {full} KiB with them"));
    assert!(full < before + TASKS * 1024 / 2, "{before} KiB before, {full} KiB with them");
    session.result("tasks/cancel", json!({"taskId": first})).await;
    session.until(&last, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": last})).await;
    assert_eq!(text(&result).len(), MIB, "it got them all the same");
}

#[tokio::test]
async fn the_memory_of_all_runs_together_is_bounded() {
    let (_host, session) = Setup::probe().set("calls.memory", "4MiB").open().await;
    let mut last = String::new();
    // Each run starts with more than a MiB.
    for _ in 0..4 {
        last = session.create("wait", json!({"ms": 600_000})).await;
    }
    let error = session.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    assert_eq!(error["data"]["limit"], "calls.memory", "{error}");
    assert!(error["message"].to_string().contains("4 MiB of memory for guests"), "{error}");
    let waiting = session.task(&last).await;
    assert!(waiting["statusMessage"].to_string().contains("Waiting"), "not failed: {waiting}");
    // What needs more than there is at all is not loaded.
    let log = Setup::probe().set("calls.memory", "1MiB").start().await.log();
    assert!(log.contains("probe.wasm") && log.contains("`calls.memory`"), "{log}");
}
