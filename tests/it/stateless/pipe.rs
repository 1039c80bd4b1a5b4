//! How clients of 2026-07-28 start and end processes (26B-7).

use serde_json::{Value, json};
use toolyard_tests::stateless::{VERSION, enveloped, tasks};
use toolyard_tests::{Setup, Stdio};

fn alone(params: Value) -> Value {
    enveloped(params, &tasks())
}

#[tokio::test]
async fn b_26b_7_a_probe_process_takes_nothing_from_the_one_that_serves() {
    // As the TypeScript client does: it starts a second process with the same command, sends it one request
    // and ends it. The first process is not affected.
    let mut serving = Stdio::start(Setup::probe());
    serving.request("server/discover", alone(json!({}))).await;
    let nodes = serving.folder.path().join("data/nodes");
    assert!(!nodes.exists(), "26D-6: a probe process registers no node");
    let call = json!({"name": "batch", "arguments": {"steps": 1, "ms": 600_000}});
    let id = serving.result("tools/call", alone(call)).await["taskId"].take();
    for end_of_input in [true, false, true] {
        let mut probe = serving.another();
        let found = probe.result("server/discover", alone(json!({}))).await;
        assert_eq!(found["supportedVersions"], json!([VERSION]));
        match end_of_input {
            true => assert!(probe.close().await.0.success(), "26S-3"),
            false => probe.kill().await,
        }
        let task = serving.result("tasks/get", alone(json!({"taskId": id}))).await;
        assert_eq!(task["status"], "working", "not marked as lost");
    }
    serving.request("tasks/cancel", alone(json!({"taskId": id}))).await;
}
