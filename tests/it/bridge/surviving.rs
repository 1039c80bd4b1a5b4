//! Calls without tasks that outlive their host or their client.

use super::{order, setup, text};
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_tests::{Backgrounds, LATEST, Setup, Sink, Stdio, eventually, guests, token};

/// A client that cannot keep its process is killed in the middle of a call. The next client finds the task.
#[tokio::test]
async fn a_call_over_a_pipe_outlives_its_client_with_detach() {
    let sink = Sink::start().await;
    let (folder, args) = setup(&sink).set("bridge.after", "60s").into_parts();
    let folder = Arc::new(folder);
    let _backgrounds = Backgrounds::of(folder.clone());
    let args: Vec<String> = args.into_iter().chain(["--detach".to_owned()]).collect();
    let mut first = Stdio::spawn(folder.clone(), args.clone());
    first.initialize_as(LATEST, json!({})).await;
    first.send("tools/call", json!({"name": "slow", "arguments": order(&sink, "k", 2_000)})).await;
    sink.begun("k", 1).await;
    first.kill().await;

    let mut second = Stdio::spawn(folder, args);
    second.initialize_as(LATEST, json!({})).await;
    let listed = eventually("the task in the list", || async {
        let mut other = second.another();
        other.initialize_as(LATEST, json!({})).await;
        let listed = call(&mut other, "task_list", json!({})).await;
        text(&listed).contains("\"slow\"").then_some(listed)
    })
    .await;
    assert!(text(&listed).contains("running since"), "{listed}");
    let result = call(&mut second, "task_wait", json!({})).await;
    assert!(text(&result).contains("is done. Its result:"), "{result}");
    assert_eq!(result["structuredContent"]["key"], "k", "{result}");
    assert_eq!(sink.of("k").begun, [1], "the guest ran once");
}

async fn call(stdio: &mut Stdio, tool: &str, arguments: Value) -> Value {
    stdio.request("tools/call", json!({"name": tool, "arguments": arguments})).await["result"].clone()
}

/// A tool whose tasks resume, and that posts to the sink in each of its rounds.
fn resuming(sink: &Sink) -> Setup {
    let http = format!("[http]\nallow = [\"127.0.0.1:{}\"]\n", sink.port());
    let setup = Setup::new().with(&[guests::fixture("chances")]).set("bridge.enabled", "true");
    setup.manifest("chances", &format!("[task]\ndurability = \"resume\"\n{http}")).principals(&["alice"])
}

/// A client that is asked by a result makes its call again with the answer, and what it did before stays done.
#[tokio::test]
async fn a_call_that_asks_in_rounds_sends_no_request_again() {
    let sink = Sink::start().await;
    let (_host, client) = resuming(&sink).serve_client().await;
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
