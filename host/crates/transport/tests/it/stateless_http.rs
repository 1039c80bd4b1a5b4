//! 2026-07-28 over HTTP, on real sockets, with tools written in Rust: how the server distinguishes its
//! requests from those of sessions, the order of the checks, and how a request ends.

use crate::kit::client::{Answer, serve};
use crate::kit::request::{able, request};
use crate::kit::server::{Gone, catalog, clock, nobody_is_asked, quick, server, server_with, tool, waiting};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use toolyard_dispatch::{RawJson, TaskSupport};
use toolyard_kit::done;
use toolyard_protocol::stateless::{META_SERVER_INFO, META_SUBSCRIPTION};
use toolyard_task::Tool;
use toolyard_task::tool::Report;
use toolyard_transport::Server;
use toolyard_transport::auth::{self, Auth, TokenSettings};
use toolyard_transport::http::host_origin::AllowedNames;

/// The refusal, as HTTP and JSON-RPC express it.
async fn refusal(answer: Answer) -> (u16, i64) {
    let status = answer.status.as_u16();
    (status, answer.json().await["error"]["code"].as_i64().unwrap_or_default())
}

#[tokio::test]
async fn t_26d_1_26j_5_26c_5_discover_is_answered_without_a_session() {
    let served = serve(server(vec![quick()])).await;
    let answer = served.post(&request(json!("d1"), "server/discover", json!({}), &json!({}))).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.get("mcp-session-id").is_none(), "26H-12");
    let answer = answer.json().await;
    assert_eq!(answer["id"], "d1");
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["_meta"][META_SERVER_INFO], json!({"name": "test", "version": "1"}));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(10_000), &json!("public")));
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
    "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

#[tokio::test]
async fn l_6_a_session_that_begins_while_components_compile_is_told_of_all_lists() {
    let server = server(vec![quick()]);
    let served = serve(server.clone()).await;
    for (loading, declared) in [(vec!["late.wasm".to_owned()], true), (Vec::new(), false)] {
        server.dispatch.catalog().set_loading(loading);
        let answer = served.post_text(&[], INITIALIZE).await.json().await;
        let capabilities = answer["result"]["capabilities"].as_object().expect("capabilities").clone();
        for list in ["prompts", "resources"] {
            assert_eq!(capabilities.contains_key(list), declared, "{capabilities:?}");
        }
    }
}

/// A server with two tokens, each for its own subject.
fn guarded(tools: Vec<Arc<dyn Tool>>) -> Arc<Server> {
    let server = server(tools);
    let token = |name: &str| TokenSettings {
        name: name.to_owned(),
        sha256: Sha256::digest(name).into(),
        scopes: Vec::new(),
        expires: None,
        local: false,
    };
    let settings = auth::AuthSettings { tokens: vec![token("alice"), token("bob")], ..nobody_is_asked() };
    server.access.replace(Auth::new(settings, clock(), "test"), AllowedNames::default());
    server
}

#[tokio::test]
async fn t_26c_5_26t_25_26a_1_where_people_are_told_apart_lists_and_tasks_are_their_own() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Required);
    let served = serve(guarded(vec![waiting])).await;
    let list = request(json!(1), "tools/list", json!({}), &able());
    assert_eq!(served.post(&list).await.status, 401);
    let listed = served.post_as("alice", &list).await.json().await;
    assert_eq!(listed["result"]["cacheScope"], "private");
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &able());
    let created = served.post_as("alice", &call).await.json().await;
    assert_eq!(tells.recv().await, Some("begun"));
    let id = json!({"taskId": created["result"]["taskId"]});
    let get = request(json!(2), "tasks/get", id.clone(), &able());
    assert_eq!(served.post_as("alice", &get).await.json().await["result"]["status"], "working");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let mut params = id.clone();
        params["inputResponses"] = json!({});
        let foreign = served.post_as("bob", &request(json!(2), method, params, &able())).await;
        assert_eq!(foreign.json().await["error"]["code"], -32602, "{method}");
    }
    let wanted = json!({"notifications": {"taskIds": [id["taskId"]]}});
    let listen = request(json!("L"), "subscriptions/listen", wanted, &able());
    let mut listening = served.post_as("bob", &listen).await;
    let acknowledged = listening.message().await.expect("an acknowledgement");
    assert_eq!(acknowledged["params"]["notifications"], json!({}), "26T-24");
    go.notify_one();
    assert_eq!(tells.recv().await, Some("gone"));
    served.stopped().await;
}

