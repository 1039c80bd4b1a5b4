//! Ownership of tasks (26T-25): a principal owns its tasks in both generations. Without a principal, a task
//! belongs to every caller that knows its id, or to the session that created it.

use super::probe;
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::Client;
use toolyard_tests::{Session, Stdio, stateless};

#[tokio::test]
async fn t_26t_25_without_a_principal_the_id_is_the_key_in_either_generation() {
    let (host, client) = probe().await;
    let id = client.complete("batch", json!({"steps": 1, "ms": 1})).await;
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
    let setup = || Setup::probe();
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
    // 26B-9: the session cancels a task that a self-contained request created.
    let call = json!({"name": "batch", "arguments": {"steps": 1, "ms": 600_000}});
    let created = second.request("tools/call", stateless::enveloped(call, &capabilities)).await;
    let running = created["result"]["taskId"].as_str().expect("a task").to_owned();
    let cancelled = second.request("tasks/cancel", json!({"taskId": running})).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
    assert_eq!(second.request("tasks/get", get(&running)).await["result"]["status"], "cancelled");
}
