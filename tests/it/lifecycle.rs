//! Names, settings, revisions and metadata, on which the operator and the client agree (L-*, J-7).

use crate::questions::RELATED;
use serde_json::json;
use toolyard_tests::stateless::{Client, key};
use toolyard_tests::{Session, Setup};

#[tokio::test]
async fn the_operator_names_the_server_and_instructs_the_model() {
    let setup = Setup::probe().set("server.name", "yard").set("server.title", "The Yard");
    let setup = setup.set("server.instructions", "Be brief.").set("wire.cache", "42s");
    let host = setup.start().await;
    let opened = Session::open_as(host.port(), "2025-11-25", json!({})).await;
    assert_eq!(opened.result["serverInfo"]["name"], "yard");
    assert_eq!(opened.result["serverInfo"]["title"], "The Yard");
    assert_eq!(opened.result["instructions"], "Be brief.");
    let found = Client::new(host.port()).result("server/discover", json!({})).await;
    assert_eq!((&found["instructions"], &found["ttlMs"]), (&json!("Be brief."), &json!(42_000)));
    assert_eq!(found["_meta"][key::SERVER]["name"], "yard");
}

/// J-7: `_meta` may be any object. 26J-9: some keys have no prefix.
#[tokio::test]
async fn j_7_unknown_metadata_is_let_pass() {
    let (host, session) = Setup::probe().open().await;
    let client = Client::new(host.port());
    let parent = json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let traced = client.request("tools/list", json!({})).meta("traceparent", parent);
    assert_eq!(client.reply(&traced.meta("baggage", json!("a=b"))).await.status, 200);
    let meta = json!({"": 1, "plain": null, "com.example/x": [{}], "dev.mcp/reserved": {"a": 1}, "/": "",
        "a/b/c": 1.5, "io.modelcontextprotocol/of-a-later-revision": true});
    assert_eq!(session.result("ping", json!({"_meta": meta})).await, json!({}));
    let call = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": meta});
    assert_eq!(session.result("tools/call", call).await["content"][0]["text"], "x");
    let task = json!({"name": "wait", "arguments": {"ms": 1}, "task": {}, "_meta": meta});
    let id = session.result("tools/call", task).await["task"]["taskId"].take();
    // T-38: if two ids name the task, the one in the params counts.
    let misled = json!({"taskId": id, "_meta": {RELATED: {"taskId": "other"}}});
    assert_eq!(session.result("tasks/get", misled).await["taskId"], id);
}

#[tokio::test]
async fn d_26d_7_tasks_can_be_switched_off_and_plain_calls_go_on() {
    let (host, session) = Setup::probe().set("tasks.enabled", "false").open().await;
    let stateless = Client::with_tasks(host.port());
    // T-2, X-2: the host ignores the augmentation, even if it is malformed.
    let params = json!({"name": "echo", "arguments": {"text": "hi"}, "task": "nonsense"});
    assert_eq!(session.result("tools/call", params).await["content"][0]["text"], "hi");
    let batch = json!({"steps": 1, "ms": 1});
    assert_eq!(session.call("batch", batch.clone()).await["isError"], false);
    assert_eq!(stateless.call("batch", batch).await["resultType"], "complete");
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        assert_eq!(session.error(method, json!({"taskId": "x"})).await["code"], -32601, "{method}");
        let refused = stateless.ask(method, json!({"taskId": "x"})).await;
        assert_eq!(refused.refusal(), (404, -32601), "{method}");
    }
    let tools = session.result("tools/list", json!({})).await;
    assert!(tools["tools"].as_array().expect("tools").iter().all(|tool| tool["execution"].is_null()));
}
