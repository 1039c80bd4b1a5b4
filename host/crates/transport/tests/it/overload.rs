//! Overload over HTTP, on real sockets: every bound leads to an honest refusal, slow and lost clients are
//! dropped, and the others continue.

use crate::kit::client::{Served, serve};
use crate::kit::request::{able, request};
use crate::kit::server::{quick, server, server_with, tool, waiting};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use toolyard_dispatch::{DrainMode, TaskSupport};
use toolyard_kit::done;

/// Even on a slow machine, no wait takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// The HTTP request of a tool call.
fn call(tool: &str) -> String {
    let body = request(json!(1), "tools/call", json!({"name": tool, "arguments": {}}), &able()).to_string();
    format!("{}content-length: {}\r\n\r\n{body}", head(tool), body.len())
}

/// The head of a call, without the length of its body.
fn head(tool: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    )
}

async fn connect(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).await.expect("the server listens")
}

/// A connection on which a call of this tool was sent.
async fn calling(to: SocketAddr, tool: &str) -> TcpStream {
    let mut stream = connect(to).await;
    stream.write_all(call(tool).as_bytes()).await.expect("the server reads");
    stream
}

/// Everything that the server sends before the end.
async fn heard(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    // A connection that was cut also counts as ended.
    drop(read.expect("the server answers or hangs up"));
    String::from_utf8(text).expect("text")
}

/// An answer whose body is JSON, after which the connection stays open.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let is_json = |body: &str| serde_json::from_str::<Value>(body).is_ok();
    let is_whole = |text: &str| text.split_once("\r\n\r\n").is_some_and(|(_, body)| is_json(body));
    let read = async {
        let mut bytes = [0; 4096];
        while !is_whole(&text) {
            let count = stream.read(&mut bytes).await.expect("an answer");
            assert!(count > 0, "the connection ended in the middle: {text}");
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the server answers");
    text
}

#[tokio::test]
async fn who_finds_every_connection_busy_is_told_so_and_when_to_come_back() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Forbidden);
    let served = serve(server_with(vec![waiting], |wire| wire.connections = 2)).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let stream = calling(served.address, "waiting").await;
        assert_eq!(tells.recv().await, Some("begun"));
        busy.push(stream);
    }
    let mut late = calling(served.address, "waiting").await;
    let refusal = heard(&mut late).await;
    assert!(refusal.starts_with("HTTP/1.1 503 ") && refusal.contains("\r\nretry-after: 1\r\n"), "{refusal}");
    let (_, body) = refusal.split_once("\r\n\r\n").expect("a body");
    let error = &serde_json::from_str::<Value>(body).expect("JSON")["error"];
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"], json!({"limit": "wire.connections", "retryAfterMs": 1000}), "{error}");
    // The refused call did not run, and the other calls were not disturbed.
    assert!(tells.try_recv().is_err());
    let told = heard(&mut connect(served.address).await).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "one that says nothing: {told}");
    go.notify_waiters();
    for stream in &mut busy {
        let mut bytes = [0; 12];
        stream.read_exact(&mut bytes).await.expect("an answer");
        assert_eq!(&bytes, b"HTTP/1.1 200");
    }
    served.stopped().await;
}

/// A client that is slow to send its first request learns why its connection ends.
#[tokio::test]
async fn who_loses_a_seat_before_the_first_request_is_told_to_come_back() {
    let served = serve(server_with(vec![quick()], |wire| wire.connections = 1)).await;
    let mut slow = connect(served.address).await;
    // Longer than a connection may be idle while others wait.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let mut other = calling(served.address, "quick").await;
    assert!(answer(&mut other).await.starts_with("HTTP/1.1 200"));
    slow.write_all(call("quick").as_bytes()).await.expect("the server still reads");
    let told = heard(&mut slow).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    served.stopped().await;
}

