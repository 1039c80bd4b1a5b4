//! Handed-off work that outlives its host and its client, and calls beyond the limits.

use super::{collect, handed_off, instruction, order, setup, text};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_tests::host::Setup;
use toolyard_tests::session::LATEST;
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Backgrounds, Session, Sink, Stdio, eventually, guests};

/// The host is killed between the hand-off and `task_wait`: the task runs again if its durability allows it;
/// else the client learns why it ended.
#[tokio::test]
async fn a_killed_host_runs_the_task_again_or_says_what_became_of_it() {
    for (durability, is_rerun) in [("rerun", true), ("none", false)] {
        let sink = Sink::start().await;
        let manifest = format!("{}\n[task]\ndurability = \"{durability}\"\n", sink.manifest());
        let setup = setup(&sink).manifest("effects", &manifest).config(&stanza("alice", &[]));
        let mut host = setup.set("bridge.after", "300ms").start().await;
        let session = Session::open_with(host.port(), &token("alice")).await;
        let task = handed_off(&session.call("slow", order(&sink, "k", 1_500)).await);
        host.kill().await;
        let next = host.another().await;
        let session = Session::open_with(next.port(), &token("alice")).await;
        let result = collect(&session, &task).await;
        let runs = sink.of("k").begun.len();
        if is_rerun {
            assert_eq!((result["structuredContent"]["key"].as_str(), runs), (Some("k"), 2), "{result}");
        } else {
            assert!(result["isError"] == true && text(&result).contains("failed: \"The host"), "{result}");
            assert_eq!(runs, 1);
        }
    }
}

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

/// The host refuses none of 100 calls at once: each ends, or is handed off and ends later.
#[tokio::test]
async fn a_session_without_tasks_gets_results_instead_of_busy() {
    let crowded = Setup::probe().set("calls.running-per-principal", "4");
    let (_host, session) = crowded.set("bridge.after", "500ms").open().await;
    let calls = (0..100).map(|_| session.call("wait", json!({"ms": 50})));
    let results = join_all(calls).await;
    let (mut ended, mut handed) = (0, Vec::new());
    for result in &results {
        assert_eq!(result["isError"], false, "{result}");
        if text(result).contains("call task_wait with") {
            handed.push(instruction(result, "task_wait")["task_id"].as_str().expect("an id").to_owned());
        } else {
            ended += 1;
        }
    }
    assert!(ended > 0 && !handed.is_empty(), "{ended} ended, {} handed off", handed.len());
    for task in &handed {
        assert!(text(&collect(&session, task).await).contains("is done"), "{task}");
    }
}

/// A tool whose tasks resume, and that posts to the sink in each of its rounds.
fn resuming(sink: &Sink) -> Setup {
    let http = format!("[http]\nallow = [\"127.0.0.1:{}\"]\n", sink.port());
    let setup = Setup::new().with(&[guests::fixture("chances")]).set("bridge.enabled", "true");
    setup
        .manifest("chances", &format!("[task]\ndurability = \"resume\"\n{http}"))
        .config(&stanza("alice", &[]))
}

/// The call is a task since its first request, so the same call joins it at the next host.
#[tokio::test]
async fn a_repeated_call_of_a_tool_that_resumes_sends_no_request_again() {
    let sink = Sink::start().await;
    let mut host = resuming(&sink).start().await;
    let order = json!({"rounds": 2, "hostSleep": 1_000, "port": sink.port(), "key": "k"});
    let session = Session::open_with(host.port(), &token("alice")).await;
    let call = session.begin("tools/call", json!({"name": "chances", "arguments": order})).await;
    sink.begun("k", 1).await;
    // Its response is durable by then.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    host.kill().await;
    drop(call);
    let next = host.another().await;
    let session = Session::open_with(next.port(), &token("alice")).await;
    let result = session.call("chances", order).await;
    assert!(result["isError"] == false && text(&result).matches("204").count() == 2, "{result}");
    assert_eq!(sink.of("k").begun, [0, 1]);
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
