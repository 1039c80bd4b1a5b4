//! Streamable HTTP: paths, batches, sessions, streams, and bytes that no other client of the tests sends (H-*, J-*).
//! `stateless/legacy.rs` has the answers to other requests.

use crate::questions::scripted;
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolyard_tests::exchange::next;
use toolyard_tests::{Host, PATIENCE, Session, Setup, guests, until};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// 26H-1: GET and DELETE belong to sessions.
#[tokio::test]
async fn h_1_h_8_h_24_three_methods_of_one_path_are_served_until_the_session_ends_with_streams_and_tasks() {
    let (host, session) = Setup::probe().open().await;
    for path in ["/", "/mcp//", "/mcpx", "/sse", "/../mcp"] {
        assert_eq!(host.send(Method::POST, path, &session.headers(), PING).await.status, 404, "{path}");
    }
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        let answer = host.send(method.clone(), "/mcp", &session.headers(), "").await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), "POST, GET, DELETE");
    }
    for path in ["/mcp?x=1", "/mcp/"] {
        let answer = host.send(Method::POST, path, &session.headers(), PING).await;
        assert_eq!(answer.status, 200, "{path} does no harm");
    }
    let id = session.id();
    assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "H-22: {id}");
    let task = session.create("spin", json!({"ms": 600_000})).await;
    let mut stream = session.listen().await;
    assert_eq!(session.delete().await, 204);
    while stream.next().await.is_some() {}
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let answer = host.send(method.clone(), "/mcp", &session.headers(), PING).await;
        assert_eq!(answer.status, 404, "{method}");
    }
    // No session can ask for the task any more, so the host cancels it with the session.
    let show = ["tasks", "show", &task, "--json"];
    until("the task to be cancelled", || async { host.prints(&show).await.contains("\"cancelled\"") }).await;
}

/// T-2: the host offers no tasks to revisions without tasks, and accepts other messages from them.
#[tokio::test]
async fn j_6_t_2_sessions_of_2025_03_26_may_batch_and_older_revisions_are_offered_no_tasks() {
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

    let session = Session::open_as(host.port(), "2025-06-18", json!({})).await.session;
    let params = json!({"name": "count", "arguments": {"steps": 2, "ms": 1}, "task": {"ttl": 5000}});
    let result = session.result("tools/call", params).await;
    assert!(result["task"].is_null() && result["content"][0]["type"] == "text", "{result}");
    // For a client without tasks, a tool that requires a task runs as a plain call.
    assert_eq!(session.call("batch", json!({"steps": 1, "ms": 1})).await["isError"], false);
    assert_eq!(session.error("tasks/list", json!({})).await["code"], -32601);
}

#[tokio::test]
async fn h_12_h_13_quick_answers_are_json_and_slow_ones_streams_that_open_with_an_id() {
    let setup = scripted().with(&[guests::plugin("probe")]).set("wire.stream-after", "2s");
    let (host, session) = setup.open().await;
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
    // H-13, H-14: older clients fail on an event without data, so they keep their connection.
    let older = Session::open_as(host.port(), "2025-06-18", json!({})).await.session;
    let mut call = older.begin_script(json!([{"release": 20}, {"sleep": 4000}])).await;
    assert!(call.events.next().await.expect("an event").data.contains("\"result\""));
}

/// H-16: a lost connection is no cancellation.
#[tokio::test]
async fn h_28_a_dropped_connection_cancels_nothing_and_its_stream_alone_is_replayed() {
    let (_host, session) = scripted().open().await;
    let steps =
        |first: Value, text: &str| json!([first, {"sleep": 300}, {"log": {"level": "error", "data": text}}]);
    let mut one = session.begin_script(steps(json!({"sleep": 0}), "one")).await;
    let mut two = session.begin_script(steps(json!({"release": 40}), "two")).await;
    let first = one.events.next().await.expect("an opening").id.expect("an id");
    let second = two.events.next().await.expect("an opening").id.expect("an id");
    assert_ne!(first, second, "H-27: unique in the session");
    let pause = two.events.next().await.expect("where to go on");
    assert_eq!((pause.retry, two.events.next().await), (Some(40), None), "H-14: its tool lets it go");
    drop((one, two));
    for (id, text) in [(first, "one"), (second, "two")] {
        let mut resumed = session.get(Some(&id)).await.events();
        assert_eq!(next(&mut resumed).await.expect("its log")["params"]["data"], text);
        assert!(next(&mut resumed).await.expect("its answer").get("result").is_some());
        assert_eq!(next(&mut resumed).await, None);
    }
}

/// The status line and the rest of the answer, as far as the host sends it before it closes the connection.
async fn sent(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the host listens");
    // The host may answer and close the connection before it has read all.
    drop(stream.write_all(bytes).await);
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await;
    let length = read.expect("an answer or the end").unwrap_or_default();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn h_7_hostile_requests_are_refused_and_harm_nobody() {
    // The host names the reason for the rejection, and goes on.
    const FIELDS: &str = "host: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n";
    let setup = Setup::probe().set("wire.message", "64KiB");
    let host = setup.set("wire.body-time", "300ms").set("wire.head-time", "300ms").start().await;
    let post = |more: &str| format!("POST /mcp HTTP/1.1\r\n{FIELDS}{more}").into_bytes();
    let chunk = format!("11000\r\n{}\r\n", "x".repeat(0x11000));
    let many: String = (0..500).map(|n| format!("x{n}: y\r\n")).collect();
    let evil = format!("POST http://evil.example/mcp HTTP/1.1\r\n{FIELDS}content-length: 2\r\n\r\n{{}}");
    for (bytes, status) in [
        (b"\x00\x01\x02 nonsense\r\n\r\n".to_vec(), "400"),
        (format!("GET /{} HTTP/1.1\r\n{FIELDS}\r\n", "a".repeat(200_000)).into_bytes(), "431"),
        (post(&format!("{many}\r\n")), "431"),
        (post("content-length: 100\r\n\r\n{"), "408"),
        (post("content-length: 99999999999\r\n\r\n{"), "413"),
        (post(&format!("transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n")), "413"),
        (post("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "400"),
        (post("host: localhost\r\ncontent-length: 2\r\n\r\n{}"), "403"),
        (evil.into_bytes(), "403"),
        (b"POST /mcp HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}".to_vec(), "403"),
    ] {
        let answer = sent(host.port(), &bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{shown:?}: {answer}");
    }
    // All of it is read, or the client meets a broken pipe in place of the answer (C4).
    let large = format!("content-length: {}\r\n\r\n{}", 10 << 20, "x".repeat(10 << 20));
    let answer = sent(host.port(), &post(&large)).await;
    assert_eq!(answer.split(' ').nth(1), Some("413"), "{answer}");
    // The host closes the connection on an endless head, and on another protocol.
    assert_eq!(sent(host.port(), b"POST /mcp HTTP/1.1\r\nhost: loc").await, "");
    assert_eq!(sent(host.port(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
    let session = Session::open(host.port()).await;
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
}
