//! 2026-07-28, where each request stands alone, with its tasks extension; and both
//! generations from one endpoint and one pipe, over the same tasks (26*).

mod classification;
mod disconnects;
mod discovery;
mod envelope;
mod eras;
mod headers;
mod inputs;
mod late;
mod legacy;
mod listening;
mod mixed;
mod notices;
mod order;
mod owners;
mod pipe;
mod rounds;
mod states;
mod tasks;

use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::http::{Answer, Connection};
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Host, eventually, guests};

/// A host with the probe, and a client that knows tasks.
async fn probe() -> (Host, Client) {
    let host = Host::with_probe().await;
    let client = Client::with_tasks(host.port());
    (host, client)
}

/// A host with the guest `script`, which is waited for long enough that nothing becomes
/// a task by itself, and a client that can be asked anything.
async fn script() -> (Host, Client) {
    let host = patient(scripted()).start().await;
    let client = Client::new(host.port()).declaring(everything());
    (host, client)
}

/// Calls are waited for as long as any test runs.
fn patient(setup: Setup) -> Setup {
    setup.set("tasks.inline-for", "10min")
}

/// Arguments of the guest `script`.
fn steps(steps: Value) -> Value {
    json!({"name": "script", "arguments": {"steps": steps}})
}

/// A body posted with just these headers.
async fn post(port: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Answer {
    Connection::open(port).await.send(hyper::Method::POST, "/mcp", headers, body.into()).await
}

/// The status and the code of a refusal, and whether it echoes the id.
async fn refusal(answer: Answer) -> (u16, i64, Value) {
    let status = answer.status.as_u16();
    let body = answer.json().await;
    (status, body["error"]["code"].as_i64().unwrap_or_default(), body["id"].clone())
}

/// Waits until the one slot of a host with `calls.running = 1` is free again: a plain
/// call is not told that it is taken.
async fn idle(client: &Client) {
    eventually("the guest to be gone", || async {
        let reply = client.ask("tools/call", steps(json!([]))).await;
        (reply.message["result"]["isError"] == false).then_some(())
    })
    .await;
}

/// A host with one slot for all runs.
fn single() -> Setup {
    patient(scripted()).set("calls.running", "1")
}

/// The component of the guest `script` under another name, with this manifest beside it:
/// its tools begin with that name.
fn scripted_as(setup: Setup, name: &str, manifest: &str) -> Setup {
    let file = format!("{name}.wasm");
    toolyard_tests::host::install_as(&guests::fixture("script"), &setup.plugins(), &file);
    setup.manifest(name, &format!("prefix = \"{name}\"\n{manifest}"))
}

/// What the operator sees of the tasks in the folder of a host.
async fn stored(folder: &std::path::Path) -> Vec<Value> {
    let listed = tokio::process::Command::new(guests::binary())
        .args(["tasks", "list", "--json", "--plugins"])
        .arg(folder.join("plugins"))
        .arg("--data")
        .arg(folder.join("data"))
        .output()
        .await
        .expect("the command runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}