/// Each request has one error and all later ones, which shows the order of the checks (26H-14).
#[tokio::test]
async fn t_26h_14_26h_8_26r_3_26h_4_what_is_wrong_is_said_in_this_order() {
    let only_tasks = tool("only_tasks", TaskSupport::Required, |_| async { done("x") });
    let served = serve(server(vec![quick(), only_tasks])).await;
    let version = ("mcp-protocol-version", "2026-07-28");
    let other = ("mcp-protocol-version", "1900-01-01");
    let method = ("mcp-method", "nothing/such");
    let nowhere = request(json!(1), "nothing/such", json!({}), &json!({})).to_string();
    let unserved = nowhere.replace("2026-07-28", "1900-01-01");
    let legacy = nowhere.replace("2026-07-28", "2025-11-25");
    let no_capabilities = r#"{"jsonrpc":"2.0","id":1,"method":"nothing/such","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}}"#;
    let no_version = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let whole = request(json!(1), "initialize", json!({}), &json!({})).to_string();
    let tasks = request(json!(1), "tasks/get", json!({"taskId": "x"}), &json!({})).to_string();
    let region = json!({"name": "quick", "arguments": {"region": "eu"}});
    let call = request(json!(1), "tools/call", region, &json!({})).to_string();
    let required = call.replace("quick", "only_tasks");
    let nameless = request(json!(1), "tools/call", json!({}), &json!({})).to_string();
    let (get, calls) = (("mcp-method", "tasks/get"), ("mcp-method", "tools/call"));
    let (quick, eu) = (("mcp-name", "quick"), ("mcp-param-region", "eu"));
    let batch = format!("[{nowhere}]");
    for (headers, body, expected) in [
        (&[version][..], "{", (400, -32700)),
        (&[version], "[]", (400, -32600)),
        (&[version], batch.as_str(), (400, -32600)),
        (&[], batch.as_str(), (400, -32600)),
        (&[version], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, (400, -32600)),
        // 26H-6: for a body with an envelope, the host does not guess the version.
        (&[], no_capabilities, (400, -32020)),
        (&[version], no_capabilities, (400, -32020)),
        (&[other], no_capabilities, (400, -32602)),
        (&[other], unserved.as_str(), (400, -32022)),
        (&[("mcp-protocol-version", "2025-11-25")], legacy.as_str(), (400, -32022)),
        (&[version], no_version, (400, -32602)),
        (&[version], INITIALIZE, (400, -32020)),
        (&[version], nowhere.as_str(), (400, -32020)),
        (&[version, method], nowhere.as_str(), (404, -32601)),
        (&[version, ("mcp-method", "initialize")], whole.as_str(), (404, -32601)),
        (&[version, get], tasks.as_str(), (400, -32020)),
        // 26X-7: methods of tasks need an envelope, too.
        (&[version, get, ("mcp-name", "x")], tasks.as_str(), (400, -32021)),
        // 26XH-2: an argument is repeated once and as it is.
        (&[version, calls, quick, ("mcp-param-region", "us")], call.as_str(), (400, -32020)),
        (&[version, calls, quick, eu, eu], call.as_str(), (400, -32020)),
        (&[version, calls, ("mcp-name", "only_tasks")], required.as_str(), (400, -32021)),
        (&[version, calls], nameless.as_str(), (200, -32602)),
        (&[version, calls, quick, eu], call.as_str(), (200, 0)),
    ] {
        let answer = served.post_text(headers, body).await;
        assert_eq!(refusal(answer).await, expected, "{headers:?} {body}");
    }
}

#[tokio::test]
async fn t_26j_8_what_was_removed_is_unknown_and_answered_by_id() {
    let served = serve(server(vec![quick()])).await;
    // 26T-7, 26X-8: the host does not answer `roots/list` with a question either. The last three are methods of
    // capabilities that no plugin in this test offers.
    let removed = "initialize ping logging/setLevel resources/subscribe resources/unsubscribe tasks/list \
                   tasks/result roots/list no/such/method tools/Call prompts/list resources/read \
                   completion/complete";
    for method in removed.split(' ').chain([""]) {
        let answer = served.post(&request(json!(method), method, json!({}), &able())).await;
        assert_eq!(answer.status, 404, "{method}");
        let answer = answer.json().await;
        // 26H-15: clients go by the id.
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32601), &json!(method)));
    }
}

