//! Guests that exceed each of their resource limits.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn resources() {
    let setup = Setup::new().with(&[guests::fixture("hostile_calls")]);
    let stage = Stage::open(setup.manifest("hostile_calls", "[limits]\ncpu = \"10s\"\n")).await;
    attacks!(stage;
        exhaust_the_stack,
        exhaust_the_stack_in_memory,
        grow_memory,
        allocate_for_ever,
        hold_pollables,
        hold_streams,
        open_sockets,
        poll_a_million,
        ask_for_all_random_bytes,
        allocate_in_numbers,
    );
    stage.at_rest().await;
}

async fn exhaust_the_stack(stage: &Stage) {
    stage.fails("recurse", json!({}), &["call stack exhausted"]).await;
}

/// Some languages keep a second stack in linear memory, which the machine's stack guard does not cover.
async fn exhaust_the_stack_in_memory(stage: &Stage) {
    stage.fails("recurse_in_memory", json!({}), &["trapped", "out of bounds memory access"]).await;
}

async fn grow_memory(stage: &Stage) {
    stage.fails("grow_memory", json!({}), &["memory limit of 64.0 MiB", "`limits.memory`"]).await;
}

async fn allocate_for_ever(stage: &Stage) {
    stage.fails("allocate", json!({}), &["memory limit of 64.0 MiB", "`limits.memory`"]).await;
}

async fn hold_pollables(stage: &Stage) {
    stage.fails("hold_pollables", json!({}), &["256 handles", "`limits.handles`"]).await;
}

async fn hold_streams(stage: &Stage) {
    stage.fails("hold_streams", json!({}), &["256 handles", "`limits.handles`"]).await;
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

async fn ask_for_all_random_bytes(stage: &Stage) {
    stage.fails("random_bytes", json!({}), &["requested len 18446744073709551615 exceeds limit"]).await;
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
