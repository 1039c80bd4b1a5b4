//! Guests that return results that are too large, too deep, not JSON, not text, or not as declared.

use super::stage::Stage;
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn results() {
    let setup = Setup::new().with(&[guests::fixture("hostile_results")]);
    let stage = Stage::open(setup.manifest("hostile_results", "[limits]\nmemory = \"256MiB\"\n")).await;
    fails!(stage;
        // Ten mebibytes of a character that takes six bytes in JSON.
        result_that_grows_when_it_is_encoded:
            "large_text" => ["output limit of 8.0 MiB", "`limits.output`"],
        // Readers disagree on a duplicate name: the host accepts neither value.
        result_with_two_types: "second_type" => ["malformed", "\"type\" twice"],
    );
    attacks!(stage;
        huge_result, huge_image, hundred_thousands_of_blocks, deep_result, wide_result,
        result_that_is_no_json, result_that_injects_members, result_without_type, result_that_is_no_text,
        result_that_speaks_for_the_host, result_that_lies, odd_errors,
    );
    stage.at_rest().await;
}

/// More than a host call may carry, or than a result may hold.
async fn huge_result(stage: &Stage) {
    let told = stage.failure("huge_text", json!({})).await;
    assert!(told.contains("`limits.output`") || told.contains("`limits.hostcall`"), "{told}");
}

async fn huge_image(stage: &Stage) {
    let told = stage.failure("huge_blob", json!({})).await;
    assert!(told.contains("`limits.output`") || told.contains("`limits.hostcall`"), "{told}");
}

async fn hundred_thousands_of_blocks(stage: &Stage) {
    let told = stage.failure("a_million_blocks", json!({})).await;
    assert!(told.contains("`limits.output`") || told.contains("`limits.hostcall`"), "{told}");
}

async fn deep_result(stage: &Stage) {
    stage.fails("deep_structure", json!({}), &["malformed", "`structured-content`"]).await;
    stage.fails("deep_block", json!({}), &["malformed", "`other`"]).await;
}

async fn wide_result(stage: &Stage) {
    let answer = stage.answer("wide_structure", json!({})).await;
    assert!(answer["result"].is_object(), "an answer, whether it fits or not");
}

async fn result_that_is_no_json(stage: &Stage) {
    for (tool, says) in [
        ("half_an_object", "`structured-content`"),
        ("two_objects", "`structured-content`"),
        ("an_array", "`structured-content` is not a JSON object"),
        ("infinity", "`structured-content`"),
        ("half_a_meta", "`meta`"),
        ("half_annotations", "`annotations` is not a JSON object"),
    ] {
        stage.fails(tool, json!({}), &["malformed", says]).await;
    }
}

/// Text behind an object does not become part of the answer.
async fn result_that_injects_members(stage: &Stage) {
    let answer = stage.answer("two_objects", json!({})).await;
    assert!(answer["result"].get("injected").is_none() && answer.get("injected").is_none(), "{answer}");
    let answer = stage.answer("same_names", json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
}

async fn result_without_type(stage: &Stage) {
    stage.fails("block_without_type", json!({}), &["malformed", "no `type`"]).await;
    stage.fails("link_without_target", json!({}), &["malformed", "no `uri`"]).await;
}

async fn result_that_is_no_text(stage: &Stage) {
    stage.fails("no_text", json!({}), &["trapped", "invalid utf-8"]).await;
    stage.fails("no_error_text", json!({}), &["trapped", "invalid utf-8"]).await;
}

/// Only the host says which task a result belongs to.
async fn result_that_speaks_for_the_host(stage: &Stage) {
    let answer = stage.answer("meta_of_the_host", json!({})).await;
    assert!(!answer.to_string().contains("of-somebody-else"), "{answer}");
}

async fn result_that_lies(stage: &Stage) {
    stage.fails("lie_by_type", json!({}), &["malformed", "does not fit its output schema"]).await;
    stage.fails("lie_by_absence", json!({}), &["malformed", "asks for structured content"]).await;
}

async fn odd_errors(stage: &Stage) {
    let told = stage.failure("odd_errors", json!({})).await;
    assert!(told.len() <= 8 << 10, "{} bytes", told.len());
    stage.fails("odd_wants", json!({}), &["needs a capability that the client does not have"]).await;
}