/// A request without an envelope and without such headers is answered as before, and an unknown version is
/// refused before anything else.
#[tokio::test]
async fn t_26b_1_26b_3_what_is_of_sessions_stays_as_it_was_and_refusals_say_what_to_change() {
    const UNSPOKEN: &str = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Bad request: unsupported MCP-Protocol-Version; this server speaks 2025-11-25, 2025-06-18, 2025-03-26"}}"#;
    const NO_SESSION: &str = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Bad request: the MCP-Session-Id header is required; initialize first"}}"#;
    let served = serve(server(vec![quick()])).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let unspoken = ("mcp-protocol-version", "1900-01-01");
    for (headers, body, status, says) in [
        (&[unspoken][..], list, 400, UNSPOKEN),
        (&[unspoken], "{", 400, UNSPOKEN),
        (&[unspoken], "[]", 400, UNSPOKEN),
        (&[unspoken], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 400, UNSPOKEN),
        (&[("mcp-protocol-version", "2026-07-28, 2025-11-25")], list, 400, UNSPOKEN),
        (&[], list, 400, NO_SESSION),
        (&[], discover, 400, NO_SESSION),
        (&[("mcp-protocol-version", "2025-11-25")], list, 400, NO_SESSION),
        (&[], batch, 400, "batches belong to 2025-03-26: send one message"),
        (&[("origin", "https://evil.example")], INITIALIZE, 403, "add it to `origins` in [http]"),
        // Two `Host` headers name no server.
        (&[("host", "tools.example")], INITIALIZE, 403, "add its name to `hosts` in [http]"),
    ] {
        let answer = served.post_text(headers, body).await;
        assert_eq!(answer.status, status, "{headers:?} {body}");
        let text = answer.text().await;
        assert!(text.contains(says), "{headers:?} {body}: {text}");
    }
}

#[tokio::test]
async fn t_26h_10_notifications_are_accepted_unless_their_headers_say_otherwise() {
    let served = serve(server(vec![quick()])).await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let version = ("mcp-protocol-version", "2026-07-28");
    for (headers, expected) in [
        (&[version][..], 202),
        (&[version, ("mcp-method", "notifications/cancelled")], 202),
        (&[version, ("mcp-method", "notifications/initialized")], 400),
        // It belongs to a session, but names none.
        (&[], 400),
    ] {
        assert_eq!(served.post_text(headers, cancelled).await.status, expected, "{headers:?}");
    }
    let mut claimed = request(json!(1), "notifications/cancelled", json!({"requestId": 1}), &json!({}));
    claimed.as_object_mut().expect("an object").remove("id");
    for (headers, expected) in [(&[("mcp-protocol-version", "2025-11-25")][..], 400), (&[], 202)] {
        assert_eq!(served.post_text(headers, &claimed.to_string()).await.status, expected, "{headers:?}");
    }
    let response = r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#;
    assert_eq!(served.post_text(&[], response).await.status, 400, "a response belongs to a session");
}

#[tokio::test]
async fn t_26h_11_26h_12_26c_3_what_takes_long_is_a_stream_without_ids() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Forbidden);
    let served = serve(server(vec![waiting])).await;
    let params = json!({"name": "waiting", "_meta": {"progressToken": "t"}});
    let headers_ignored = json!({"elicitation": {}});
    let mut answer = served.post(&request(json!(0), "tools/call", params, &headers_ignored)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    let progress = answer.message().await.expect("progress");
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"], json!({"progressToken": "t", "progress": 1.0}));
    let same = served.post(&request(json!(0), "server/discover", json!({}), &json!({}))).await;
    assert_eq!(same.json().await["id"], 0, "26J-3: requests are told apart by their connections");
    go.notify_one();
    let result = answer.message().await.expect("the result");
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(0), &json!("complete")));
    assert_eq!(answer.event().await, None, "the response ends the stream");
    assert_eq!((tells.recv().await, tells.recv().await), (Some("begun"), Some("gone")));
    served.stopped().await;
}

