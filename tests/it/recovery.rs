//! State that survives a crash of its host.

use serde_json::json;
use toolyard_tests::host::Setup;

/// H-26: the store holds sessions as well as tasks, so neither depends on the other.
#[tokio::test]
async fn a_restart_loses_neither_session_nor_task() {
    let (host, session) = Setup::probe().open().await;
    let done = session.complete("wait", json!({"ms": 1})).await;
    let result = session.result("tasks/result", json!({"taskId": done})).await;
    let cancelled = session.create("wait", json!({"ms": 600_000})).await;
    session.result("tasks/cancel", json!({"taskId": cancelled})).await;
    let live = session.create("wait", json!({"ms": 600_000})).await;
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    assert_eq!(session.result("tasks/result", json!({"taskId": done})).await, result);
    assert_eq!(session.task(&cancelled).await["status"], "cancelled");
    let orphan = session.task(&live).await;
    assert_eq!(orphan["status"], "failed");
    let message = orphan["statusMessage"].as_str().expect("a message");
    assert!(message.contains("host") && message.contains("may have had effects"), "{message}");
    assert_eq!(session.error("tasks/result", json!({"taskId": live})).await["code"], -32603);
    assert_eq!(session.result("tasks/list", json!({})).await["tasks"].as_array().expect("tasks").len(), 3);
    // The session continues as before.
    session.complete("wait", json!({"ms": 1})).await;
}
