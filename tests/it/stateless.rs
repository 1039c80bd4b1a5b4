//! 2026-07-28, in which each request is self-contained, with its tasks extension. Both generations use one
//! endpoint and one pipe, and the same tasks (26*).

mod eras;
mod headers;
mod legacy;
mod listening;
mod pipe;
mod states;
mod tasks;

use serde_json::{Value, json};
use toolyard_tests::stateless::Client;
use toolyard_tests::{Host, Setup};

/// A host with the probe, and a client that supports tasks.
async fn probe() -> (Host, Client) {
    Setup::probe().serve_client().await
}

/// Plain calls may take longer than any test runs.
fn patient(setup: Setup) -> Setup {
    setup.set("tasks.inline-for", "10min")
}

/// Arguments of the guest `script`.
fn steps(steps: Value) -> Value {
    json!({"name": "script", "arguments": {"steps": steps}})
}
