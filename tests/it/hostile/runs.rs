//! Guests that compute, wait, allocate, report and ask without end, and guests that are cancelled meanwhile.
//! `host/crates/engine/tests/it/attacks.rs` has the attacks that need no more than the engine.

use super::stage::Stage;
use serde_json::{Value, json};
use toolyard_tests::exchange::next_of;
use toolyard_tests::host::install_as;
use toolyard_tests::{Setup, guests, text, until};

/// The limits are longer than the host takes to ask, and short enough for a test.
const LIMITS: &str = "\
[limits]
cpu = \"300ms\"
[tools.allocate.limits]
cpu = \"10s\"
[tools.sleep_for_ever.limits]
wall = \"400ms\"
[tools.ask_and_stay.limits]
wall = \"2s\"
";
/// The same guest, with time to be cancelled in.
const PATIENT: &str = "prefix = \"patient\"\n[limits]\ncpu = \"10min\"\n\
                       [fs]\n\"/data\" = { path = \"data\", mode = \"read\" }\n";

#[tokio::test]
async fn runs() {
    let setup = Setup::new()
        .with(&[guests::fixture("hostile_calls"), guests::fixture("hostile_reports")])
        .manifest("hostile_calls", LIMITS)
        .manifest("patient", PATIENT);
    install_as(&guests::fixture("hostile_calls"), &setup.plugins(), "patient.wasm");
    std::fs::create_dir(setup.plugins().join("data")).expect("makes");
    std::fs::write(setup.plugins().join("data/large"), vec![b'x'; 8 << 20]).expect("writes");
    let stage = Stage::open(setup).await;
    fails!(stage;
        spin: "compute" => ["processor time", "`limits.cpu`"],
        sleep_for_ever: "sleep_for_ever" => ["time limit", "`limits.wall`"],
        trap_by_unreachable: "unreachable" => ["trapped", "unreachable"],
    );
    attacks!(stage;
        spin_in_numbers, allocate_in_numbers, cancel_while_computing, cancel_while_in_bulk_memory,
        cancel_while_reading_files, cancel_while_writing_output, cancel_while_a_question_is_pending,
        time_out_while_a_question_is_pending, log_flood, status_flood, change_flood, stream_release_flood,
        task_flood, question_flood,
    );
    stage.at_rest().await;
}

/// Runs a tool in so many tasks at once. Each fails and names this limit.
async fn fail_in_numbers(stage: &Stage, tool: &str, times: usize, limit: &str) {
    let mut tasks = Vec::new();
    for _ in 0..times {
        tasks.push(stage.session.create(tool, json!({})).await);
    }
    for task in tasks {
        let told = stage.session.until(&task, "failed").await["statusMessage"].to_string();
        assert!(told.contains(limit), "{told}");
    }
}

/// More computing guests than processors, all at once.
async fn spin_in_numbers(stage: &Stage) {
    fail_in_numbers(stage, "compute", 24, "`limits.cpu`").await;
}

async fn allocate_in_numbers(stage: &Stage) {
    fail_in_numbers(stage, "allocate", 16, "`limits.memory`").await;
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

async fn cancel_while_in_bulk_memory(stage: &Stage) {
    stage.cancelled("patient_fill_memory", working).await;
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
    assert!(text(&answer["result"]).contains("`limits.wall`"), "{answer}");
}

/// The host drops the excess, and reports that to the operator and to the client.
async fn log_flood(stage: &Stage) {
    let before = stage.host.log().len();
    let params = json!({"name": "log_flood", "arguments": {}});
    let (answer, notices) = stage.session.request_and_notices("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let flood = notices.iter().filter(|notice| notice["method"] == "notifications/message");
    assert!(flood.clone().count() < 10_000, "200,000 were sent");
    assert!(flood.clone().any(|notice| notice.to_string().contains("`limits.log-rate`")), "it is said");
    until("the host's log to say it", || async {
        stage.host.log()[before..].contains("setting=\"limits.log\"")
    })
    .await;
    assert!(stage.host.log().len() - before < 1 << 20);
}

async fn status_flood(stage: &Stage) {
    stage.session.complete("status_flood", json!({})).await;
}

async fn change_flood(stage: &Stage) {
    let mut listening = stage.session.listen().await;
    assert_eq!(stage.said("change_flood", json!({})).await, "said");
    // The next notification of another kind is not queued behind tens of thousands of notifications.
    let id = stage.session.create("status_flood", json!({})).await;
    let mut heard = 0;
    while let Some(message) = toolyard_tests::exchange::next(&mut listening).await {
        heard += 1;
        if message["params"]["taskId"] == id.as_str() {
            break;
        }
    }
    assert!(heard < 20_000, "{heard} notices for 100,000 changes");
    stage.session.until(&id, "completed").await;
}

/// Only its own client's stream ends, and may be resumed.
async fn stream_release_flood(stage: &Stage) {
    let call = stage.session.message("tools/call", json!({"name": "release_flood", "arguments": {}}));
    let answer = stage.session.post(&call).await;
    assert_eq!(answer.status, 200);
    if answer.is_events() {
        let mut events = answer.events();
        while toolyard_tests::exchange::next(&mut events).await.is_some() {}
    }
}

async fn task_flood(stage: &Stage) {
    let answer = stage.answer("task_flood", json!({})).await;
    assert!(answer["result"]["content"].is_array(), "{answer}");
}

/// The client is asked as often as the limit permits, and no more.
async fn question_flood(stage: &Stage) {
    let call = json!({"name": "question_flood", "arguments": {}});
    let mut call = stage.session.begin("tools/call", call).await;
    let mut asked = 0;
    let answer = loop {
        let message = call.message().await;
        if message["method"] == "elicitation/create" {
            asked += 1;
            stage.session.respond(&message, json!({"action": "decline"})).await;
        } else if message["id"] == call.id {
            break message;
        }
    };
    assert_eq!(asked, 64, "`limits.questions`");
    assert!(text(&answer["result"]).contains("`limits.questions`"), "{answer}");
}
