//! Guests that crash, and guests that exit without a result.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn crashes() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("hostile_calls")])).await;
    fails!(stage;
        trap_by_unreachable: "unreachable" => ["trapped", "unreachable"],
        read_out_of_bounds: "out_of_bounds" => ["trapped", "out of bounds memory access"],
        call_with_the_wrong_signature: "wrong_signature" => ["trapped", "indirect call type mismatch"],
        // The guest has returned its result; its cleanup function crashes.
        trap_in_post_return: "stick" => ["trapped", "unreachable"],
        exit_with_success: "exit_well" => ["left by `exit` with the code 0"],
        exit_with_failure: "exit_badly" => ["left by `exit` with the code 1"],
    );
    attacks!(stage;
        trap_while_a_question_is_pending, panic_at_length, fail_at_length,
    );
    stage.at_rest().await;
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