#[tokio::test]
async fn t_26h_11_comments_keep_a_silent_stream_open() {
    let (waiting, go, _tells) = waiting(TaskSupport::Forbidden);
    let served = serve(server_with(vec![waiting], |wire| wire.keep_alive = Duration::from_millis(50))).await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = served.post(&request(json!("L"), "subscriptions/listen", listen, &json!({}))).await;
    assert!(listening.message().await.is_some(), "an acknowledgement");
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &json!({}));
    let mut calling = served.post(&call).await;
    for stream in [&mut listening, &mut calling] {
        assert_eq!(stream.event().await.as_deref(), Some(": keep-alive"));
    }
    go.notify_one();
    served.stopped().await;
}

#[tokio::test]
async fn t_26t_10_26h_13_a_call_that_becomes_a_task_in_its_stream_outlives_the_stream() {
    let (go, (told, mut tells)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let signal = go.clone();
    let late = tool("late", TaskSupport::Optional, move |context| {
        let (go, gone) = (signal.clone(), Gone(told.clone()));
        async move {
            go.notified().await;
            context.begin_task().await.expect("it may become one");
            gone.0.send("begun").expect("the test listens");
            go.notified().await;
            done("x")
        }
    });
    let served = serve(server(vec![late])).await;
    let call = request(json!(1), "tools/call", json!({"name": "late"}), &able());
    let mut answer = served.post(&call).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    go.notify_one();
    let created = answer.message().await.expect("the handle");
    assert_eq!(created["result"]["resultType"], "task");
    assert_eq!(answer.event().await, None);
    drop(answer);
    assert_eq!(tells.recv().await, Some("begun"));
    let get = request(json!(2), "tasks/get", json!({"taskId": created["result"]["taskId"]}), &able());
    let got = served.post(&get).await.json().await;
    assert_eq!(got["result"]["status"], "working", "it was handed out");
    go.notify_one();
    assert_eq!(tells.recv().await, Some("gone"));
    served.stopped().await;
}

#[tokio::test]
async fn t_26t_9_26t_14_26t_20_26h_13_a_task_outlives_the_connection_that_told_of_it() {
    let (waiting, _go, mut tells) = waiting(TaskSupport::Required);
    let served = serve(server(vec![waiting, quick()])).await;
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &able());
    let unable = request(json!(1), "tools/call", json!({"name": "waiting"}), &json!({}));
    assert_eq!(refusal(served.post(&unable).await).await, (400, -32021), "26R-4");
    // 26D-3: no request has to come first.
    let created = served.post(&call).await;
    assert_eq!(created.status, 200);
    let created = created.json().await;
    assert_eq!(created["result"]["resultType"], "task");
    let id = created["result"]["taskId"].as_str().expect("an id").to_owned();
    assert_eq!(tells.recv().await, Some("begun"));
    let of = |method: &str| request(json!(2), method, json!({"taskId": id}), &able());
    // 26C-2: a notification that cancels the request that created the task does not cancel the task.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(served.post(&cancel).await.status, 202);
    for _ in 0..2 {
        let got = served.post(&of("tasks/get")).await.json().await;
        assert_eq!(got["result"]["status"], "working");
    }
    for _ in 0..2 {
        let cancelled = served.post(&of("tasks/cancel")).await.json().await;
        assert_eq!(cancelled["result"], json!({"resultType": "complete"}), "also after its end");
    }
    assert_eq!(tells.recv().await, Some("gone"));
    let got = served.post(&of("tasks/get")).await.json().await;
    assert_eq!([&got["result"]["resultType"], &got["result"]["status"]], ["complete", "cancelled"]);
    let unknown = json!({"taskId": "786512e2-9e0d-44bd-8f29-789f320fe840"});
    let unknown = served.post(&request(json!(3), "tasks/get", unknown, &able())).await;
    assert_eq!(refusal(unknown).await, (200, -32602), "26H-9");
    served.stopped().await;
}

