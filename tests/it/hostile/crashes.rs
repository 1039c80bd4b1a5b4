//! Guests that crash, and guests that exit without a result.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn crashes() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("hostile_calls")])).await;
    attacks!(stage;
        trap_by_unreachable,
        read_out_of_bounds,
        call_with_the_wrong_signature,
        trap_in_post_return,
        trap_while_a_question_is_pending,
        exit_with_success,
        exit_with_failure,
        panic_at_length,
        fail_at_length,
    );
    stage.at_rest().await;
}

async fn trap_by_unreachable(stage: &Stage) {
    stage.fails("unreachable", json!({}), &["trapped", "unreachable"]).await;
}

async fn read_out_of_bounds(stage: &Stage) {
    stage.fails("out_of_bounds", json!({}), &["trapped", "out of bounds memory access"]).await;
}

async fn call_with_the_wrong_signature(stage: &Stage) {
    stage.fails("wrong_signature", json!({}), &["trapped", "indirect call type mismatch"]).await;
}

/// The guest has returned its result; its cleanup function crashes.
async fn trap_in_post_return(stage: &Stage) {
    stage.fails("stick", json!({}), &["trapped", "unreachable"]).await;
}

/// The answer to its question crashes the guest before the guest receives it.
async fn trap_while_a_question_is_pending(stage: &Stage) {
    let call = json!({"name": "ask_and_trap", "arguments": {}});
    let mut call = stage.session.begin("tools/call", call).await;
    let asked = call.next_of("elicitation/create").await;
    let long = json!({"action": "accept", "content": {"word": "x".repeat(10_000)}});
    stage.session.respond(&asked, long).await;
    let told = call.answer().await.0["result"]["content"][0]["text"].to_string();
    assert!(told.contains("trapped") && told.contains("unreachable"), "{told}");
}

async fn exit_with_success(stage: &Stage) {
    stage.fails("exit_well", json!({}), &["left by `exit` with the code 0"]).await;
}

async fn exit_with_failure(stage: &Stage) {
    stage.fails("exit_badly", json!({}), &["left by `exit` with the code 1"]).await;
}

/// The host bounds the panic message in the log, and escapes control sequences.
async fn panic_at_length(stage: &Stage) {
    stage.fails("panic_at_length", json!({}), &["trapped", "unreachable"]).await;
    toolyard_tests::eventually("the log to say what was swallowed", || async {
        stage.host.log().contains("setting=\"limits.stdio\"").then_some(())
    })
    .await;
    assert!(!stage.host.log().contains('\u{1b}'), "nothing steers the terminal");
}

async fn fail_at_length(stage: &Stage) {
    let told = stage.failure("fail_at_length", json!({})).await;
    assert!(told.starts_with("xxx") && told.len() <= 8 << 10, "{} bytes", told.len());
}
