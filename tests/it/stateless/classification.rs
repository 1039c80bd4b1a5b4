//! The generation of a message: the host decides it for each message by its body (26B), and over HTTP by one
//! header too.

use super::{post, probe, refusal, steps};
use crate::questions::scripted;
use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::http::Connection;
use toolyard_tests::session::{HEADERS, initialize};
use toolyard_tests::stateless::{Client, VERSION, enveloped, key, tasks};
use toolyard_tests::{Host, Session, Stdio};

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
    // These streams have no event ids, so they cannot be resumed.
    let request = client.request("tools/call", json!({"name": "count", "arguments": {"steps": 2, "ms": 1}}));
    let answer = client.send(&request.meta("progressToken", json!("p"))).await;
    assert!(answer.is_events() && answer.headers.get("mcp-session-id").is_none());
    let mut events = answer.events();
    let mut seen = 0;
    while let Some(event) = events.next().await {
        assert!(event.id.is_none() && event.retry.is_none(), "{event:?}");
        seen += 1;
    }
    assert!(seen > 0);
    // A request of a session still needs its session id.
    let answer = post(host.port(), &HEADERS, message("tools/list", json!({})).to_string()).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn b_26b_1_initialize_is_the_handshake_of_sessions_unless_its_envelope_is_whole() {
    let host = Host::with_probe().await;
    let modern = json!({key::VERSION: VERSION, key::CAPABILITIES: {}});
    for (meta, headers, status, code) in [
        // It is the handshake, whatever else is in `_meta`.
        (json!({}), vec![], 200, 0),
        (json!({key::VERSION: VERSION}), vec![], 200, 0),
        (json!({key::VERSION: 5, key::CAPABILITIES: {}}), vec![], 200, 0),
        (json!({key::VERSION: VERSION, key::CAPABILITIES: []}), vec![], 200, 0),
        (json!({}), vec![(HEADER, "2025-11-25")], 200, 0),
        // Its header must not contradict it.
        (json!({}), vec![(HEADER, VERSION)], 400, -32020),
        // 26H-8: an unknown method.
        (modern.clone(), vec![(HEADER, VERSION), ("mcp-method", "initialize")], 404, -32601),
        // 26H-14: but the header check comes first.
        (modern, vec![("mcp-method", "initialize")], 400, -32020),
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
async fn b_26b_3_a_request_without_the_claim_is_told_what_is_missing_if_its_header_makes_it() {
    let host = Host::with_probe().await;
    let modern = [(HEADER, VERSION), ("mcp-method", "server/discover")];
    for (message, says) in [
        (json!({"jsonrpc": "2.0", "id": "m", "method": "server/discover"}), "params"),
        (message("server/discover", json!({})), "_meta"),
        (message("server/discover", json!({"_meta": {}})), key::VERSION),
        (message("server/discover", json!({"_meta": {key::CAPABILITIES: {}}})), key::VERSION),
        (message("server/discover", json!({"_meta": 5})), "_meta"),
    ] {
        let answer = post(host.port(), &with(&modern), message.to_string()).await;
        assert_eq!(answer.status, 400, "{message}");
        let error = answer.json().await;
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!("m"), &json!(-32602)), "{error}");
        assert!(
            error["error"]["message"].as_str().is_some_and(|text| text.contains(says)),
            "{says}: {error}"
        );
    }
    // Without the header it belongs to a session, and sessions have no such method.
    let session = Session::open(host.port()).await;
    assert_eq!(session.error("server/discover", json!({})).await["code"], -32601);
    let answer = post(host.port(), &HEADERS, message("server/discover", json!({})).to_string()).await;
    assert_eq!(answer.status, 400, "and that needs a session");
}

#[tokio::test]
async fn h_26h_10_notifications_are_accepted_and_responses_belong_to_sessions() {
    let host = Host::with_probe().await;
    let notice =
        |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let claimed = enveloped(json!({"requestId": "x"}), &json!({}));
    for (message, headers, status) in [
        (notice(claimed.clone()), vec![], 202),
        (notice(claimed.clone()), vec![(HEADER, VERSION), ("mcp-method", "notifications/cancelled")], 202),
        (notice(json!({"requestId": "x"})), vec![(HEADER, VERSION)], 202),
        // The headers are not required, but must be right if they are there.
        (notice(claimed.clone()), vec![(HEADER, "2025-11-25")], 400),
        (notice(claimed), vec![("mcp-method", "tools/call")], 400),
        // 26C-1: useless, but harmless.
        (
            json!({"jsonrpc": "2.0", "method": "whatever", "params": enveloped(json!({}), &json!({}))}),
            vec![],
            202,
        ),
        // It belongs to a session, but names none.
        (notice(json!({"requestId": "x"})), vec![], 400),
        (json!({"jsonrpc": "2.0", "id": "s-1", "result": {}}), vec![], 400),
        (json!({"jsonrpc": "2.0", "id": "s-1", "result": {}}), vec![(HEADER, "2025-11-25")], 400),
    ] {
        let answer = post(host.port(), &with(&headers), message.to_string()).await;
        assert_eq!(answer.status, status, "{message} {headers:?}");
        let body = answer.bytes().await;
        assert_eq!(body.is_empty(), status == 202, "{}", String::from_utf8_lossy(&body));
    }
}

