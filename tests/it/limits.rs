//! Limits of runs and plugins: a limit takes effect, is named in the error, and harms no other run.

use serde_json::json;
use toolyard_tests::Setup;

#[tokio::test]
async fn the_memory_of_all_runs_together() {
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
}

#[tokio::test]
async fn what_needs_more_than_there_is_at_all_is_not_loaded() {
    let setup = Setup::probe().set("calls.memory", "1MiB");
    let host = setup.start().await;
    let log = host.log();
    assert!(log.contains("probe.wasm") && log.contains("`calls.memory`"), "{log}");
}
