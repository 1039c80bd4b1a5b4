//! The generation of a message: the host decides it for each message by its body (26B), and over HTTP by one
//! header too.

use super::{post, probe, refusal};
use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::http::Connection;
use toolyard_tests::session::{HEADERS, initialize};
use toolyard_tests::stateless::{VERSION, key, tasks};
use toolyard_tests::{Host, Session};

const HEADER: &str = "mcp-protocol-version";

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&HEADERS[..], more].concat()
}

fn message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "m", "method": method, "params": params})
}

/// The handshake of sessions, with this `_meta`.
fn handshake(meta: Value) -> String {
    let mut handshake = initialize("2025-11-25", json!({}));
    handshake["params"]["_meta"] = meta;
    handshake.to_string()
}

#[tokio::test]
async fn b_26b_1_a_request_that_claims_the_revision_is_of_it_from_the_first() {
    let (host, client) = probe().await;
    // 26D-3: no earlier request is necessary.
    let first = client.call("echo", json!({"text": "hi"})).await;
    assert_eq!(first["resultType"], "complete");
    assert_eq!(first["content"][0]["text"], "hi");
    // A session beside it, on the same connection.
    let session = Session::open(host.port()).await;
    let mut connection = Connection::open(host.port()).await;
    for _ in 0..3 {
        let listed = connection
            .send(Method::POST, "/mcp", &session.headers(), message("tools/list", json!({})).to_string())
            .await;
        assert!(listed.json().await["result"].get("resultType").is_none());
        let request = client.request("tools/list", json!({}));
        let headers: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let listed = connection.send(Method::POST, "/mcp", &headers, request.message().to_string()).await;
        assert_eq!(listed.json().await["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn b_26b_2_h_26h_12_a_session_it_names_is_nothing_to_it_and_none_is_made() {
    let (host, client) = probe().await;
    let session = Session::open(host.port()).await;
    for id in [session.id(), "nobody", ""] {
        let request = client.request("tools/list", json!({}));
        let request = request.header("mcp-session-id", id).header("last-event-id", "0-1");
        let answer = client.send(&request).await;
        assert_eq!(answer.status, 200, "{id}");
        assert!(answer.headers.get("mcp-session-id").is_none(), "no session is made");
        assert_eq!(answer.json().await["result"]["resultType"], "complete");
    }
    // A request of a session still needs its session id.
    let answer = post(host.port(), &HEADERS, message("tools/list", json!({})).to_string()).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn b_26b_1_initialize_is_the_handshake_of_sessions_unless_its_envelope_is_whole() {
    let host = Host::with_probe().await;
    let modern = json!({key::VERSION: VERSION, key::CAPABILITIES: {}});
    for (meta, headers, status, code) in [
        (json!({}), vec![], 200, 0),
        // Its header must not contradict it.
        (json!({}), vec![(HEADER, VERSION)], 400, -32020),
        // 26H-8: an unknown method.
        (modern, vec![(HEADER, VERSION), ("mcp-method", "initialize")], 404, -32601),
    ] {
        let answer = post(host.port(), &with(&headers), handshake(meta.clone())).await;
        let session = answer.headers.get("mcp-session-id").is_some();
        let (said, what, id) = refusal(answer).await;
        assert_eq!((said, what, session), (status, code, status == 200), "{meta} {headers:?}");
        assert_eq!(id, 0, "{meta}: the id is echoed");
    }
    // 26B-4: the handshake never agrees on the revision without sessions.
    let opened = Session::open_as(host.port(), VERSION, tasks()).await;
    assert_eq!(opened.result["protocolVersion"], "2025-11-25");
    assert!(!opened.result.to_string().contains("extensions"), "{}", opened.result);
    // The extension declared there enables nothing.
    let result = opened.session.call("wait", json!({"ms": 1})).await;
    assert!(result["content"].is_array() && result.get("resultType").is_none(), "{result}");
    let error =
        opened.session.error("tools/call", json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}}));
    assert_eq!(error.await["code"], -32601, "26B-10: as ever there");
}

#[tokio::test]
async fn b_26b_2_gets_and_deletes_belong_to_sessions() {
    let (host, session) = Setup::probe().open().await;
    for method in [Method::GET, Method::DELETE] {
        // 26H-1: the host does not reject these methods as such, but they need a session.
        let answer = Connection::open(host.port()).await.send(method.clone(), "/mcp", &HEADERS, "").await;
        assert_eq!(answer.status, 400, "{method}");
    }
    assert_eq!(session.get(None).await.status, 200);
    assert_eq!(session.delete().await, 204);
}
