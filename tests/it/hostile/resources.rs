//! Guests that exceed each of their resource limits.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn resources() {
    let setup = Setup::new().with(&[guests::fixture("hostile_calls")]);
    let stage = Stage::open(setup.manifest("hostile_calls", "[limits]\ncpu = \"10s\"\n")).await;
    fails!(stage;
        exhaust_the_stack: "recurse" => ["call stack exhausted"],
        // Some languages keep a second stack in linear memory, which the machine's stack guard does not cover.
        exhaust_the_stack_in_memory: "recurse_in_memory" => ["trapped", "out of bounds memory access"],
        grow_memory: "grow_memory" => ["memory limit of 64.0 MiB", "`limits.memory`"],
        allocate_for_ever: "allocate" => ["memory limit of 64.0 MiB", "`limits.memory`"],
        hold_pollables: "hold_pollables" => ["256 handles", "`limits.handles`"],
        hold_streams: "hold_streams" => ["256 handles", "`limits.handles`"],
        ask_for_all_random_bytes: "random_bytes" => ["requested len 18446744073709551615 exceeds limit"],
    );
    attacks!(stage;
        open_sockets, poll_a_million, allocate_in_numbers,
    );
    stage.at_rest().await;
}

/// No network access is granted, not even a socket that goes nowhere.
async fn open_sockets(stage: &Stage) {
    let said = stage.said("hold_sockets", json!({})).await;
    assert!(said.contains("denied"), "{said}");
}

/// The host builds a list of the objects behind a list of handles.
async fn poll_a_million(stage: &Stage) {
    let answer = stage.answer("poll_a_million", json!({})).await;
    assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
}

async fn allocate_in_numbers(stage: &Stage) {
    let mut tasks = Vec::new();
    for _ in 0..16 {
        tasks.push(stage.session.create("allocate", json!({})).await);
    }
    for task in tasks {
        let told = stage.session.until(&task, "failed").await["statusMessage"].to_string();
        assert!(told.contains("`limits.memory`"), "{told}");
    }
}
