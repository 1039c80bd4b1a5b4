//! 2026-07-28 over stdin and stdout (26S), and how clients start and end such processes (26B-7).

use super::{patient, steps, stored};
use crate::questions::{accepted, form, scripted};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::host::Setup;
use toolyard_tests::session::initialize;
use toolyard_tests::stateless::{VERSION, enveloped, everything, key, tasks};
use toolyard_tests::{Stdio, eventually, guests};

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
async fn s_26s_4_answers_come_as_they_are_ready_and_ids_are_free_again() {
    let mut stdio = Stdio::start(patient(scripted()));
    let slow = stdio.send("tools/call", alone(steps(json!([{"sleep": 700}])))).await;
    let quick = stdio.send("tools/call", alone(steps(json!([])))).await;
    assert_eq!(stdio.read().await["id"], quick);
    // The id of a running request is not free (26J-3), but the host accepts it all the same.
    assert_eq!(stdio.read().await["id"], slow);
    for _ in 0..3 {
        let again = json!({"jsonrpc": "2.0", "id": slow, "method": "tools/list", "params": alone(json!({}))});
        stdio.line(&again.to_string()).await;
        assert_eq!(stdio.read().await["id"], slow);
    }
}

#[tokio::test]
async fn b_26b_7_a_probe_process_takes_nothing_from_the_one_that_serves() {
    // As the TypeScript client does: it starts a second process with the same command, sends it one request
    // and ends it. The first process is not affected.
    let setup = Setup::new().with(&[guests::plugin("probe")]);
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
        let mut stdio = Stdio::start(Setup::new().with(&[guests::plugin("probe")]));
        stdio.line(&first.to_string()).await;
        let answer = stdio.read().await;
        assert_eq!(answer["id"], "d", "{first}: answered");
        stdio.line(&discover.to_string()).await;
        assert!(stdio.read().await["result"].is_object(), "{first}");
        stdio.line(&initialize("2025-11-25", json!({})).to_string()).await;
        assert_eq!(stdio.read().await["result"]["protocolVersion"], "2025-11-25", "{first}");
    }
}

#[tokio::test]
async fn s_26s_3_at_the_end_of_input_what_is_under_way_is_let_finish_for_a_moment() {
    let mut stdio = Stdio::start(patient(scripted()).set("shutdown.eof-grace", "30s"));
    stdio.send("tools/call", alone(steps(json!([{"sleep": 300}, {"info": null}])))).await;
    let (status, rest) = stdio.close().await;
    assert!(status.success());
    assert!(rest.contains("\"resultType\":\"complete\""), "{rest}");
    let mut stdio = Stdio::start(patient(scripted()).set("shutdown.eof-grace", "200ms"));
    stdio.send("tools/call", alone(steps(json!([{"sleep": 600_000}])))).await;
    let (status, _) = stdio.close().await;
    assert!(status.success(), "and no longer");
}

#[tokio::test]
async fn t_26t_10_a_task_whose_handle_cannot_be_written_is_cancelled() {
    let (folder, args) = patient(scripted()).set("shutdown.eof-grace", "10min").into_parts();
    let mut host = toolyard_tests::host::command("stdio", folder.path(), &args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the host starts");
    // The reader of the output is gone; the writer of the input is not.
    drop(host.stdout.take());
    let mut input = host.stdin.take().expect("piped");
    let work = steps(json!([{"begin": null}, {"sleep": 600_000}]));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": alone(work)});
    tokio::io::AsyncWriteExt::write_all(&mut input, format!("{call}\n").as_bytes())
        .await
        .expect("the host reads");
    let told = eventually("the task to be cancelled", || async {
        // Before the first call there is no data folder.
        let tasks =
            if folder.path().join("data").exists() { stored(folder.path()).await } else { Vec::new() };
        tasks.first().filter(|task| task["status"] != "working").cloned()
    })
    .await;
    assert_eq!(told["status"], "cancelled", "{told}");
}
