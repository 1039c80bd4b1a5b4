//! Promotion: a long call becomes a task while it runs, and is not started again (26T-3).

use super::steps;
use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Session, guests};

/// A step that writes a line to the host's log.
fn mark(text: &str) -> Value {
    json!({"log": {"level": "error", "data": text}})
}

#[tokio::test]
async fn t_26t_3_a_call_that_takes_long_becomes_a_task_and_is_not_started_again() {
    let (host, client) = scripted().set("tasks.inline-for", "200ms").serve_client().await;
    let work = steps(json!([mark("began once"), {"info": null}, {"sleep": 1500}, {"info": null}]));
    let created = client.result("tools/call", work.clone()).await;
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "working");
    let id = created["taskId"].as_str().expect("an id");
    let task = client.until(id, "completed").await;
    let came = outcome(&task["result"]);
    assert!(came[1].get("taskId").is_none(), "it began as a plain call: {came}");
    assert_eq!(came[3]["taskId"], id, "and ended as this task");
    assert_eq!((&came[1]["attempt"], &came[3]["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(host.log().matches("began once").count(), 1);
    // A client without tasks waits for the result.
    let bare = Client::new(host.port());
    assert_eq!(bare.result("tools/call", work).await["resultType"], "complete");
    // A session decides for itself (26B-10).
    let session = Session::open(host.port()).await;
    let result = session.call("script", json!({"steps": [{"sleep": 400}]})).await;
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn r_26r_4_t_26t_13_a_missing_capability_fails_the_task_that_a_call_became() {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::fixture("script")]);
    let host = setup.set("tasks.inline-for", "100ms").start().await;
    let client = Client::new(host.port()).declaring(everything());
    let steps = json!([{"sleep": 500}, {"missing": {"sampling": {}}}]);
    let id = client.create("script", json!({"steps": steps})).await;
    let task = client.until(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32021, "{task}");
}

#[tokio::test]
async fn t_26t_3_over_the_limit_of_tasks_a_call_goes_on_in_line() {
    let setup = scripted().set("tasks.inline-for", "100ms").set("tasks.live", "1");
    let (_host, client) = setup.serve_client().await;
    let first = client.create("script", json!({"steps": [{"sleep": 600_000}]})).await;
    // There is no room for another task; the call continues anyway.
    let result = client.result("tools/call", steps(json!([{"sleep": 500}, {"begin": null}]))).await;
    assert_eq!(result["resultType"], "complete", "{result}");
    assert!(outcome(&result)[1]["failed"].is_string(), "the guest receives the error: {result}");
    assert_eq!(client.task(&first).await["status"], "working");
}
