//! 2026-07-28 over stdin and stdout (26S), and how clients start and end such processes (26B-7).

use super::{patient, steps};
use crate::questions::{accepted, form, scripted};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::host::Setup;
use toolyard_tests::session::initialize;
use toolyard_tests::stateless::{VERSION, enveloped, everything, key, tasks};
use toolyard_tests::{Stdio, guests};

fn alone(params: Value) -> Value {
    enveloped(params, &everything())
}

#[tokio::test]
async fn s_26s_1_everything_is_served_on_a_pipe_without_a_handshake() {
    let mut stdio =
        Stdio::start(patient(scripted()).with(&[guests::plugin("probe"), guests::fixture("library")]));
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})),
        ("resources/read", json!({"uri": "book:/1"})),
        ("prompts/get", json!({"name": "recommend", "arguments": {"genre": "x"}})),
        ("server/discover", json!({})),
    ] {
        let answer = stdio.request(method, alone(params)).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{method}: {answer}");
        assert_eq!(answer["result"]["_meta"][key::SERVER]["name"], "toolyard");
    }
    // A round trip of questions.
    let call = steps(json!([{"ask": [form("a")]}]));
    let first = stdio.request("tools/call", alone(call.clone())).await["result"].take();
    assert_eq!(first["resultType"], "input_required");
    let retry = super::rounds::next(&call, &first, json!({"a": accepted()}));
    let last = stdio.request("tools/call", alone(retry)).await;
    assert_eq!(outcome(&last["result"]), json!([{"a": accepted()}]));
    // A task; and the missing capability if the request does not declare it.
    let batch = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    let refused = stdio.request("tools/call", enveloped(batch.clone(), &json!({}))).await;
    assert_eq!(refused["error"]["code"], -32021);
    let created = stdio.request("tools/call", enveloped(batch, &tasks())).await;
    assert_eq!(created["result"]["resultType"], "task");
    // 26C-4: log messages, if the request asks for them.
    let mut logs = steps(json!([{"log": {"level": "error", "data": "x"}}]));
    stdio.request("tools/call", alone(logs.clone())).await;
    assert!(stdio.notices().is_empty());
    logs["_meta"] = json!({key::LOG_LEVEL: "info"});
    stdio.request("tools/call", alone(logs)).await;
    assert_eq!(stdio.notices().len(), 1);
}

#[tokio::test]
async fn b_26b_7_a_probe_process_takes_nothing_from_the_one_that_serves() {
    // As the TypeScript client does: it starts a second process with the same command, sends it one request
    // and ends it. The first process is not affected.
    let setup = Setup::probe();
    let mut serving = Stdio::start(setup);
    let created = serving
        .request(
            "tools/call",
            enveloped(json!({"name": "batch", "arguments": {"steps": 1, "ms": 600_000}}), &tasks()),
        )
        .await;
    let id = created["result"]["taskId"].clone();
    for end_of_input in [true, false, true] {
        let mut probe = serving.another();
        let found = probe.request("server/discover", alone(json!({}))).await;
        assert_eq!(found["result"]["supportedVersions"], json!([VERSION]));
        match end_of_input {
            true => assert!(probe.close().await.0.success(), "26S-3"),
            false => probe.kill().await,
        }
        let task = serving.request("tasks/get", enveloped(json!({"taskId": id}), &tasks())).await;
        assert_eq!(task["result"]["status"], "working", "not marked as lost");
    }
    serving.request("tasks/cancel", enveloped(json!({"taskId": id}), &tasks())).await;
}

#[tokio::test]
async fn d_26d_9_d_26d_3_a_process_lives_on_whatever_comes_first() {
    let discover =
        json!({"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": alone(json!({}))});
    for first in [
        discover.clone(),
        json!({"jsonrpc": "2.0", "id": "d", "method": "server/discover"}),
        json!({"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": {"_meta": {key::VERSION: "1900-01-01"}}}),
        json!({"jsonrpc": "2.0", "id": "d", "method": "no/such", "params": alone(json!({}))}),
        json!({"jsonrpc": "2.0", "id": "d", "method": "tools/list"}),
    ] {
        let mut stdio = Stdio::start(Setup::probe());
        stdio.line(&first.to_string()).await;
        let answer = stdio.read().await;
        assert_eq!(answer["id"], "d", "{first}: answered");
        let registered = stdio.folder.path().join("data/nodes").exists();
        assert!(first != discover || !registered, "26D-6: a probe process registers no node");
        stdio.line(&discover.to_string()).await;
        assert!(stdio.read().await["result"].is_object(), "{first}");
        stdio.line(&initialize("2025-11-25", json!({})).to_string()).await;
        assert_eq!(stdio.read().await["result"]["protocolVersion"], "2025-11-25", "{first}");
    }
}
