//! Streamable HTTP: checks, headers, sessions, streams (H-*, J-*).

use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::host::{Setup, install};
use toolyard_tests::http::{Answer, Connection};
use toolyard_tests::stateless::enveloped;
use toolyard_tests::{Host, Session, eventually, guests};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn send(host: &Host, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    Connection::open(host.port()).await.send(method, path, headers, body.to_owned()).await
}

fn with<'a>(session: &'a Session, replaced: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = session.headers();
    headers.retain(|(name, _)| !replaced.iter().any(|(other, _)| other == name));
    headers.extend(replaced.iter().filter(|(_, value)| !value.is_empty()));
    headers
}

#[tokio::test]
async fn h_2_h_3_strangers_are_turned_away_on_every_method() {
    let (host, session) = Setup::probe().open().await;
    for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
        for (name, value) in [
            ("host", "evil.example"),
            ("host", "localhost.evil.example:80"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
        ] {
            let answer = send(&host, method.clone(), "/mcp", &with(&session, &[(name, value)]), PING).await;
            assert_eq!(answer.status, 403, "{method} {name}: {value}");
            let body = answer.json().await;
            assert!(body.get("id").is_none(), "J-4: {body}");
        }
    }
    for (name, value) in [("host", "127.0.0.1:1"), ("host", "[::1]"), ("origin", "http://localhost:6274")] {
        let answer = send(&host, Method::POST, "/mcp", &with(&session, &[(name, value)]), PING).await;
        assert_eq!(answer.status, 200, "{name}: {value}");
    }
}

#[tokio::test]
async fn h_1_h_8_one_path_and_three_methods_are_served() {
    let (host, session) = Setup::probe().open().await;
    for path in ["/", "/mcp/", "/mcpx", "/sse", "/../mcp"] {
        assert_eq!(send(&host, Method::POST, path, &session.headers(), PING).await.status, 404, "{path}");
    }
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        let answer = send(&host, method.clone(), "/mcp", &session.headers(), "").await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), "POST, GET, DELETE");
    }
    let answer = send(&host, Method::POST, "/mcp?x=1", &session.headers(), PING).await;
    assert_eq!(answer.status, 200, "a query does no harm");
}

