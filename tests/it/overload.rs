//! Overload: the host rejects a client over a limit at once, names the limit and gives a time to retry, and
//! serves all others as before. `make bench` (`--only overload`) measures the long version.

use crate::say;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use toolyard_tests::host::Setup;
use toolyard_tests::{Session, eventually};

/// Clients that connect at once.
const CLIENTS: usize = 5_000;

/// The limit must cover the other end of every connection, which this process holds.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many as may be");
}

/// A `ping` of this session, in its wire format.
fn ping(session: &Session, id: usize) -> String {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let mut head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\n".to_owned();
    for (name, value) in session.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// The answer to the request of this id: its status and its message.
async fn answered(stream: &mut TcpStream) -> Option<(u16, Value)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&bytes).ok()?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(message) = serde_json::from_str(body) {
            return Some((head.split(' ').nth(1)?.parse().ok()?, message));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_at_once_are_each_served_or_told_to_come_back() {
    raise_descriptor_limit();
    let host = Setup::probe().set("wire.connections", "500").start().await;
    let session = Arc::new(Session::open(host.port()).await);
    let before = host.usage().resident >> 10;
    let (refused, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for id in 0..CLIENTS {
        let (session, refused, broken) = (session.clone(), refused.clone(), broken.clone());
        clients.spawn(async move {
            eventually("a client to be served", || async {
                let began = Instant::now();
                let mut stream = TcpStream::connect(("127.0.0.1", session.port())).await.expect("it listens");
                drop(stream.write_all(ping(&session, 1_000_000 + id).as_bytes()).await);
                // A connection that sends nothing for a second makes room for others, and on a machine with other
                // work a client may take that long.
                let is_prompt = began.elapsed() < Duration::from_millis(500);
                match answered(&mut stream).await {
                    Some((200, answer)) => {
                        assert_eq!(answer["result"], json!({}));
                        return Some(());
                    }
                    Some((503, answer)) => {
                        let error = &answer["error"];
                        assert_eq!(error["data"]["limit"], "wire.connections", "{error}");
                        assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Some((status, answer)) => panic!("{status}: {answer}"),
                    None => drop(broken.fetch_add(usize::from(is_prompt), Ordering::Relaxed)),
                }
                None
            })
            .await;
        });
    }
    while let Some(done) = clients.join_next().await {
        done.expect("each is served in the end");
    }
    assert_eq!(broken.load(Ordering::Relaxed), 0, "the host closes no request without an answer");
    let after = host.usage().resident >> 10;
    say(&format!(
        "{CLIENTS} clients over 500 connections: {} refusals; {before} KiB before, {after} KiB after",
        refused.load(Ordering::Relaxed)
    ));
    assert!(after < before + 100 * 1024, "{before} KiB before, {after} KiB after");
}

/// The limit that the answer of a busy host names.
fn named(error: &Value) -> &str {
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
    error["data"]["limit"].as_str().unwrap_or_else(|| panic!("no limit: {error}"))
}

/// T-42, T-44: each limit on running and queued work, reached in turn.
#[tokio::test]
async fn t_44_every_bound_is_refused_by_its_name() {
    let waits = json!({"name": "wait", "arguments": {"ms": 600_000}, "task": {}});
    let plain = json!({"name": "wait", "arguments": {"ms": 1}});
    for (limit, settings, params) in [
        ("calls.running", &[("calls.running", "2")][..], &plain),
        ("calls.running-per-principal", &[("calls.running-per-principal", "2")], &plain),
        (
            "tasks.waiting-per-principal",
            &[("calls.running-per-principal", "1"), ("tasks.waiting-per-principal", "1")],
            &waits,
        ),
        ("tasks.live", &[("tasks.live", "2")], &waits),
        ("limits.concurrency", &[], &plain),
    ] {
        let mut setup = Setup::probe();
        if limit == "limits.concurrency" {
            setup = setup.manifest("probe", "[limits]\nconcurrency = 1");
        }
        for (key, value) in settings {
            setup = setup.set(key, value);
        }
        let (_host, session) = setup.open().await;
        for _ in 0..2 {
            session.result("tools/call", waits.clone()).await;
        }
        assert_eq!(named(&session.error("tools/call", params.clone()).await), limit);
        assert_eq!(session.request("ping", json!({})).await["result"], json!({}), "{limit}");
    }
}

#[tokio::test]
async fn t_44_requests_of_one_session_are_bounded() {
    let setup = Setup::probe().set("wire.requests-per-session", "2");
    let (host, session) = setup.open().await;
    let call = || {
        json!({"jsonrpc": "2.0", "id": session.next_id(), "method": "tools/call",
               "params": {"name": "wait", "arguments": {"ms": 600_000}}})
    };
    // Both have become streams, so both calls are running.
    let under_way = [session.post(&call()).await, session.post(&call()).await];
    assert!(under_way.iter().all(toolyard_tests::http::Answer::is_events));
    assert_eq!(named(&session.error("ping", json!({})).await), "wire.requests-per-session");
    assert_eq!(Session::open(host.port()).await.request("ping", json!({})).await["result"], json!({}));
}

/// A queue of thousands of tasks: it costs little memory, the host answers other requests, and every task
/// gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_tasks_in_line_cost_little_and_all_have_their_turn() {
    const TASKS: usize = 3_200;
    const CREATORS: usize = 16;
    const RUNNING: usize = 16;
    let setup = Setup::probe().set("tasks.waiting-per-principal", "10000");
    let host = setup.set("calls.running-per-principal", &RUNNING.to_string()).start().await;
    let session = Arc::new(Session::open(host.port()).await);
    let mut asleep = Vec::new();
    for _ in 0..RUNNING {
        asleep.push(session.create("wait", json!({"ms": 600_000})).await);
    }
    let before = host.usage().resident >> 10;
    let mut creators = JoinSet::new();
    for _ in 0..CREATORS {
        let session = session.clone();
        creators.spawn(async move {
            for _ in 0..TASKS / CREATORS {
                session.create("wait", json!({"ms": 0})).await;
            }
        });
    }
    while let Some(done) = creators.join_next().await {
        done.expect("each task is created");
    }
    let full = host.usage().resident >> 10;
    say(&format!("{TASKS} tasks in the queue: {before} KiB before, {full} KiB with them"));
    assert!(full < before + 100 * 1024, "{before} KiB before, {full} KiB with them");
    let last = session.create("wait", json!({"ms": 0})).await;
    assert_eq!(session.task(&last).await["status"], "working");
    for id in &asleep {
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
    session.until(&last, "completed").await;
}

/// Queued arguments are in the store, not in memory.
#[tokio::test]
async fn the_arguments_of_tasks_in_line_are_not_held_in_memory() {
    const TASKS: u64 = 100;
    const MIB: usize = 1 << 20;
    let setup = Setup::probe().set("calls.running-per-principal", "1");
    let (host, session) = setup.manifest("probe", "[tools.echo]\ntask-support = \"optional\"").open().await;
    let first = session.create("wait", json!({"ms": 600_000})).await;
    let before = host.usage().resident >> 10;
    let mut last = String::new();
    for _ in 0..TASKS {
        last = session.create("echo", json!({"text": "x".repeat(MIB)})).await;
    }
    let full = host.usage().resident >> 10;
    say(&format!("{TASKS} tasks in the queue with 1 MiB each: {before} KiB before, {full} KiB with them"));
    assert!(full < before + TASKS * 1024 / 2, "{before} KiB before, {full} KiB with them");
    session.result("tasks/cancel", json!({"taskId": first})).await;
    session.until(&last, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": last})).await;
    assert_eq!(result["content"][0]["text"].as_str().expect("text").len(), MIB, "it got them all the same");
}
