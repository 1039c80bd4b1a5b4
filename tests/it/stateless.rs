//! 2026-07-28, in which each request is self-contained, with its tasks extension. Both generations use one
//! endpoint and one pipe, and the same tasks (26*).

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
mod notices;
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

/// A host with the probe, and a client that supports tasks.
async fn probe() -> (Host, Client) {
    Setup::probe().serve_client().await
}

/// A host with the guest `script`, with a promotion time so long that no call becomes a task by itself, and a
/// client that supports every kind of question.
async fn script() -> (Host, Client) {
    let host = patient(scripted()).start().await;
    let client = Client::new(host.port()).declaring(everything());
    (host, client)
}

/// Plain calls may take longer than any test runs.
fn patient(setup: Setup) -> Setup {
    setup.set("tasks.inline-for", "10min")
}

/// Arguments of the guest `script`.
fn steps(steps: Value) -> Value {
    json!({"name": "script", "arguments": {"steps": steps}})
}

/// Posts a body with exactly these headers.
async fn post(port: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Answer {
    Connection::open(port).await.send(hyper::Method::POST, "/mcp", headers, body.into()).await
}

/// The status and the code of a rejection, and the id that it echoes.
async fn refusal(answer: Answer) -> (u16, i64, Value) {
    let status = answer.status.as_u16();
    let body = answer.json().await;
    (status, body["error"]["code"].as_i64().unwrap_or_default(), body["id"].clone())
}

/// Waits until the one slot of a host with `calls.running = 1` is free again: a waiting plain call receives
/// no sign that the slot is taken.
async fn idle(client: &Client) {
    eventually("the guest to be gone", || async {
        let reply = client.ask("tools/call", steps(json!([]))).await;
        (reply.message["result"]["isError"] == false).then_some(())
    })
    .await;
}

/// Adds the component of the guest `script` under another name, with this manifest; the names of its tools
/// begin with that name.
fn scripted_as(setup: Setup, name: &str, manifest: &str) -> Setup {
    let file = format!("{name}.wasm");
    toolyard_tests::host::install_as(&guests::fixture("script"), &setup.plugins(), &file);
    setup.manifest(name, &format!("prefix = \"{name}\"\n{manifest}"))
}