#[tokio::test]
async fn h_5_versions_that_are_not_spoken_are_refused() {
    let (host, session) = Setup::probe().open().await;
    let version = "mcp-protocol-version";
    for (value, status) in [
        ("2025-11-25", 200),
        ("2025-06-18", 200),
        ("", 200),
        ("2024-11-05", 400),
        ("2026-07-28", 400),
        ("x", 400),
    ] {
        let answer = send(&host, Method::POST, "/mcp", &with(&session, &[(version, value)]), PING).await;
        assert_eq!(answer.status, status, "{value}");
    }
    let answer = send(&host, Method::GET, "/mcp", &with(&session, &[(version, "x")]), "").await;
    assert_eq!(answer.status, 400);
    let answer = send(&host, Method::DELETE, "/mcp", &with(&session, &[(version, "x")]), "").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn h_6_h_7_what_is_accepted_and_what_is_sent_is_checked() {
    let (host, session) = Setup::probe().open().await;
    for (name, value, status) in [
        ("accept", "application/json", 406),
        ("accept", "text/event-stream", 406),
        ("accept", "text/html", 406),
        ("accept", "", 406),
        ("accept", "*/*", 200),
        ("accept", "text/event-stream;q=0.5, application/*", 200),
        ("content-type", "text/plain", 415),
        ("content-type", "", 415),
        ("content-type", "application/json; charset=utf-8", 200),
    ] {
        let answer = send(&host, Method::POST, "/mcp", &with(&session, &[(name, value)]), PING).await;
        assert_eq!(answer.status, status, "{name}: {value}");
    }
    let answer =
        send(&host, Method::GET, "/mcp", &with(&session, &[("accept", "application/json")]), "").await;
    assert_eq!(answer.status, 406);
}

#[tokio::test]
async fn h_7_j_5_j_6_malformed_bodies_are_named_and_the_server_goes_on() {
    let (host, session) = Setup::probe().set("wire.message", "64KiB").open().await;
    let huge =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(70_000));
    for (body, status, code) in [
        ("", 400, -32700),
        ("{", 400, -32700),
        ("hello", 400, -32700),
        ("[]", 400, -32600),
        ("null", 400, -32600),
        ("{}", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (&huge, 413, -32600),
    ] {
        let answer = send(&host, Method::POST, "/mcp", &session.headers(), body).await;
        // H-9: one message, of a known kind. H-11: the host accepts nothing else.
        assert_eq!(answer.status, status, "{}", &body[..body.len().min(60)]);
        let error = answer.json().await;
        assert_eq!(error["error"]["code"], code, "{error}");
        assert!(!error["error"]["message"].as_str().expect("text").is_empty());
        assert!(
            !error.as_object().expect("an object").get("id").is_some_and(Value::is_null),
            "J-4: never null"
        );
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{}{}}}}}"#,
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    assert_eq!(
        send(&host, Method::POST, "/mcp", &session.headers(), &deep).await.status,
        200,
        "it is never walked"
    );
    assert_eq!(session.request("nope", json!({})).await["error"]["code"], -32601);
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn j_6_batches_are_for_sessions_of_2025_03_26() {
    let host = Host::with_probe().await;
    let session = Session::open_as(host.port(), "2025-03-26", json!({})).await.session;
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
        5,
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
    ]);
    let answers = session.post(&batch).await.json().await;
    let answers = answers.as_array().expect("an array");
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(answers[1]["error"]["code"], -32600);
    assert_eq!(answers[2]["result"]["content"][0]["text"], "hi");
    assert_eq!(answers[3]["error"]["code"], -32600);
    let only_notices = session.post(&json!([{"jsonrpc": "2.0", "method": "notifications/x"}])).await;
    assert_eq!(only_notices.status, 202);
    // 26B: a batch with a request of 2026-07-28 in it is refused as a whole.
    let claimed = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list",
        "params": enveloped(json!({}), &json!({}))});
    let refused = session.post(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, claimed])).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json().await["error"]["code"], -32600);
}

#[tokio::test]
async fn h_10_notifications_and_answers_are_accepted_with_an_empty_202() {
    let (_host, session) = Setup::probe().open().await;
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "whatever"}),
        json!({"jsonrpc": "2.0", "id": "s-1", "result": {}}),
        json!({"jsonrpc": "2.0", "id": "s-1", "error": {"code": 1, "message": "no"}}),
    ] {
        let answer = session.post(&message).await;
        assert_eq!(answer.status, 202, "{message}");
        assert!(answer.bytes().await.is_empty());
    }
}

#[tokio::test]
async fn h_23_h_24_sessions_are_required_known_and_can_be_ended() {
    let (host, session) = Setup::probe().open().await;
    let id = "mcp-session-id";
    for (value, status) in [("", 400), ("unknown", 404), ("00000000000000000000000000000000", 404)] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let answer = send(&host, method.clone(), "/mcp", &with(&session, &[(id, value)]), PING).await;
            assert_eq!(answer.status, status, "{method} {value}");
        }
    }
    let task = session.create("spin", json!({"ms": 600_000})).await;
    let mut stream = session.listen().await;
    assert_eq!(session.delete().await, 204);
    while stream.next().await.is_some() {}
    for method in [Method::POST, Method::GET, Method::DELETE] {
        assert_eq!(
            send(&host, method.clone(), "/mcp", &session.headers(), PING).await.status,
            404,
            "{method}"
        );
    }
    // No session can ask for the task any more, so the host cancels it with the session.
    eventually("the task to be cancelled", || async {
        let shown = host.command(&["tasks", "show", &task, "--json"]).await;
        String::from_utf8_lossy(&shown.stdout).contains("\"cancelled\"").then_some(())
    })
    .await;
}

