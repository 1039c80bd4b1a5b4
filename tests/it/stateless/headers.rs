//! Headers that repeat a part of the body (26H-3 to 26H-7, 26XH).

use super::{patient, probe};
use crate::questions::scripted;
use hyper::Method;
use serde_json::json;
use toolyard_tests::host::Setup;
use toolyard_tests::http::Connection;
use toolyard_tests::stateless::Client;
use toolyard_tests::{Host, Session, guests};

#[tokio::test]
async fn h_26h_3_h_26h_4_headers_must_be_there_and_be_what_the_body_says() {
    let (_host, client) = probe().await;
    let call = || client.request("tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
    let list = || client.request("tools/list", json!({}));
    for (request, code) in [
        (call(), 0),
        // HTTP trims the blanks around a value.
        (call().header("mcp-name", "\techo "), 0),
        (call().without("mcp-method"), -32020),
        (call().header("mcp-method", "tools/list"), -32020),
        (call().without("mcp-name"), -32020),
        (call().header("mcp-name", "wait"), -32020),
        // 26H-6: for a body with an envelope, the host does not guess the version.
        (call().without("mcp-protocol-version"), -32020),
        (call().header("mcp-protocol-version", "2025-11-25"), -32020),
        // A duplicate is malformed, even if both values are right.
        (call().and_header("mcp-name", "echo"), -32020),
        // This method has no name to repeat.
        (list().header("mcp-name", "whatever"), 0),
    ] {
        let reply = client.reply(&request).await;
        let expected = if code == 0 { (200, 0) } else { (400, code) };
        assert_eq!(reply.refusal(), expected, "{:?}", request.headers());
        assert_eq!(reply.message["id"], request.message()["id"], "26H-15: clients go by it");
    }
}

#[tokio::test]
async fn t_26t_26_h_26h_3_every_method_with_a_name_repeats_it() {
    let (_host, client) = patient(scripted()).with(&[guests::fixture("library")]).serve_client().await;
    let id = client.create("script", json!({"steps": [{"begin": null}, {"sleep": 600_000}]})).await;
    for (method, params) in [
        ("resources/read", json!({"uri": "book:/1"})),
        ("prompts/get", json!({"name": "recommend", "arguments": {"genre": "x"}})),
        ("tasks/get", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": id})),
    ] {
        let request = client.request(method, params);
        for wrong in [request.clone().without("mcp-name"), request.clone().header("mcp-name", "other")] {
            assert_eq!(client.reply(&wrong).await.refusal(), (400, -32020), "{method}");
        }
        assert_eq!(client.reply(&request).await.refusal(), (200, 0), "{method}");
    }
    // 26H-7: a name in the header alone is a mismatch; if it is in neither, the params are wrong.
    let nameless = client.request("tools/call", json!({"arguments": {}}));
    assert_eq!(client.reply(&nameless.clone().header("mcp-name", "x")).await.refusal(), (400, -32020));
    assert_eq!(client.reply(&nameless).await.refusal(), (200, -32602));
}

async fn headed() -> (Host, Client) {
    let host = Setup::new().with(&[guests::fixture("headed")]).start().await;
    let client = Client::new(host.port());
    (host, client)
}

#[tokio::test]
async fn xh_26xh_1_tools_are_listed_with_their_annotations_and_wrong_ones_do_no_harm() {
    let (host, client) = headed().await;
    let tools = client.result("tools/list", json!({})).await["tools"].take();
    let tools = tools.as_array().expect("tools");
    assert_eq!(tools.len(), 2, "a tool that HTTP clients will drop is still there for others");
    assert!(
        tools.iter().any(|tool| { tool["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region" })
    );
    // The host does not check values that it cannot compare.
    let wrong =
        client.request("tools/call", json!({"name": "wrongly_headed", "arguments": {"list": [{"a": "x"}]}}));
    assert_eq!(client.reply(&wrong).await.refusal(), (200, 0));
    // Sessions have no such headers.
    let session = Session::open(host.port()).await;
    let result = session.call("headed", json!({"region": "north"})).await;
    assert_eq!(result["isError"], false, "{result}");
    let mut headers = session.headers();
    headers.push(("mcp-param-region", "south"));
    headers.push(("mcp-method", "no/such"));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "headed", "arguments": {"region": "north"}}});
    let answer =
        Connection::open(host.port()).await.send(Method::POST, "/mcp", &headers, call.to_string()).await;
    assert_eq!(answer.json().await["result"]["isError"], false);
}

#[tokio::test]
async fn h_26h_2_a_26a_1_a_26a_3_strangers_and_what_they_accept_come_before_all() {
    let config = toolyard_tests::tokens::stanza("alice", &["tools"]);
    let host = Setup::probe().config(&config).start().await;
    let anonymous = Client::new(host.port());
    let alice = Client::new(host.port()).bearing(&toolyard_tests::tokens::token("alice"));
    let request = || alice.request("no/such", json!({}));
    for (request, status) in [
        (request().header("origin", "https://evil.example"), 403),
        (request().header("host", "evil.example"), 403),
        (request().without("authorization"), 401),
        (request().header("authorization", "Bearer nonsense"), 401),
        (request().header("authorization", "Basic nonsense"), 401),
        (request().header("accept", "application/json"), 406),
        (request().header("accept", "text/html"), 406),
        (request().header("content-type", "text/plain"), 415),
        (request(), 404),
    ] {
        let answer = anonymous.send(&request).await;
        assert_eq!(answer.status, status, "{:?}", request.headers());
        // 26A-2: the answer also says how to authenticate.
        assert_eq!(answer.header("www-authenticate").starts_with("Bearer"), status == 401);
    }
    // Each request authenticates again: the host remembers nothing of the last one (26J-2).
    assert_eq!(alice.ask("tools/list", json!({})).await.status, 200);
    assert_eq!(anonymous.send(&anonymous.request("tools/list", json!({}))).await.status, 401);
}
