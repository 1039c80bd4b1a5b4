//! Official clients without tasks, each with its own timeouts and its own check of output schemas.

use super::{bridge_times, drive, is_full, order, scaled, setup, with_scaled_times};
use crate::clients::{Client, PYTHON, TYPESCRIPT, runs, second};
use crate::say;
use serde_json::{Value, json};
use std::time::Duration;
use toolyard_tests::{Setup, Sink};

pub const FIRST_TYPESCRIPT: Client = TYPESCRIPT.with_script("typescript/bridge.mjs");
pub const SECOND_TYPESCRIPT: Client = second::TYPESCRIPT.with_script("v2/typescript/bridge.mjs");
const FIRST_PYTHON: Client = PYTHON.with_script("python/bridge.py");
const SECOND_PYTHON: Client = second::PYTHON.with_script("v2/python/bridge.py");

/// A client calls a tool with an output schema that runs for this many milliseconds, which is longer than the
/// timeout of the client: one minute, the default of the TypeScript clients.
async fn hands_off(client: &Client, mode: &[&str], ms: u64) {
    let Some(client) = client.installed() else { return };
    let sink = Sink::start().await;
    let host = with_scaled_times(setup(&sink)).start().await;
    let timeout = Duration::from_millis(scaled(60_000)).as_secs_f64();
    let params = json!({"name": "slow", "arguments": order(&sink, "k", ms), "timeout": timeout});
    let summary = drive(client, &host, mode, &params, None).await;
    assert_eq!(sink.of("k").begun, [1], "the guest ran once");
    expect_times(&summary, ms);
}

/// The call was handed off at the time that is set, and as many calls of `task_wait` had the result as fit into the
/// rest of the run, which takes this many milliseconds, or one more.
fn expect_times(summary: &Value, ms: u64) {
    let after = Duration::from_secs_f64(summary["after"].as_f64().expect("seconds"));
    let waited = summary["waits"].as_u64().expect("a number");
    let (due, wait) = bridge_times();
    let least = ((ms - due) / wait).max(1);
    let due = Duration::from_millis(due);
    assert!(after >= due, "{summary}");
    if is_full() {
        assert!(after <= due + Duration::from_secs(1), "{summary}");
        let test = std::thread::current().name().expect("a test has a name").to_owned();
        say(&format!("{test}: handed off after {after:.1?}, waits: {waited}"));
    }
    assert!((least..=least + 1).contains(&waited), "at least {least} waits: {summary}");
}

async fn hands_off_for_70_s(client: &Client, mode: &[&str]) {
    hands_off(client, mode, scaled(70_000)).await;
}

runs! {
    #[ignore = "nightly: clients"]
    the_python_client_has_the_result_of_a_call_longer_than_its_timeout =>
        hands_off(&FIRST_PYTHON, &[], scaled(150_000));
    the_second_python_client_takes_a_hand_off_without_a_session => hands_off_for_70_s(&SECOND_PYTHON, &["auto"]);
    #[ignore = "nightly: clients"]
    the_second_python_client_takes_a_hand_off_in_a_session => hands_off_for_70_s(&SECOND_PYTHON, &["legacy"]);
    the_typescript_client_takes_a_hand_off_for_a_structured_result =>
        hands_off_for_70_s(&FIRST_TYPESCRIPT, &["handsOff"]);
    #[ignore = "nightly: clients"]
    the_second_typescript_client_takes_a_hand_off_without_a_session =>
        hands_off_for_70_s(&SECOND_TYPESCRIPT, &["auto", "handsOff"]);
    #[ignore = "nightly: clients"]
    the_second_typescript_client_takes_a_hand_off_in_a_session =>
        hands_off_for_70_s(&SECOND_TYPESCRIPT, &["legacy", "handsOff"]);
}

#[tokio::test]
async fn the_typescript_client_can_call_a_tool_that_is_only_ever_a_task() {
    if FIRST_TYPESCRIPT.installed().is_none() {
        return;
    }
    let host = with_scaled_times(Setup::probe()).start().await;
    let params = json!({"name": "batch", "arguments": {"steps": 2, "ms": 5}});
    let summary = drive(&FIRST_TYPESCRIPT, &host, &["callsRequired"], &params, None).await;
    assert_eq!(summary["text"], "counted 2");
}

/// The host reports progress every 10 seconds. The tool is silent for longer than the timeout, both before and after the hand-off.
async fn progress_keeps_alive(client: &Client, mode: &[&str]) {
    let Some(client) = client.installed() else { return };
    let setup = Setup::probe();
    let host = setup.set("bridge.after", "14s").start().await;
    let params = json!({"name": "count", "arguments": {"steps": 2, "ms": 14_000}, "timeout": 13_000});
    let summary = drive(client, &host, mode, &params, None).await;
    assert_eq!(summary["text"], "counted 2");
}

runs! {
    progress_keeps_a_request_of_the_typescript_client_alive =>
        progress_keeps_alive(&FIRST_TYPESCRIPT, &["progresses"]);
    #[ignore = "nightly: clients"]
    progress_keeps_a_request_of_the_second_typescript_client_alive =>
        progress_keeps_alive(&SECOND_TYPESCRIPT, &["auto", "progresses"]);
}