#[tokio::test]
async fn h_12_h_13_quick_answers_are_json_and_slow_ones_streams_that_open_with_an_id() {
    let setup = Setup::probe();
    let (host, session) = setup.set("wire.stream-after", "2s").open().await;
    let call = |tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let quick = session.post(&call("echo", json!({"text": "x"}))).await;
    assert_eq!(quick.header("content-type"), "application/json");
    let slow = session.post(&call("wait", json!({"ms": 4000}))).await;
    assert!(slow.is_events());
    assert!(slow.header("cache-control").contains("no-cache"));
    let mut events = slow.events();
    let opening = events.next().await.expect("an event");
    assert!(opening.id.is_some() && opening.data.is_empty() && opening.retry.is_some(), "{opening:?}");
    let answer = events.next().await.expect("the answer");
    assert!(answer.id.is_some() && answer.id != opening.id);
    assert!(answer.data.contains("\"id\":5"));
    assert_eq!(events.next().await, None, "H-15: the stream ends after the answer");
    // H-17: requests about a task get an answer in plain JSON.
    let task = session.create("wait", json!({"ms": 600_000})).await;
    let get = json!({"jsonrpc": "2.0", "id": 6, "method": "tasks/get", "params": {"taskId": task}});
    assert_eq!(session.post(&get).await.header("content-type"), "application/json");
    // H-13: older clients fail on an event without data.
    let older = Session::open_as(host.port(), "2025-06-18", json!({})).await.session;
    let mut events = older.post(&call("wait", json!({"ms": 4000}))).await.events();
    assert!(events.next().await.expect("an event").data.contains("\"id\":5"));
}

#[tokio::test]
async fn h_16_h_28_a_dropped_connection_cancels_nothing_and_the_stream_is_resumed() {
    let (_host, session) = Setup::probe().open().await;
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "count", "arguments": {"steps": 30, "ms": 60}, "_meta": {"progressToken": "p"}},
    });
    let mut events = session.post(&call).await.events();
    let opening = events.next().await.expect("an event");
    let first = events.next().await.expect("progress");
    assert!(first.data.contains("notifications/progress"), "{first:?}");
    drop(events);
    let resumed = session.get(first.id.as_deref()).await;
    assert_eq!(resumed.status, 200);
    let mut resumed = resumed.events();
    let mut last = 1.0;
    loop {
        let message = resumed.message().await.expect("the answer comes");
        if message["id"] == 7 {
            assert_eq!(message["result"]["content"][0]["text"], "counted 30");
            break;
        }
        // P-1: progress increases, and no value repeats.
        let progress = message["params"]["progress"].as_f64().expect("progress");
        assert!(progress > last, "{progress} after {last}");
        last = progress;
    }
    assert_eq!(resumed.next().await, None);
    // The whole stream can be read again while the host keeps it.
    let mut again = session.get(opening.id.as_deref()).await.events();
    assert_eq!(again.next().await.as_ref().map(|event| &event.id), Some(&first.id));
}

#[tokio::test]
async fn h_19_the_stream_for_what_is_tied_to_no_request_carries_no_answers() {
    let (host, session) = Setup::probe().open().await;
    let answer = session.get(None).await;
    assert!(answer.is_events());
    let mut listening = answer.events();
    listening.next().await.expect("the stream opens");
    session.call("wait", json!({"ms": 1})).await;
    session.call("wait", json!({"ms": 700})).await;
    session.request("nope", json!({})).await;
    install(&guests::fixture("add"), &host.plugins());
    let first = listening.message().await.expect("a message");
    assert_eq!(first["method"], "notifications/tools/list_changed", "none of the answers came here");
}

#[tokio::test]
async fn c_1_a_cancelled_call_stops_its_guest_and_is_not_answered() {
    let (_host, session) = Setup::probe().open().await;
    for tool in ["spin", "wait"] {
        let call = json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": {"name": tool, "arguments": {"ms": 600_000}}});
        let mut events = session.post(&call).await.events();
        events.next().await.expect("the stream opens");
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": tool}});
        assert_eq!(session.post(&cancel).await.status, 202);
        assert_eq!(events.next().await, None, "{tool}: no answer");
    }
}

#[tokio::test]
async fn j_2_an_id_in_use_is_refused() {
    let (_host, session) = Setup::probe().open().await;
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "wait", "arguments": {"ms": 600_000}}});
    let slow = session.post(&call).await;
    let again = session.post(&json!({"jsonrpc": "2.0", "id": 5, "method": "ping"})).await.json().await;
    assert_eq!(again["error"]["code"], -32600);
    drop(slow);
}
