//! The tasks extension (26T): which requests become tasks, and whose they are.

use super::probe;
use crate::questions::scripted;
use serde_json::json;
use toolyard_tests::Session;
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::{Client, TASKS, key};

#[tokio::test]
async fn t_26t_1_t_26t_2_t_26t_3_the_server_decides_if_the_request_says_that_it_may() {
    let (host, client) = probe().await;
    let batch = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    let created = client.result("tools/call", batch.clone()).await;
    assert_eq!(created["resultType"], "task");
    let listed = client.result("tools/list", json!({})).await;
    // 26T-4, 26B-15, 26B-16: without the extension, the host rejects a call that must be a task, and runs one
    // that may be a task as a plain call.
    for capabilities in [json!({}), json!({"tasks": {"requests": {"tools": {"call": {}}}}})] {
        let bare = Client::new(host.port()).declaring(capabilities.clone());
        let reply = bare.ask("tools/call", batch.clone()).await;
        assert_eq!(reply.refusal(), (400, -32021), "26B-10: {capabilities}");
        let required = &reply.message["error"]["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"extensions": {TASKS: {}}}));
        let result = bare.call("count", json!({"steps": 2, "ms": 1})).await;
        assert_eq!(result["resultType"], "complete", "{capabilities}");
        assert_eq!(bare.result("tools/list", json!({})).await, listed, "26C-6");
    }
    // 26R-6: just before, the same client declared the capability.
    let able = client
        .request("tools/call", batch)
        .meta(key::CAPABILITIES, json!({"extensions": {TASKS: {"later": 1}}}));
    assert_eq!(client.reply(&able).await.result()["resultType"], "task", "whatever members it has");
    // 26TL-4: fast work is answered at once; the params of sessions do not ask for a task.
    let wish =
        json!({"name": "count", "arguments": {"steps": 1, "ms": 1}, "task": {"ttl": 5000}, "other": 5});
    assert_eq!(client.result("tools/call", wish).await["resultType"], "complete");
    // The opposite of T-14 in sessions: the model has to correct arguments that do not match the schema.
    let misfit = client.call("batch", json!({"steps": "one"})).await;
    assert_eq!((&misfit["resultType"], &misfit["isError"]), (&json!("complete"), &json!(true)), "26H-9");
    // 26J-7: the codes of the specification are not a guest's to give.
    let reserved = json!({"name": "protocol_error", "arguments": {"code": -32020, "message": "odd"}});
    let error = client.error("tools/call", reserved).await;
    assert_eq!((&error["code"], &error["data"]["guestCode"]), (&json!(-32603), &json!(-32020)));
}

#[tokio::test]
async fn t_26t_4_t_26t_5_what_is_forbidden_or_no_tool_never_becomes_a_task() {
    let setup = scripted().manifest("script", "[tools.script]\ntask-support = \"forbidden\"\n");
    let (_host, client) = setup.set("tasks.inline-for", "0s").serve_client().await;
    let arguments = json!({"steps": [{"begin": null}, {"sleep": 400}, {"info": null}]});
    let result = client.call("script", arguments).await;
    assert_eq!(result["resultType"], "complete");
    assert!(outcome(&result)[2].get("taskId").is_none(), "{result}");
    let read = client.result("resources/read", json!({"uri": "script:ask"})).await;
    assert_eq!(read["resultType"], "complete");
}

#[tokio::test]
async fn t_41_t_26t_25_without_a_token_a_task_of_a_session_is_that_sessions_alone() {
    let (host, client) = probe().await;
    let session = Session::open(host.port()).await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let request = client.request(method, json!({"taskId": id, "inputResponses": {}}));
        // Naming the session does not help either: the host ignores the name, even an unknown one (26B-2).
        let naming = |id: &str| request.clone().header("mcp-session-id", id);
        for request in [naming(session.id()), naming("nobody"), request] {
            assert_eq!(client.reply(&request).await.refusal(), (200, -32602), "{method}");
        }
    }
    let (_, granted) = client.listen(json!({"taskIds": [id], "toolsListChanged": true})).await;
    assert!(granted.get("taskIds").is_none_or(|none| *none == json!([])), "{granted}");
    let other = Session::open(host.port()).await;
    assert_eq!(other.error("tasks/get", json!({"taskId": id})).await["message"], "Task not found");
    assert_eq!(other.result("tasks/list", json!({})).await["tasks"], json!([]));
    assert_eq!(session.task(&id).await["status"], "working");
}
