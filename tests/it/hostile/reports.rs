//! Guests that pass too much, too often, or invalid text to the host functions.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::host::Setup;
use toolyard_tests::{eventually, guests};

const HOSTCALL: &[&str] = &["to the host at once", "`limits.hostcall`"];

#[tokio::test]
async fn reports() {
    let setup = Setup::new().with(&[guests::fixture("hostile_reports")]);
    let setup = setup.manifest("hostile_reports", "[limits]\nmemory = \"128MiB\"\nhostcall = \"16MiB\"\n");
    let stage = Stage::open(setup).await;
    fails!(stage;
        text_that_is_none: "no_text" => ["trapped", "invalid utf-8"],
        text_from_nowhere: "no_memory" => ["trapped", "out of bounds"],
    );
    attacks!(stage;
        huge_strings_to_the_host, large_strings_to_the_host, numbers_that_are_none, json_that_is_none,
        log_flood, progress_flood, status_flood, change_flood, stream_release_flood, task_flood,
        question_flood, ten_thousand_questions_at_once, question_under_a_key_of_the_host, deep_question,
        output_flood, steer_the_terminal,
    );
    stage.at_rest().await;
}

async fn huge_strings_to_the_host(stage: &Stage) {
    for tool in
        ["huge_progress", "huge_status", "huge_log", "huge_logger", "huge_key", "huge_question", "huge_uri"]
    {
        stage.fails(tool, json!({}), HOSTCALL).await;
    }
}

/// The host truncates, drops or rejects each string where it arrives.
async fn large_strings_to_the_host(stage: &Stage) {
    let before = stage.host.log().len();
    let said = stage.said("large_everything", json!({})).await;
    assert!(said.contains("Invalid") && said.contains("1 to 128 visible ASCII characters"), "{said}");
    let params = json!({"name": "large_everything", "arguments": {}, "_meta": {"progressToken": "p"}});
    let (_, notices) = stage.session.request_and_notices("tools/call", params).await;
    let heard: usize = notices.iter().map(|notice| notice.to_string().len()).sum();
    assert!(heard < 200 << 10, "{heard} bytes came to the client");
    let logged = stage.host.log().len() - before;
    assert!(logged < 200 << 10, "{logged} bytes came to the log");
}

async fn numbers_that_are_none(stage: &Stage) {
    let params = json!({"name": "no_numbers", "arguments": {}, "_meta": {"progressToken": "p"}});
    let (answer, notices) = stage.session.request_and_notices("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    for notice in notices {
        assert!(notice["params"]["progress"].is_number(), "{notice}");
    }
}

async fn json_that_is_none(stage: &Stage) {
    let said = stage.said("no_json", json!({})).await;
    assert!(said.contains("the params of the question `odd`"), "{said}");
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
    eventually("the host's log to say it", || async {
        stage.host.log()[before..].contains("setting=\"limits.log\"").then_some(())
    })
    .await;
    assert!(stage.host.log().len() - before < 1 << 20);
}

async fn progress_flood(stage: &Stage) {
    let params = json!({"name": "progress_flood", "arguments": {}, "_meta": {"progressToken": "p"}});
    let (answer, notices) = stage.session.request_and_notices("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let told = notices.iter().filter(|notice| notice["method"] == "notifications/progress");
    let told: Vec<_> = told.map(|notice| notice["params"]["progress"].as_f64()).collect();
    assert!(told.len() < 5_000, "{} of 200,000 left", told.len());
    assert_eq!(told.last(), Some(&Some(199_999.0)), "the latest wins");
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
    let params = json!({"name": "release_flood", "arguments": {}});
    let call =
        json!({"jsonrpc": "2.0", "id": stage.session.next_id(), "method": "tools/call", "params": params});
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
    let told = answer["result"]["content"][0]["text"].to_string();
    assert!(told.contains("`limits.questions`"), "{told}");
}

async fn ten_thousand_questions_at_once(stage: &Stage) {
    let said = stage.said("many_questions", json!({})).await;
    assert!(said.contains("10000 questions at once; 1 to 16 are allowed"), "{said}");
}

async fn question_under_a_key_of_the_host(stage: &Stage) {
    let said = stage.said("key_of_the_host", json!({})).await;
    assert!(said.contains("the key `host:grant` is reserved"), "{said}");
}

async fn deep_question(stage: &Stage) {
    let said = stage.said("deep_question", json!({})).await;
    assert!(said.contains("Invalid"), "{said}");
}

async fn output_flood(stage: &Stage) {
    let before = stage.host.log().len();
    assert_eq!(stage.said("output_flood", json!({})).await, "said");
    eventually("the log to say what was swallowed", || async {
        stage.host.log()[before..].contains("setting=\"limits.stdio\"").then_some(())
    })
    .await;
    assert!(stage.host.log().len() - before < 1 << 20);
}

/// The guest can change neither the terminal of a person who reads the log nor the log itself.
async fn steer_the_terminal(stage: &Stage) {
    assert_eq!(stage.said("steering_output", json!({})).await, "said");
    eventually("the log to have it", || async { stage.host.log().contains("FAKE LOGGED").then_some(()) })
        .await;
    let log = stage.host.log();
    for line in log.lines().filter(|line| line.contains("FAKE")) {
        assert!(!line.trim_start().starts_with("FAKE"), "a line of its own: {line}");
        assert!(!line.trim_start().starts_with("2026-01-01"), "a line of its own: {line}");
    }
    assert!(!log.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\t')), "{log}");
}
