//! Sessions that know tasks receive the same bytes as before, whatever else the endpoint serves (26B-8). A record
//! beside this file has the answers of the host before it served 2026-07-28; `UPDATE_RECORD=1` rewrites it.

use hyper::Method;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::http::Connection;
use toolyard_tests::session::{HEADERS, initialize};
use toolyard_tests::stateless::{Client, everything};

/// A request: a name, the method, additional headers, and the body; `SESSION` stands for the id of the
/// session.
type Sent = (&'static str, Method, &'static [(&'static str, &'static str)], &'static str);

const SESSION: (&str, &str) = ("mcp-session-id", "SESSION");
const VERSION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");
const GET: &str = r#"{"jsonrpc":"2.0","id":6,"method":"tasks/get","params":{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840"}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn all() -> Vec<Sent> {
    let post = |name, headers, body| (name, Method::POST, headers, body);
    let call = r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"script","arguments":{"steps":[{"info":null}]}}}"#;
    let fails = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"script","arguments":{"steps":[{"fail":{"code":-32021,"message":"no","data":{"requiredCapabilities":{}}}}]}}}"#;
    let misses = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"script","arguments":{"steps":[{"missing":{"sampling":{}}}]}}}"#;
    let begins = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"script","arguments":{"steps":[{"begin":null},{"effects":null},{"status":"x"}]}}}"#;
    let unmeant = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"script","arguments":{"steps":[]},"inputResponses":{"a":{}},"requestState":"x","_meta":{"progressToken":1}}}"#;
    let read = r#"{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"script:none"}}"#;
    let unknown = r#"{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{}}"#;
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
    let update = r#"{"jsonrpc":"2.0","id":6,"method":"tasks/update","params":{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840","inputResponses":{}}}"#;
    let listen = r#"{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{"notifications":{}}}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let response = r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#;
    let within: &[(&str, &str)] = &[SESSION, VERSION];
    // H-5: the host speaks this revision over stdio only.
    let odd: &[(&str, &str)] = &[SESSION, ("mcp-protocol-version", "2024-11-05")];
    let odd_alone: &[(&str, &str)] = &[("mcp-protocol-version", "2024-11-05")];
    let unheaded: &[(&str, &str)] = &[SESSION];
    vec![
        post("ping", within, PING),
        post("ping without a version", unheaded, PING),
        // H-23: the id is required, and known.
        post("ping without a session", &[VERSION], PING),
        post("ping with nothing", &[], PING),
        post("a session that there is not", &[("mcp-session-id", "nobody"), VERSION], PING),
        post("an odd version", odd, PING),
        post("an odd version without a session", odd_alone, PING),
        post("an odd version with no JSON", odd, "{"),
        post("an odd version with a batch", odd, batch),
        post("an odd version with nothing", odd_alone, ""),
        post("two versions", &[SESSION, VERSION, ("mcp-protocol-version", "2025-06-18")], PING),
        // H-9, H-11: one message, and nothing else.
        post("no JSON", within, "{"),
        post("no object", within, "5"),
        post("an empty batch", within, "[]"),
        post("a batch", within, batch),
        post("a null id", within, r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        post("another JSON-RPC", within, r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#),
        post("params that are a list", within, r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#),
        post(
            "metadata that is no object",
            within,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":5}}"#,
        ),
        // L-1: it carries a version, capabilities and a name.
        post("a second handshake", within, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#),
        post("a handshake without params", &[], r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#),
        post("the list of tools", within, list),
        post("a call", within, call),
        post("a call that fails by a code of another revision", within, fails),
        post("a call that misses a capability", within, misses),
        post("a call that would be a task", within, begins),
        post("a call with words of another revision", within, unmeant),
        post("a resource that there is not", within, read),
        post("discovery without an envelope", within, unknown),
        post("a task that there is not", within, GET),
        post("an update", within, update),
        post("a wish to listen", within, listen),
        post("a notification", within, notice),
        post("a notification without a session", &[], notice),
        post("a response", within, response),
        post("a response without a session", &[], response),
        ("a GET without a session", Method::GET, &[], ""),
        ("a GET of an odd version", Method::GET, odd, ""),
        ("a DELETE without a session", Method::DELETE, &[], ""),
        ("a DELETE", Method::DELETE, within, ""),
        post("ping after it", within, PING),
    ]
}

/// All answers to all requests of a session that knows tasks; if `mixed`, with the bridge and with 2026-07-28
/// requests in between.
async fn answered(mixed: bool) -> String {
    let bridge = if mixed { "true" } else { "false" };
    let host = Setup::new().with(&[guests::fixture("script")]).set("bridge.enabled", bridge).start().await;
    let stateless = Client::new(host.port()).declaring(everything());
    let opened = Connection::open(host.port())
        .await
        .send(Method::POST, "/mcp", &HEADERS, initialize("2025-11-25", everything()).to_string())
        .await;
    let session = opened.header("mcp-session-id").to_owned();
    let headers = [&HEADERS[..], &[("mcp-session-id", &session), VERSION]].concat();
    // By this request the client shows that it knows tasks.
    Connection::open(host.port()).await.send(Method::POST, "/mcp", &headers, GET).await;
    let mut out = String::new();
    let (status, headers) = (opened.status, opened.headers.clone());
    // L-3, T-1: what the host offers.
    note(&mut out, "a handshake", status.as_u16(), &headers, &opened.bytes().await, &session);
    for (name, method, more, body) in all() {
        if mixed {
            let reply = stateless.ask("tools/call", super::steps(json!([]))).await;
            assert_eq!(reply.status, 200, "{}", reply.message);
            stateless.ask("ping", json!({})).await;
        }
        let mut headers = HEADERS.to_vec();
        headers.extend(more.iter().map(|(name, value)| match *value {
            "SESSION" => (*name, session.as_str()),
            value => (*name, value),
        }));
        let answer = Connection::open(host.port()).await.send(method, "/mcp", &headers, body).await;
        let (status, headers) = (answer.status, answer.headers.clone());
        note(&mut out, name, status.as_u16(), &headers, &answer.bytes().await, &session);
    }
    out
}

fn note(out: &mut String, name: &str, status: u16, headers: &hyper::HeaderMap, body: &[u8], session: &str) {
    let mut said: Vec<String> = headers
        .iter()
        .filter(|(name, _)| *name != "date")
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    said.sort();
    let said = said.join("\n").replace(session, "SESSION");
    let body = String::from_utf8_lossy(body).replace(guests::version(), "VERSION");
    let body = without_times(&body);
    writeln!(out, "## {name}\n{status}\n{said}\n\n{body}\n").expect("writing to a String does not fail");
}

/// The deadline of a call differs each time.
fn without_times(body: &str) -> String {
    let Some((before, rest)) = body.split_once(r#"deadline\":\""#) else { return body.to_owned() };
    let (_, after) = rest.split_once('\\').expect("a text ends");
    format!(r#"{before}deadline\":\"TIME\{after}"#)
}

#[tokio::test]
async fn b_26b_8_sessions_are_answered_to_the_byte_as_they_were() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("it/stateless/legacy.txt");
    if std::env::var_os("UPDATE_RECORD").is_some() {
        std::fs::write(&file, answered(false).await).expect("written");
    }
    let record = std::fs::read_to_string(&file).expect("the record");
    for mixed in [false, true] {
        let answered = answered(mixed).await;
        for (now, before) in answered.split("## ").zip(record.split("## ")) {
            assert_eq!(now, before, "mixed: {mixed}");
        }
        assert_eq!(answered.len(), record.len());
    }
}
