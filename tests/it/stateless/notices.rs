//! Progress and log messages, on the stream of the request that asked for them (26C-3, 26C-4, 26H-11).

use super::{script, steps};
use serde_json::{Value, json};
use std::io::Read as _;
use toolyard_tests::exchange::outcome;
use toolyard_tests::http::Connection;
use toolyard_tests::stateless::{Request, key};
use toolyard_tests::{Stdio, stateless};

const ALL: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn logs() -> Value {
    let log = |level: &&str| json!({"log": {"level": level, "logger": "script", "data": level}});
    steps(Value::Array(ALL.iter().map(log).collect()))
}

fn levels(notices: &[Value]) -> Vec<&str> {
    let logs = notices.iter().filter(|notice| notice["method"] == "notifications/message");
    logs.filter_map(|notice| notice["params"]["level"].as_str()).collect()
}

#[tokio::test]
async fn c_26c_4_log_messages_go_to_who_asks_for_them_from_the_level_named() {
    let (_host, client) = script().await;
    let silent = client.ask("tools/call", logs()).await;
    assert!(silent.notices.is_empty() && !silent.streamed, "{:?}", silent.notices);
    for (index, level) in ALL.iter().enumerate() {
        let request = client.request("tools/call", logs()).meta(key::LOG_LEVEL, json!(level));
        let reply = client.reply(&request).await;
        assert_eq!(levels(&reply.notices), ALL[index..], "{level}");
        assert!(reply.notices.iter().all(|notice| notice["params"]["_meta"].is_null()));
    }
    // 26J-2: the earlier settings applied to the earlier requests only.
    assert!(client.ask("tools/call", logs()).await.notices.is_empty());
}

#[tokio::test]
async fn c_26c_3_progress_goes_to_who_gives_a_token_and_rises() {
    let (_host, client) = script().await;
    let progress = |n: f64| json!({"progress": {"progress": n, "total": 9, "message": "on"}});
    let work = steps(
        json!([progress(1.0), {"sleep": 80}, progress(1.0), progress(5.0), {"sleep": 80}, progress(9.0)]),
    );
    assert!(client.ask("tools/call", work.clone()).await.notices.is_empty());
    for token in [json!("p"), json!(7)] {
        let request = client.request("tools/call", work.clone()).meta("progressToken", token.clone());
        let reply = client.reply(&request).await;
        let told: Vec<_> = reply.notices.iter().map(|notice| notice["params"]["progress"].as_f64()).collect();
        assert_eq!(told.last(), Some(&Some(9.0)), "{told:?}");
        assert!(told.is_sorted_by(|one, other| one < other), "{told:?}");
        assert!(reply.notices.iter().all(|notice| notice["params"]["progressToken"] == token));
    }
}

#[tokio::test]
async fn h_26h_11_a_short_answer_is_an_object_and_a_long_one_a_stream_that_ends_with_it() {
    let (_host, client) = script().await;
    let short = client.send(&client.request("tools/call", steps(json!([])))).await;
    assert_eq!(short.header("content-type"), "application/json");
    let long = client.request("tools/call", steps(json!([{"sleep": 500}])));
    let answer = client.send(&long).await;
    assert!(answer.is_events(), "after `wire.stream-after`");
    assert_eq!(answer.header("x-accel-buffering"), "no");
    assert!(answer.header("cache-control").starts_with("no-cache"));
    let mut events = answer.events();
    let response = events.message().await.expect("the response");
    assert_eq!(outcome(&response["result"]), json!([null]));
    assert!(events.message().await.is_none(), "it ends the stream");
}

#[tokio::test]
async fn h_26h_11_a_silent_stream_is_kept_open_by_comments() {
    let setup = super::patient(crate::questions::scripted()).set("wire.keep-alive", "50ms");
    let host = setup.start().await;
    let client = stateless::Client::new(host.port());
    for request in [
        client.request("tools/call", steps(json!([{"sleep": 700}]))),
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
    ] {
        let text = until(host.port(), &request, "\n:").await;
        assert!(text.contains("text/event-stream"), "{text}");
    }
}