#[tokio::test]
async fn t_26sub_2_26sub_7_26t_23_a_listener_hears_of_what_was_granted_and_how_a_task_stands() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Required);
    let server = server(vec![waiting]);
    let dispatch = server.dispatch.clone();
    let served = serve(server).await;
    let call = request(json!(1), "tools/call", json!({"name": "waiting"}), &able());
    let created = served.post(&call).await.json().await;
    let id = created["result"]["taskId"].clone();
    assert_eq!(tells.recv().await, Some("begun"));
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": ["test://x"], "taskIds": [id, "786512e2-9e0d-44bd-8f29-789f320fe840"],
        "other": true}});
    let mut listening = served.post(&request(json!("L"), "subscriptions/listen", wanted, &able())).await;
    let acknowledged = listening.message().await.expect("an acknowledgement");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let granted = &acknowledged["params"]["notifications"];
    assert_eq!(*granted, json!({"toolsListChanged": true, "taskIds": [id]}), "26T-24");
    assert_eq!(acknowledged["params"]["_meta"][META_SUBSCRIPTION], "L");
    let snapshot = listening.message().await.expect("the task as it is");
    assert_eq!(snapshot["method"], "notifications/tasks");
    assert_eq!((&snapshot["params"]["taskId"], &snapshot["params"]["status"]), (&id, &json!("working")));
    go.notify_one();
    let over = listening.message().await.expect("the task as it ended");
    assert_eq!(over["params"]["status"], "completed");
    assert_eq!(over["params"]["result"]["content"][0]["text"], "x", "26X-2");
    assert_eq!(over["params"]["_meta"][META_SUBSCRIPTION], "L");
    dispatch.catalog().publish(catalog(vec![quick()]));
    let changed = listening.message().await.expect("news");
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    served.stop();
    let ended = listening.message().await.expect("26SUB-5, 26X-4");
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!("L"), &json!("complete")));
    assert_eq!(ended["result"]["_meta"][META_SUBSCRIPTION], "L");
    assert_eq!(listening.event().await, None);
    served.stopped().await;
}

#[tokio::test]
async fn t_26sub_6_26t_6_what_grants_nothing_ends_at_once_and_too_much_is_refused() {
    let served = serve(server(vec![quick()])).await;
    let listen = |wanted: Value, capabilities: &Value| {
        request(json!(7), "subscriptions/listen", json!({"notifications": wanted}), capabilities)
    };
    let mut nothing = served.post(&listen(json!({"promptsListChanged": true}), &json!({}))).await;
    assert_eq!(nothing.message().await.expect("26SUB-2")["params"]["notifications"], json!({}));
    assert_eq!(nothing.message().await.expect("the end")["id"], 7);
    assert_eq!(nothing.event().await, None);
    let tasks = served.post(&listen(json!({"taskIds": ["x"]}), &json!({"tasks": {}}))).await;
    assert_eq!(refusal(tasks).await, (400, -32021));
    let many = json!({"resourceSubscriptions": ["a:", "b:", "c:", "d:"]});
    let many = served.post(&listen(many, &json!({}))).await;
    assert_eq!(many.json().await["error"]["data"]["limit"], "wire.subscriptions");
    let without = served.post(&request(json!(7), "subscriptions/listen", json!({}), &json!({}))).await;
    assert_eq!(refusal(without).await, (200, -32602));
}

#[tokio::test]
async fn t_26c_4_a_request_hears_what_it_asked_to_hear_and_an_unknown_level_is_refused() {
    let talking = tool("talking", TaskSupport::Forbidden, |context| async move {
        for level in toolyard_protocol::LogLevel::ALL {
            context.report(Report::Log { level, logger: None, data: RawJson::trusted("1") });
        }
        done("x")
    });
    let served = serve(server(vec![talking])).await;
    let call = |level: Option<&str>| {
        let mut call = request(json!(1), "tools/call", json!({"name": "talking"}), &json!({}));
        if let Some(level) = level {
            call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        call
    };
    let silent = served.post(&call(None)).await;
    assert_eq!(silent.headers["content-type"], "application/json", "nothing precedes the answer");
    let mut loud = served.post(&call(Some("critical"))).await;
    for level in ["critical", "alert", "emergency"] {
        assert_eq!(loud.message().await.expect("a log message")["params"]["level"], level);
    }
    assert_eq!(loud.message().await.expect("the answer")["id"], 1);
    assert_eq!(refusal(served.post(&call(Some("loud"))).await).await, (400, -32602));
}
