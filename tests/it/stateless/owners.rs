//! Ownership of tasks (26T-25): a principal owns its tasks in both generations. Without a principal, a task
//! belongs to every caller that knows its id, or to the session that created it.

use super::{patient, probe};
use crate::questions::{accepted, form, scripted};
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Host, Session, Stdio, guests, stateless};

const NOBODY: &str = "786512e2-9e0d-44bd-8f29-789f320fe840";

async fn shared() -> Host {
    let config = [stanza("alice", &[]), stanza("bob", &[])].concat();
    patient(scripted()).with(&[guests::plugin("probe")]).config(&config).start().await
}

fn of(host: &Host, name: &str) -> Client {
    Client::new(host.port()).declaring(everything()).bearing(&token(name))
}

#[tokio::test]
async fn t_26t_25_a_26a_1_anothers_task_is_as_unknown_as_one_that_there_is_not() {
    let host = shared().await;
    let (alice, bob) = (of(&host, "alice"), of(&host, "bob"));
    let id = alice.create("script", json!({"steps": [{"begin": null}, {"ask": [form("a")]}]})).await;
    let task = alice.until(&id, "input_required").await;
    let key = task["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a key").clone();
    let mut told = Vec::new();
    for known in [id.as_str(), NOBODY] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({"taskId": known, "inputResponses": {&key: {"action": "decline"}}});
            let reply = bob.ask(method, params).await;
            assert_eq!(reply.refusal(), (200, -32602), "{method}");
            told.push(reply.error());
        }
    }
    assert!(told.iter().all(|error| *error == told[0]), "{told:?}");
    // 26T-24: nor does listening reveal it.
    let (listening, granted) = bob.listen(json!({"taskIds": [id]})).await;
    assert!(granted.get("taskIds").is_none_or(|none| *none == json!([])), "{granted}");
    assert_eq!(listening.rest().await.len(), 1, "its end alone");
    assert_eq!(alice.task(&id).await["inputRequests"], task["inputRequests"], "nothing came of it");
    alice.update(&id, json!({key: accepted()})).await;
    alice.until(&id, "completed").await;
    // The same in a session of the other principal.
    let session = Session::open_with(host.port(), &token("bob")).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(session.error(method, json!({"taskId": id})).await["code"], -32602);
    }
    assert_eq!(session.result("tasks/list", json!({})).await["tasks"], json!([]));
}

#[tokio::test]
async fn t_26t_25_without_a_principal_the_id_is_the_key_in_either_generation() {
    let (host, client) = probe().await;
    let id = client.create("batch", json!({"steps": 1, "ms": 1})).await;
    client.until(&id, "completed").await;
    let other = Client::with_tasks(host.port());
    assert_eq!(other.task(&id).await["status"], "completed", "every caller that knows the id");
    let session = Session::open(host.port()).await;
    assert_eq!(session.task(&id).await["status"], "completed", "in a session, too");
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], "counted 1");
    assert_eq!(
        session.result("tasks/list", json!({})).await["tasks"],
        json!([]),
        "but it is not among its own"
    );
    let running = client.create("batch", json!({"steps": 1, "ms": 600_000})).await;
    assert_eq!(session.result("tasks/cancel", json!({"taskId": running})).await["status"], "cancelled");
    client.until(&running, "cancelled").await;
}

#[tokio::test]
async fn t_26t_25_a_task_of_a_session_is_that_sessions_alone() {
    let (host, client) = probe().await;
    let session = Session::open(host.port()).await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let request = client.request(method, json!({"taskId": id, "inputResponses": {}}));
        // Naming the session does not help either: the host ignores it for such a request (26B-2).
        let naming = request.clone().header("mcp-session-id", session.id());
        for request in [request, naming] {
            assert_eq!(client.reply(&request).await.refusal(), (200, -32602), "{method}");
        }
    }
    let (_, granted) = client.listen(json!({"taskIds": [id], "toolsListChanged": true})).await;
    assert!(granted.get("taskIds").is_none_or(|none| *none == json!([])), "{granted}");
    assert_eq!(session.task(&id).await["status"], "working");
}

#[tokio::test]
async fn t_26t_25_the_tasks_of_a_pipe_are_the_users_whoever_asks_and_how() {
    let setup = || Setup::new().with(&[guests::plugin("probe")]);
    let mut first = Stdio::start(setup());
    let capabilities = stateless::tasks();
    let call = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    let created = first.request("tools/call", stateless::enveloped(call, &capabilities)).await;
    let id = created["result"]["taskId"].as_str().expect("a task").to_owned();
    let get = |id: &str| stateless::enveloped(json!({"taskId": id}), &capabilities);
    let done: Value = loop {
        let task = first.request("tasks/get", get(&id)).await["result"].take();
        if task["status"] == "completed" {
            break task;
        }
    };
    first.close().await;
    // 26S-3: another process, and then a session in it.
    let mut second = first.another();
    assert_eq!(second.request("tasks/get", get(&id)).await["result"], done);
    second.initialize("2025-11-25").await;
    let task = second.request("tasks/get", json!({"taskId": id})).await;
    assert_eq!(task["result"]["status"], "completed");
    let listed = second.request("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id.as_str());
}
