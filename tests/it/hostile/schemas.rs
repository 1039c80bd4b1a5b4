//! Values that are cheap to send and expensive to check: recursive schemas, products of schemas and items,
//! and messages of the maximal size.

use super::stage::Stage;
use serde_json::json;
use std::time::{Duration, Instant};
use toolyard_tests::{Session, Setup, guests};

#[tokio::test]
async fn schemas() {
    let limits = "[limits]\ncpu = \"500ms\"\nwall = \"20s\"\n";
    let setup = Setup::new().with(&[guests::fixture("hostile_schemas")]).manifest("hostile_schemas", limits);
    let stage = Stage::open(setup).await;
    attacks!(stage;
        multiply_schemas_and_items, multiply_them_in_a_result, hang_up_during_long_checks, create_tasks_that_take_long_to_check, send_large_messages,
    );
    stage.at_rest().await;
}

/// 800 million comparisons for a megabyte of arguments.
async fn multiply_schemas_and_items(stage: &Stage) {
    let arguments = json!({"a": vec![3_999; 200_000]});
    stage.fails("product", arguments, &["check of the arguments", "`limits.cpu`"]).await;
}

async fn multiply_them_in_a_result(stage: &Stage) {
    stage.fails("output_product", json!({}), &["processor time limit", "`limits.cpu`"]).await;
}

/// A client without a session cancels by hanging up; the check ends with the connection.
async fn hang_up_during_long_checks(stage: &Stage) {
    let arguments = json!({"a": vec![3_999; 200_000]});
    let call = json!({"name": "product", "arguments": arguments});
    let session = Session::open(stage.host.port()).await;
    for _ in 0..4 {
        let body = session.message("tools/call", call.clone());
        drop(tokio::time::timeout(Duration::from_millis(20), session.post(&body)).await);
    }
}

/// T-14: the host creates a task only after it has checked the arguments.
async fn create_tasks_that_take_long_to_check(stage: &Stage) {
    let call = json!({"name": "product", "arguments": {"a": vec![3_999; 200_000]}, "task": {}});
    let answer = stage.session.request("tools/call", call).await;
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("`limits.cpu`"), "{message}");
}

/// Messages of 7 MiB without meaning, six at a time.
async fn send_large_messages(stage: &Stage) {
    let large = json!({"name": "select", "arguments": {"condition": vec![json!({}); 2_300_000]}});
    let begun = Instant::now();
    let send = || async {
        let answer = stage.session.request("tools/call", large.clone()).await;
        assert_eq!(answer["result"]["isError"], true);
    };
    tokio::join!(send(), send(), send(), send(), send(), send());
    eprintln!("six messages of 7 MiB were read and refused in {:?}", begun.elapsed());
}
