//! The form of an answer over HTTP (26H-11), and the notifications of several requests on one pipe (26S-4).

use super::{script, steps};
use serde_json::json;
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::key;
use toolyard_tests::{Stdio, stateless};

#[tokio::test]
async fn h_26h_11_a_short_answer_is_an_object_and_a_long_one_a_stream_that_ends_with_it() {
    let (_host, client) = script().await;
    let short = client.send(&client.request("tools/call", steps(json!([])))).await;
    assert_eq!(short.header("content-type"), "application/json");
    let long = client.request("tools/call", steps(json!([{"sleep": 500}])));
    let answer = client.send(&long).await;
    assert!(answer.is_events(), "after `wire.stream-after`");
    assert_eq!(answer.header("x-accel-buffering"), "no");
    assert!(answer.header("cache-control").starts_with("no-cache"));
    let mut events = answer.events();
    let response = events.message().await.expect("the response");
    assert_eq!(outcome(&response["result"]), json!([null]));
    assert!(events.message().await.is_none(), "it ends the stream");
}

#[tokio::test]
async fn s_26s_4_on_a_pipe_everything_is_told_apart() {
    let mut stdio = Stdio::start(super::patient(crate::questions::scripted()));
    stdio.initialize("2025-11-25").await;
    let talk = |token: &str| json!([{"progress": {"progress": 1, "message": token}}, {"sleep": 60}, {"progress": {"progress": 2}}]);
    let mut within = steps(talk("within"));
    within["_meta"] = json!({"progressToken": "within"});
    let mut alone = steps(talk("alone"));
    alone["_meta"] = json!({"progressToken": "alone", key::LOG_LEVEL: "error"});
    let first = stdio.send("tools/call", within).await;
    let second = stdio.send("tools/call", stateless::enveloped(alone, &json!({}))).await;
    let mut answers = 0;
    let mut told = Vec::new();
    while answers < 2 {
        let message = stdio.read().await;
        if message["id"] == first || message["id"] == second {
            assert_eq!(message["result"].get("resultType").is_some(), message["id"] == second);
            answers += 1;
        } else {
            told.push(message["params"]["progressToken"].as_str().expect("a token").to_owned());
        }
    }
    assert!(told.contains(&"within".to_owned()) && told.contains(&"alone".to_owned()), "{told:?}");
}
