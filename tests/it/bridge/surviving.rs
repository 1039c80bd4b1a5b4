//! Handed-off work that outlives its host and its client, and calls beyond the limits.

use super::{collect, handed_off, instruction, order, setup, text};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_tests::host::Setup;
use toolyard_tests::session::LATEST;
use toolyard_tests::stateless::{Client, enveloped, tasks};
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Backgrounds, Session, Sink, Stdio, eventually};

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

fn crowded() -> Setup {
    Setup::probe().set("calls.running-per-principal", "4")
}

/// The host refuses none of 100 calls at once: with the extension, those that have to wait become tasks.
#[tokio::test]
async fn a_client_with_the_extension_gets_tasks_instead_of_busy() {
    let (host, client) = crowded().set("bridge.after", "2s").serve_client().await;
    let calls = (0..100).map(|_| async {
        let client = Client::with_tasks(host.port());
        client.result("tools/call", json!({"name": "wait", "arguments": {"ms": 1_000}})).await
    });
    let created: Vec<String> = join_all(calls)
        .await
        .into_iter()
        .filter_map(|result| Some(result["taskId"].as_str()?.to_owned()))
        .collect();
    assert!(created.len() >= 96, "{}", created.len());
    for id in created.iter().take(8) {
        client.until(id, "completed").await;
    }
}

/// The same for sessions without task support: each call ends, or is handed off and ends later.
#[tokio::test]
async fn a_session_without_tasks_gets_results_instead_of_busy() {
    let (_host, session) = crowded().set("bridge.after", "500ms").open().await;
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

/// Without the bridge and the queue, the host refuses clients that declare nothing, as before.
#[tokio::test]
async fn without_bridge_and_queue_the_host_says_that_it_is_busy() {
    let (_host, session) =
        crowded().set("bridge.enabled", "false").set("tasks.queue-when-busy", "false").open().await;
    let calls =
        (0..8).map(|_| session.request("tools/call", json!({"name": "wait", "arguments": {"ms": 500}})));
    let answers = join_all(calls).await;
    let busy = answers.iter().filter(|answer| {
        answer["error"]["message"].as_str().is_some_and(|message| {
            message == "Busy: 4 of your calls are running, the most for one principal; try again later"
        })
    });
    assert_eq!(busy.count(), 4, "{answers:?}");
}

/// A session that supports tasks sees the same with the bridge as without it.
#[tokio::test]
async fn a_session_that_knows_tasks_sees_no_bridge() {
    let mut seen = Vec::new();
    for enabled in ["true", "false"] {
        let host = Setup::probe().set("bridge.enabled", enabled).start().await;
        let session = Session::open_as(host.port(), LATEST, json!({"tasks": {}})).await.session;
        let listed = session.request("tools/list", json!({})).await;
        let required =
            session.request("tools/call", json!({"name": "batch", "arguments": {"steps": 1}})).await;
        let unknown = session.request("tools/call", json!({"name": "task_wait", "arguments": {}})).await;
        seen.push([listed, required, unknown]);
        // A session that shows its task support only later sees the same from then on.
        let session = Session::open(host.port()).await;
        session.error("tasks/get", json!({"taskId": "none"})).await;
        assert_eq!(session.tool_names().await.len(), 12);
        let stateless = Client::with_tasks(host.port());
        let listed = stateless.result("tools/list", enveloped(json!({}), &tasks())).await;
        assert_eq!(listed["tools"].as_array().expect("tools").len(), 12);
    }
    assert_eq!(seen[0], seen[1]);
}
