//! Sessions that know tasks receive the same bytes as before, whatever else the endpoint serves (26B-8). A record
//! beside this file has requests, and the answers of the host before it served 2026-07-28; `UPDATE_RECORD=1` rewrites
//! the answers.

use hyper::Method;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use toolyard_tests::session::HEADERS;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Setup, guests};

/// By this request a client shows that it knows tasks.
const GET: &str = r#"{"jsonrpc":"2.0","id":6,"method":"tasks/get","params":{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840"}}"#;

/// The requests of the record with the answers of this host; if `mixed`, with the bridge and with 2026-07-28 requests
/// in between. A block of the record has a name, the method with the headers, the body, and the answer. `SESSION` stands
/// for the id of the session, which the first request opens.
async fn answered(record: &str, mixed: bool) -> String {
    let setup = Setup::new().with(&[guests::fixture("script")]);
    let host = setup.set("bridge.enabled", if mixed { "true" } else { "false" }).start().await;
    let stateless = Client::new(host.port()).declaring(everything());
    let (mut out, mut session) = (String::new(), String::new());
    for block in record.split("## ").skip(1) {
        if mixed && !session.is_empty() {
            let reply = stateless.ask("tools/call", super::steps(json!([]))).await;
            assert_eq!(reply.status, 200, "{}", reply.message);
            stateless.ask("ping", json!({})).await;
        }
        let mut lines = block.split('\n');
        let [name, head, body] = std::array::from_fn(|_| lines.next().expect("a request"));
        let mut words = head.split(' ');
        let method: Method = words.next().expect("a word").parse().expect("a method");
        let mut headers = HEADERS.to_vec();
        headers.extend(words.map(|word| match word.split_once('=').expect("a header") {
            (name, "SESSION") => (name, session.as_str()),
            header => header,
        }));
        let answer = host.send(method, "/mcp", &headers, body).await;
        if session.is_empty() {
            session = answer.header("mcp-session-id").to_owned();
            let mut headers = HEADERS.to_vec();
            headers.extend([("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]);
            host.send(Method::POST, "/mcp", &headers, GET).await;
        }
        let status = answer.status.as_u16();
        let fields = answer.headers.iter().filter(|(name, _)| *name != "date");
        let fields = fields.map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")));
        let mut said: Vec<String> = fields.collect();
        said.sort();
        let said = said.join("\n").replace(&session, "SESSION");
        let answer = String::from_utf8_lossy(&answer.bytes().await).replace(guests::version(), "VERSION");
        let answer = without_times(&answer);
        writeln!(out, "## {name}\n{head}\n{body}\n{status}\n{said}\n\n{answer}\n")
            .expect("writing to a String does not fail");
    }
    out
}

/// The deadline of a call differs each time.
fn without_times(body: &str) -> String {
    let Some((before, rest)) = body.split_once(r#"deadline\":\""#) else { return body.to_owned() };
    let (_, after) = rest.split_once('\\').expect("a text ends");
    format!(r#"{before}deadline\":\"TIME\{after}"#)
}

/// The record shows H-5 (versions), H-9 and H-11 (one message, and nothing else), H-23 (the id of the session is
/// required, and known), L-1 (a handshake has its params), L-3 and T-1 (what the host offers) as well.
#[tokio::test]
async fn b_26b_8_sessions_are_answered_to_the_byte_as_they_were() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("it/stateless/legacy.txt");
    let mut record = std::fs::read_to_string(&file).expect("the record");
    if std::env::var_os("UPDATE_RECORD").is_some() {
        record = answered(&record, false).await;
        std::fs::write(&file, &record).expect("written");
    }
    for mixed in [false, true] {
        let answered = answered(&record, mixed).await;
        for (now, before) in answered.split("## ").zip(record.split("## ")) {
            assert_eq!(now, before, "mixed: {mixed}");
        }
        assert_eq!(answered.len(), record.len());
    }
}
