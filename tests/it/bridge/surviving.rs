//! Calls without tasks that outlive their host or their client.

use super::{order, setup};
use crate::resume::RESUME;
use serde_json::json;
use toolyard_tests::{Backgrounds, LATEST, Setup, Sink, Stdio, eventually, text, token};

/// A client that cannot keep its process is killed in the middle of a call. The next client finds the task.
#[tokio::test]
async fn a_call_over_a_pipe_outlives_its_client_with_detach() {
    let sink = Sink::start().await;
    let mut first = Stdio::open(setup(&sink).set("bridge.after", "60s").args(&["--detach"])).await;
    let _backgrounds = Backgrounds::of(first.folder.clone());
    first.send("tools/call", json!({"name": "slow", "arguments": order(&sink, "k", 2_000)})).await;
    sink.begun("k", 1).await;
    first.kill().await;

    let mut second = first.another();
    second.initialize(LATEST).await;
    let listed = eventually("the task in the list", || async {
        let mut other = second.another();
        other.initialize(LATEST).await;
        let listed = other.call("task_list", json!({})).await;
        text(&listed).contains("\"slow\"").then_some(listed)
    })
    .await;
    assert!(text(&listed).contains("running since"), "{listed}");
    let result = second.call("task_wait", json!({})).await;
    assert!(text(&result).contains("is done. Its result:"), "{result}");
    assert_eq!(result["structuredContent"]["key"], "k", "{result}");
    assert_eq!(sink.of("k").begun, [1], "the guest ran once");
}

/// A client that is asked by a result makes its call again with the answer, and what it did before stays done.
#[tokio::test]
async fn a_call_that_asks_in_rounds_sends_no_request_again() {
    let sink = Sink::start().await;
    // Its tasks resume, and it posts to the sink in each of its rounds.
    let manifest = format!("{RESUME}[http]\nallow = [\"127.0.0.1:{}\"]\n", sink.port());
    let setup = Setup::fixture("chances", &manifest).set("bridge.enabled", "true");
    let (_host, client) = setup.principals(&["alice"]).serve_client().await;
    let client = client.declaring(json!({"elicitation": {"form": {}}})).bearing(&token("alice"));
    let order = json!({"rounds": 2, "ask": 1, "port": sink.port(), "key": "k"});
    let mut call = json!({"name": "chances", "arguments": order});
    let asked = client.result("tools/call", call.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().and_then(|asked| asked.keys().next()).expect("a question");
    call["inputResponses"] = json!({key: {"action": "accept", "content": {"n": 3}}});
    call["requestState"] = asked["requestState"].clone();
    let done = client.result("tools/call", call).await;
    assert!(done.to_string().contains("accept"), "{done}");
    assert_eq!(sink.of("k").begun, [0, 1]);
}