#[tokio::test]
async fn b_26b_2_gets_and_deletes_belong_to_sessions() {
    let host = Host::with_probe().await;
    let session = Session::open(host.port()).await;
    for method in [Method::GET, Method::DELETE] {
        // 26H-1: the host does not reject these methods as such, but they need a session.
        let answer = Connection::open(host.port()).await.send(method.clone(), "/mcp", &HEADERS, "").await;
        assert_eq!(answer.status, 400, "{method}");
    }
    assert_eq!(session.get(None).await.status, 200);
    assert_eq!(session.delete().await, 204);
}

#[tokio::test]
async fn b_26b_arrays_with_such_a_request_in_them_are_refused_as_a_whole() {
    let host = Host::with_probe().await;
    let old = Session::open_as(host.port(), "2025-03-26", json!({})).await.session;
    let claimed = message("tools/list", enveloped(json!({}), &json!({})));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // Also in a session that may send batches.
    for headers in [HEADERS.to_vec(), old.headers(), with(&[(HEADER, VERSION)])] {
        for batch in [json!([claimed]), json!([ping, claimed])] {
            let (status, code, _) = refusal(post(host.port(), &headers, batch.to_string()).await).await;
            assert_eq!((status, code), (400, -32600), "{batch}");
        }
    }
    let answers = old.post(&json!([ping])).await.json().await;
    assert_eq!(answers, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]), "J-6");
}

#[tokio::test]
async fn b_26b_5_a_pipe_takes_each_line_for_what_it_is() {
    let mut stdio = Stdio::start(super::patient(scripted()));
    let capabilities = json!({});
    let discover = || enveloped(json!({}), &capabilities);
    // 26D-9: before the handshake, and after it.
    let before = stdio.request("server/discover", discover()).await;
    assert_eq!(before["result"]["supportedVersions"], json!([VERSION]));
    stdio.initialize("2025-11-25").await;
    let after = stdio.request("server/discover", discover()).await;
    assert_eq!(after["result"], before["result"], "26J-2: nothing of the session is in it");
    let plain = stdio.request("tools/call", steps(json!([]))).await;
    assert!(plain["result"].get("resultType").is_none(), "{plain}");
    let alone = stdio.request("tools/call", enveloped(steps(json!([])), &capabilities)).await;
    assert_eq!(alone["result"]["resultType"], "complete");
    // 26B-6: the error says what is wrong with the envelope, and the process lives on.
    for (params, code) in [
        (json!({"_meta": {key::VERSION: 5, key::CAPABILITIES: {}}}), -32602),
        (json!({"_meta": {key::VERSION: VERSION}}), -32602),
        (json!({"_meta": {key::VERSION: VERSION, key::CAPABILITIES: 1}}), -32602),
        (json!({"_meta": {key::VERSION: "1900-01-01", key::CAPABILITIES: {}}}), -32022),
        (json!({"_meta": {key::VERSION: "2025-11-25", key::CAPABILITIES: {}}}), -32022),
    ] {
        let answer = stdio.request("tools/list", params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}");
    }
    for method in ["initialize", "ping", "tasks/list", "no/such/method"] {
        let answer = stdio.request(method, enveloped(json!({}), &capabilities)).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    assert_eq!(stdio.request("ping", json!({})).await["result"], json!({}), "the session goes on");
    stdio.line(&json!([message("tools/list", discover())]).to_string()).await;
    assert_eq!(stdio.read().await["error"]["code"], -32600);
}

/// 26J-2: two clients on one connection do not affect each other.
#[tokio::test]
async fn j_26j_2_r_26r_6_each_request_has_the_capabilities_that_it_declares_itself() {
    let (_host, client) = super::script().await;
    let ask = steps(json!([{"ask": [crate::questions::form("a")]}, {"info": null}]));
    for capabilities in [json!({"elicitation": {}}), json!({}), json!({"elicitation": {}, "roots": {}})] {
        let request = client.request("tools/call", ask.clone()).meta(key::CAPABILITIES, capabilities.clone());
        let result = client.reply(&request).await.result();
        match capabilities.get("elicitation") {
            Some(_) => assert_eq!(result["resultType"], "input_required"),
            None => {
                let came = toolyard_tests::exchange::outcome(&result);
                assert!(came[0]["nothing"]["unsupported"].is_string(), "{came}");
                assert_eq!(came[1]["clientCapabilities"], capabilities, "the guest sees this request's");
            }
        }
    }
    let bare = Client::new(client.port());
    assert_eq!(bare.call("script", json!({"steps": []})).await["resultType"], "complete");
}
