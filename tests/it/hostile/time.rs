//! Guests that compute or wait without end, and guests that are stopped in the middle of any of their
//! actions.

use super::stage::Stage;
use serde_json::{Value, json};
use toolyard_tests::exchange::next_of;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

const CPU: &[&str] = &["processor time", "`limits.cpu`"];
const WALL: &[&str] = &["time limit", "`limits.wall`"];

/// The limits are longer than the host takes to ask, and short enough for a test.
const MANIFEST: &str = "\
[limits]
cpu = \"300ms\"
[tools.sleep_for_ever.limits]
wall = \"400ms\"
[tools.poll_for_ever.limits]
wall = \"400ms\"
[tools.wait_for_the_last_instant.limits]
wall = \"400ms\"
[tools.ask_and_stay.limits]
wall = \"2s\"
";

#[tokio::test]
async fn time() {
    let patient = "prefix = \"patient\"\n[limits]\ncpu = \"10min\"\n\
                   [fs]\n\"/data\" = { path = \"data\", mode = \"read\" }\n";
    let setup = Setup::new().with(&[guests::fixture("hostile_calls")]).manifest("hostile_calls", MANIFEST);
    toolyard_tests::host::install_as(&guests::fixture("hostile_calls"), &setup.plugins(), "patient.wasm");
    std::fs::create_dir(setup.plugins().join("data")).expect("makes");
    std::fs::write(setup.plugins().join("data/large"), vec![b'x'; 8 << 20]).expect("writes");
    let setup = setup.manifest("patient", patient);
    let stage = Stage::open(setup).await;
    fails!(stage;
        spin: "compute" => CPU,
        spin_in_host_calls: "call_the_host" => CPU,
        sleep_for_nothing_for_ever: "sleep_for_nothing" => CPU,
        sleep_for_ever: "sleep_for_ever" => WALL,
        poll_for_ever: "poll_for_ever" => WALL,
        wait_for_the_last_instant: "wait_for_the_last_instant" => WALL,
    );
    attacks!(stage;
        spin_in_bulk_memory, spin_in_realloc, wait_for_standard_input, spin_in_numbers,
        cancel_while_computing, cancel_while_in_host_calls, cancel_while_in_bulk_memory,
        cancel_while_sleeping, cancel_while_polling, cancel_while_reading_files,
        cancel_while_writing_output, cancel_while_a_question_is_pending,
        time_out_while_a_question_is_pending,
    );
    stage.at_rest().await;
}

async fn spin_in_bulk_memory(stage: &Stage) {
    stage.fails("fill_memory", json!({}), CPU).await;
    stage.fails("copy_memory", json!({}), CPU).await;
}

/// Spins when the host asks the guest to allocate memory for the arguments.
async fn spin_in_realloc(stage: &Stage) {
    let frame = json!({"pad": ""}).to_string().len();
    stage.fails("echo_done", json!({"pad": "x".repeat(77_777 - frame)}), CPU).await;
}

/// Standard input is closed, and the guest learns that at once.
async fn wait_for_standard_input(stage: &Stage) {
    let said = stage.said("read_standard_input", json!({})).await;
    assert!(said.contains("Closed"), "{said}");
}

/// More computing guests than processors, all at once.
async fn spin_in_numbers(stage: &Stage) {
    let mut tasks = Vec::new();
    for _ in 0..24 {
        tasks.push(stage.session.create("compute", json!({})).await);
    }
    for task in tasks {
        let told = stage.session.until(&task, "failed").await["statusMessage"].to_string();
        assert!(told.contains("`limits.cpu`"), "{told}");
    }
}

async fn working(task: &Value) -> bool {
    task["status"] == "working"
}

async fn begun(task: &Value) -> bool {
    task["statusMessage"] == "begun"
}

async fn cancel_while_computing(stage: &Stage) {
    stage.cancelled("patient_compute", working).await;
}

async fn cancel_while_in_host_calls(stage: &Stage) {
    stage.cancelled("patient_call_the_host", working).await;
    stage.cancelled("patient_sleep_for_nothing", working).await;
}

async fn cancel_while_in_bulk_memory(stage: &Stage) {
    stage.cancelled("patient_fill_memory", working).await;
}

async fn cancel_while_sleeping(stage: &Stage) {
    stage.cancelled("patient_sleep_for_ever", begun).await;
}

async fn cancel_while_polling(stage: &Stage) {
    stage.cancelled("patient_poll_for_ever", begun).await;
    stage.cancelled("patient_wait_for_the_last_instant", begun).await;
}

async fn cancel_while_reading_files(stage: &Stage) {
    stage.cancelled("patient_read_for_ever", begun).await;
    stage.cancelled("patient_list_for_ever", begun).await;
}

async fn cancel_while_writing_output(stage: &Stage) {
    stage.cancelled("patient_write_for_ever", begun).await;
}

async fn cancel_while_a_question_is_pending(stage: &Stage) {
    let mut listening = stage.session.listen().await;
    let id = stage.session.create("patient_ask_and_stay", json!({})).await;
    let asked = next_of(&mut listening, "elicitation/create").await;
    assert_eq!(stage.session.task(&id).await["status"], "input_required");
    stage.session.result("tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(stage.session.task(&id).await["status"], "cancelled");
    // A late answer has no recipient and does no harm.
    stage.session.respond(&asked, json!({"action": "accept", "content": {"word": "late"}})).await;
    assert_eq!(stage.session.task(&id).await["status"], "cancelled");
}

async fn time_out_while_a_question_is_pending(stage: &Stage) {
    let call = stage.session.begin("tools/call", json!({"name": "ask_and_stay", "arguments": {}})).await;
    let (answer, before) = call.answer().await;
    assert!(before.iter().any(|message| message["method"] == "elicitation/create"), "{before:?}");
    let told = answer["result"]["content"][0]["text"].as_str().expect("a text");
    assert!(told.contains("`limits.wall`"), "{told}");
}