/// The response bytes up to the first occurrence of `what`.
async fn until(port: u16, request: &Request, what: &str) -> String {
    let bytes = request.bytes();
    let read = tokio::task::spawn_blocking(move || {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the host listens");
        socket.set_read_timeout(Some(toolyard_tests::wait::PATIENCE)).expect("a timeout");
        std::io::Write::write_all(&mut socket, &bytes).expect("the host reads");
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let length = socket.read(&mut piece).expect("something comes in time");
            text.extend_from_slice(&piece[..length]);
            let so_far = String::from_utf8_lossy(&text).into_owned();
            if length == 0 || so_far.contains("\n:") {
                return so_far;
            }
        }
    });
    let text = read.await.expect("nothing panics");
    assert!(text.contains(what), "{text}");
    text
}

#[tokio::test]
async fn c_26c_3_c_26c_4_a_task_tells_nothing_of_either() {
    let (_host, client) = script().await;
    let work = json!([
        {"progress": {"progress": 1}}, {"log": {"level": "error", "data": 1}}, {"sleep": 60}, {"begin": null},
        {"progress": {"progress": 2}}, {"log": {"level": "error", "data": 2}}, {"status": "half"}, {"sleep": 600_000},
    ]);
    let request = client.request("tools/call", steps(work));
    let request = request.meta("progressToken", json!("p")).meta(key::LOG_LEVEL, json!("debug"));
    let reply = client.reply(&request).await;
    assert_eq!(levels(&reply.notices), ["error"], "what came before it was one");
    assert!(
        reply
            .notices
            .iter()
            .all(|notice| notice["params"]["data"] != 2 && notice["params"]["progress"] != 2.0)
    );
    let id = reply.result()["taskId"].as_str().expect("a task").to_owned();
    let (mut listening, _) = client.listen(json!({"taskIds": [id]})).await;
    let told = listening.next_of("notifications/tasks").await;
    assert_eq!(told["status"], "working");
    client.cancel(&id).await;
    // All later messages are about this task only, which the tap checks (26SUB-6).
    let mut last = told;
    while last["status"] == "working" {
        last = listening.next_of("notifications/tasks").await;
    }
    assert_eq!(last["status"], "cancelled");
}

#[tokio::test]
async fn s_26s_4_on_a_pipe_everything_is_told_apart() {
    let mut stdio = Stdio::start(super::patient(crate::questions::scripted()));
    stdio.initialize("2025-11-25").await;
    let talk = |token: &str| json!([{"progress": {"progress": 1, "message": token}}, {"sleep": 60}, {"progress": {"progress": 2}}]);
    let mut within = steps(talk("within"));
    within["_meta"] = json!({"progressToken": "within"});
    let mut alone = steps(talk("alone"));
    alone["_meta"] = json!({"progressToken": "alone", key::LOG_LEVEL: "error"});
    let first = stdio.send("tools/call", within).await;
    let second = stdio.send("tools/call", stateless::enveloped(alone, &json!({}))).await;
    let mut answers = 0;
    let mut told = Vec::new();
    while answers < 2 {
        let message = stdio.read().await;
        if message["id"] == first || message["id"] == second {
            assert_eq!(message["result"].get("resultType").is_some(), message["id"] == second);
            answers += 1;
        } else {
            told.push(message["params"]["progressToken"].as_str().expect("a token").to_owned());
        }
    }
    assert!(told.contains(&"within".to_owned()) && told.contains(&"alone".to_owned()), "{told:?}");
}

/// 26H-1: a GET gives nothing that belongs to a request.
#[tokio::test]
async fn h_26h_1_there_is_no_stream_without_a_request() {
    let (host, _client) = script().await;
    let headers = [("accept", "text/event-stream"), ("mcp-protocol-version", stateless::VERSION)];
    let answer = Connection::open(host.port()).await.send(hyper::Method::GET, "/mcp", &headers, "").await;
    assert!(answer.status == 400 || answer.status == 405, "{}", answer.status);
}
