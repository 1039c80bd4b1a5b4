//! `initialize`, versions, `ping` (L-*).

use serde_json::json;
use toolyard_tests::host::Setup;
use toolyard_tests::session::HEADERS;
use toolyard_tests::{Host, Session, guests, http::Connection};

#[tokio::test]
async fn l_2_l_3_initialize_agrees_on_a_revision_and_says_what_is_offered() {
    let host = Host::with_probe().await;
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let opened = Session::open_as(host.port(), asked, json!({})).await;
        // L-8: the host always has a version to offer.
        assert_eq!(opened.result["protocolVersion"], agreed, "{asked}");
        assert_eq!(opened.result["serverInfo"]["name"], "toolyard");
        assert_eq!(opened.result["capabilities"]["tools"], json!({"listChanged": true}));
        let tasks = &opened.result["capabilities"]["tasks"];
        if agreed == "2025-11-25" {
            // T-1: exactly the requests that may be tasks. F-1: and how the tasks can be listed.
            let filter = json!({
                "methods": ["tools/call"],
                "taskIds": true,
                "status": true,
                "createdAt": {"before": true, "after": true},
                "lastUpdatedAt": {"before": true, "after": true},
                "order": {"by": ["createdAt", "lastUpdatedAt"], "direction": ["asc", "desc"]},
            });
            let list = json!({"filter": filter});
            assert_eq!(*tasks, json!({"list": list, "cancel": {}, "requests": {"tools": {"call": {}}}}));
        } else {
            assert!(tasks.is_null(), "{asked}: no tasks are offered to {agreed}");
        }
    }
}

#[tokio::test]
async fn l_1_malformed_initialize_is_refused_with_what_was_wrong() {
    let host = Host::with_probe().await;
    for (params, says) in [
        (json!({}), "protocolVersion"),
        (
            json!({"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
            "string",
        ),
        (
            json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}}),
            "capabilities",
        ),
        (
            json!({"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": {"name": "x", "version": "1"}}),
            "object",
        ),
        (json!({"protocolVersion": "2025-11-25", "capabilities": {}}), "clientInfo"),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let answer = Connection::open(host.port())
            .await
            .send(hyper::Method::POST, "/mcp", &HEADERS, message.to_string())
            .await;
        assert!(answer.headers.get("mcp-session-id").is_none());
        let error = answer.json().await["error"].take();
        assert_eq!(error["code"], -32602, "{params}");
        assert!(error["message"].as_str().expect("text").contains(says), "{params}: {error}");
    }
}

#[tokio::test]
async fn the_operator_names_the_server_and_instructs_the_model() {
    let setup = Setup::new()
        .with(&[guests::plugin("probe")])
        .set("server.name", "yard")
        .set("server.title", "The Yard")
        .set("server.instructions", "Be brief.");
    let host = setup.start().await;
    let opened = Session::open_as(host.port(), "2025-11-25", json!({})).await;
    assert_eq!(opened.result["serverInfo"]["name"], "yard");
    assert_eq!(opened.result["serverInfo"]["title"], "The Yard");
    assert_eq!(opened.result["instructions"], "Be brief.");
}

#[tokio::test]
async fn l_7_j_9_ping_is_answered_with_an_empty_object_while_a_result_is_awaited() {
    let (_host, session) = Setup::probe().open().await;
    let task = session.create("wait", json!({"ms": 600_000})).await;
    let wait = json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": task}});
    let waiting = session.post(&wait).await;
    assert!(waiting.is_events());
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
    session.result("tasks/cancel", json!({"taskId": task})).await;
    let mut events = waiting.events();
    let status = events.message().await.expect("the end of the task comes first");
    assert_eq!(status["params"]["status"], "cancelled", "T-37");
    assert_eq!(events.message().await.expect("an answer")["id"], "r");
}

/// J-7: `_meta` may be any object.
#[tokio::test]
async fn j_7_unknown_metadata_is_let_pass() {
    let (_host, session) = Setup::probe().open().await;
    let meta = json!({
        "": 1, "plain": null, "com.example/x": [{}], "dev.mcp/reserved": {"a": 1}, "/": "", "a/b/c": 1.5,
        "io.modelcontextprotocol/of-a-later-revision": true,
    });
    assert_eq!(session.result("ping", json!({"_meta": meta})).await, json!({}));
    let call = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": meta});
    assert_eq!(session.result("tools/call", call).await["content"][0]["text"], "x");
    let task = json!({"name": "wait", "arguments": {"ms": 1}, "task": {}, "_meta": meta});
    let id = session.result("tools/call", task).await["task"]["taskId"].take();
    // T-38: if two ids name the task, the one in the params counts.
    let misled =
        json!({"taskId": id, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "other"}}});
    assert_eq!(session.result("tasks/get", misled).await["taskId"], id);
}

#[tokio::test]
async fn tasks_can_be_switched_off_and_plain_calls_go_on() {
    let host = Setup::probe().set("tasks.enabled", "false").start().await;
    let opened = Session::open_as(host.port(), "2025-11-25", json!({})).await;
    assert!(opened.result["capabilities"]["tasks"].is_null());
    let session = opened.session;
    // T-2, X-2: the host ignores the augmentation, even if it is malformed.
    let params = json!({"name": "echo", "arguments": {"text": "hi"}, "task": "nonsense"});
    assert_eq!(session.result("tools/call", params).await["content"][0]["text"], "hi");
    let batch = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    assert_eq!(session.result("tools/call", batch).await["isError"], false);
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        assert_eq!(session.error(method, json!({"taskId": "x"})).await["code"], -32601, "{method}");
    }
    let tools = session.result("tools/list", json!({})).await;
    assert!(tools["tools"].as_array().expect("tools").iter().all(|tool| tool["execution"].is_null()));
}

/// The host offers no tasks to revisions without tasks, and accepts other messages from them.
#[tokio::test]
async fn t_2_older_revisions_are_offered_no_tasks() {
    let host = Host::with_probe().await;
    let session = Session::open_as(host.port(), "2025-06-18", json!({})).await.session;
    let params = json!({"name": "count", "arguments": {"steps": 2, "ms": 1}, "task": {"ttl": 5000}});
    let result = session.result("tools/call", params).await;
    assert!(result["task"].is_null() && result["content"][0]["type"] == "text", "{result}");
    // For a client without tasks, a tool that requires a task runs as a plain call.
    let params = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    assert_eq!(session.result("tools/call", params).await["isError"], false);
    assert_eq!(session.error("tasks/list", json!({})).await["code"], -32601);
}

#[tokio::test]
async fn an_initialize_of_a_further_client_is_a_further_session() {
    let host = Host::with_probe().await;
    let first = Session::open(host.port()).await;
    let second = Session::open(host.port()).await;
    assert_ne!(first.id(), second.id());
    for id in [first.id(), second.id()] {
        // H-22: visible ASCII only, and too long to guess.
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    }
}