/// Sends byte after byte until the server hangs up; returns its answer.
async fn drip(to: SocketAddr, first: &str) -> String {
    let (mut hears, mut says) = connect(to).await.into_split();
    says.write_all(first.as_bytes()).await.expect("the server reads");
    let dripping = async {
        while says.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut text = Vec::new();
    let ended = async {
        tokio::select! {
            _ = hears.read_to_end(&mut text) => {}
            () = dripping => {}
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("an end");
    String::from_utf8(text).expect("text")
}

#[tokio::test]
async fn h_7_heads_and_bodies_that_come_byte_by_byte_are_cut_and_others_are_served() {
    let served = serve(server_with(vec![quick()], |wire| {
        wire.head_time = Duration::from_millis(400);
        wire.body_time = Duration::from_millis(400);
    }))
    .await;
    let to = served.address;
    let slow = (0..20).map(|number| async move {
        if number % 2 == 0 {
            assert_eq!(drip(to, "POST /mcp HTTP/1.1\r\nx: ").await, "", "a head");
        } else {
            let begun = format!("{}content-length: 10000\r\n\r\n", head("quick"));
            let answer = drip(to, &begun).await;
            assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("wire.body-time"), "{answer}");
        }
    });
    let others = async {
        let call = request(json!(1), "tools/call", json!({"name": "quick"}), &able());
        for _ in 0..50 {
            assert_eq!(served.post(&call).await.status, 200);
        }
    };
    tokio::join!(futures_util::future::join_all(slow), others);
    served.stopped().await;
}

/// Closes a connection with a reset.
fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket takes it");
}

#[tokio::test]
async fn t_26h_13_however_a_client_goes_in_the_middle_of_a_call_the_call_is_over() {
    for (how, support, stream_after) in [
        ("close", TaskSupport::Forbidden, Duration::ZERO),
        ("reset", TaskSupport::Forbidden, Duration::ZERO),
        // A client that closes its sending half counts as gone, because HTTP/1.1 has no other signal.
        ("half-close", TaskSupport::Forbidden, Duration::ZERO),
        ("close before anything was sent", TaskSupport::Optional, Duration::from_secs(3600)),
    ] {
        let (waiting, _go, mut tells) = waiting(support);
        let served = serve(server_with(vec![waiting], |wire| wire.stream_after = stream_after)).await;
        let mut stream = calling(served.address, "waiting").await;
        assert_eq!(tells.recv().await, Some("begun"));
        match how {
            "reset" => reset(&stream),
            "half-close" => stream.shutdown().await.expect("a shutdown"),
            _ => {}
        }
        let _half_open = (how == "half-close").then_some(stream);
        assert_eq!(tells.recv().await, Some("gone"), "{how}");
        served.stopped().await;
    }
}

#[tokio::test]
async fn clients_that_vanish_while_they_send_or_listen_give_their_seats_back() {
    let served = serve(server_with(vec![quick()], |wire| {
        wire.connections = 4;
        wire.keep_alive = Duration::from_millis(50);
    }))
    .await;
    let listen = {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let body = request(json!("L"), "subscriptions/listen", wanted, &able()).to_string();
        let head = head("x").replace("tools/call", "subscriptions/listen").replace("mcp-name: x\r\n", "");
        format!("{head}content-length: {}\r\n\r\n{body}", body.len())
    };
    let upload = format!("{}content-length: 100000\r\n\r\n{}", head("quick"), "x".repeat(1000));
    for round in 0..12 {
        for bytes in [&listen, &upload] {
            let mut stream = connect(served.address).await;
            stream.write_all(bytes.as_bytes()).await.expect("the server reads");
            if std::ptr::eq(bytes, &listen) {
                let mut some = [0; 12];
                stream.read_exact(&mut some).await.expect("a stream");
                assert_eq!(&some, b"HTTP/1.1 200");
            }
            if round % 2 == 0 {
                reset(&stream);
            }
        }
    }
    // All four slots are free again: four clients at once are served.
    let all = futures_util::future::join_all((0..4).map(|_| async {
        let mut stream = calling(served.address, "quick").await;
        let answer = answer(&mut stream).await;
        (stream, answer)
    }));
    for (_, answer) in tokio::time::timeout(PATIENCE, all).await.expect("they are served") {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    served.stopped().await;
}

/// A request that has arrived when its connection is asked to make room is not lost.
#[tokio::test]
async fn who_sends_a_request_just_as_its_connection_has_to_make_room_is_answered() {
    const SEATS: usize = 8;
    let served = serve(server_with(vec![quick()], |wire| wire.connections = SEATS)).await;
    let mut idle = Vec::new();
    for _ in 0..SEATS {
        let mut stream = calling(served.address, "quick").await;
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
        idle.push(stream);
    }
    // Longer than a connection may be idle while others wait.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let mut late = Vec::new();
    for _ in 0..SEATS {
        late.push(connect(served.address).await);
    }
    // They are accepted, and wait for a slot once they have sent something.
    tokio::time::sleep(Duration::from_millis(20)).await;
    for stream in late.iter().chain(&idle) {
        let sent = stream.try_write(call("quick").as_bytes()).expect("there is room in the kernel");
        assert_eq!(sent, call("quick").len());
    }
    for stream in idle.iter_mut().chain(&mut late) {
        let answer = answer(stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    served.stopped().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let large = tool("large", TaskSupport::Forbidden, |_| async { done(&"x".repeat(32 << 20)) });
    let served = serve(server_with(vec![large], |wire| wire.write_time = Duration::from_millis(500))).await;
    let mut stream = calling(served.address, "large").await;
    let cut = async {
        // Sends one more byte of an unfinished request; fails once the server has hung up.
        while stream.write_all(b"P").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.expect("it is cut off");
    served.stopped().await;
}

/// A stopping server answers running requests, and accepts no new ones.
#[tokio::test]
async fn a_server_that_stops_answers_what_is_under_way_and_lets_nobody_in() {
    let (waiting, go, mut tells) = waiting(TaskSupport::Forbidden);
    let drained = Arc::new(Notify::new());
    let over = drained.clone();
    let over = async move { over.notified().await };
    let served = Served::draining(server(vec![quick(), waiting]), over).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = served.post(&request(json!("L"), "subscriptions/listen", wanted, &able())).await;
    listening.message().await.expect("an acknowledgement");
    let mut idle = calling(served.address, "quick").await;
    assert!(answer(&mut idle).await.starts_with("HTTP/1.1 200"));
    let mut busy = calling(served.address, "waiting").await;
    assert_eq!(tells.recv().await, Some("begun"));

    served.stop();
    // 26SUB: a subscription is answered, and its stream ends.
    let last = listening.message().await.expect("the answer of the subscription");
    assert_eq!((&last["id"], last["result"].is_object()), (&json!("L"), true), "{last}");
    assert!(listening.message().await.is_none());
    assert_eq!(heard(&mut idle).await, "", "a connection that does nothing is closed");
    while TcpStream::connect(served.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    let answer = heard(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"text\":\"x\""), "{answer}");
    drained.notify_one();
    served.stopped().await;
}

/// A request that still waits at the end gets an answer, not silence.
#[tokio::test]
async fn calls_that_outlast_the_drain_are_told_that_the_server_closes() {
    let (waiting, _go, mut tells) = waiting(TaskSupport::Forbidden);
    let server = server(vec![waiting]);
    let dispatch = server.dispatch.clone();
    let drained = async move {
        dispatch.drain(Duration::ZERO, DrainMode::HandOver).await;
    };
    let served = Served::draining(server, drained).await;
    let call = request(json!(1), "tools/call", json!({"name": "waiting", "arguments": {}}), &able());
    let mut answer = served.post(&call).await;
    assert_eq!(tells.recv().await, Some("begun"));
    served.stop();
    let end = answer.message().await.expect("an answer");
    assert_eq!(end["error"]["code"], -32603, "{end}");
    assert!(end["error"]["message"].as_str().expect("a message").contains("shutting down"), "{end}");
    assert_eq!(tells.recv().await, Some("gone"));
    served.stopped().await;
}
