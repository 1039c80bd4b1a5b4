//! A relay on real pipes, before hosts on a real Unix socket, all in this process: what the client sees of the
//! host, and what remains when one of the two is gone.

use crate::kit::pipe::{Client, client};
use crate::kit::request::{able, request};
use crate::kit::server::{clock, server_on, tool, waiting};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{Clock, RawJson, Report, TaskSupport};
use toolyard_kit::{done, question};
use toolyard_protocol::LogLevel;
use toolyard_store::MemoryStore;
use toolyard_task::session::SessionStore as _;
use toolyard_task::wire::Progress;
use toolyard_task::{RunContext, Tool};
use toolyard_transport::http::{self, Listener};
use toolyard_transport::relay::{self, Background, Connection, RelaySettings};

/// The hosts behind a relay: one at a time, on one store.
struct Hosts {
    folder: TempDir,
    store: Arc<MemoryStore>,
    clock: Arc<dyn Clock>,
    tools: Vec<Arc<dyn Tool>>,
    /// The most connections of one.
    connections: usize,
    /// The runtime of the host that serves, and its number.
    serving: Mutex<(Option<Runtime>, i32)>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.end();
    }
}

impl Hosts {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    /// Ends the host at once, with all its connections.
    fn end(&self) {
        if let Some(runtime) = self.serving.lock().expect("no panic").0.take() {
            runtime.shutdown_background();
        }
    }

    /// Starts a host in place of the one before.
    fn start(&self) {
        self.end();
        drop(std::fs::remove_file(self.socket()));
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let inside = runtime.enter();
        let listener = Listener::Unix(UnixListener::bind(self.socket()).expect("listens"));
        let mut server = server_on(Arc::new(self.store.node()), self.clock.clone(), self.tools.clone());
        Arc::get_mut(&mut server).expect("not shared yet").settings.connections = self.connections;
        runtime.spawn(http::serve(server, listener, CancellationToken::new(), std::future::pending()));
        drop(inside);
        let mut serving = self.serving.lock().expect("no panic");
        *serving = (Some(runtime), serving.1 + 1);
    }
}

impl Background for Hosts {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>> {
        Box::pin(async {
            let process = Some(self.serving.lock().expect("no panic").1);
            let stream = UnixStream::connect(self.socket()).await.map_err(|_| "no room at the inn")?;
            Ok(Connection { stream, process })
        })
    }
}

/// A client before its relay, and the hosts behind it, each of which serves this many connections.
fn relayed(connections: usize) -> (Client, Arc<Hosts>, Arc<Notify>, mpsc::UnboundedReceiver<&'static str>) {
    let (waiting, go, said) = waiting(TaskSupport::Optional);
    let clock = clock();
    let hosts = Arc::new(Hosts {
        folder: tempfile::tempdir().expect("a folder"),
        store: Arc::new(MemoryStore::new(clock.clone())),
        clock,
        tools: tools(waiting, &go),
        connections,
        serving: Mutex::default(),
    });
    let behind = hosts.clone();
    let settings = RelaySettings { message_bytes: 1 << 20, requests: 8, relay: 7 };
    let client = client(|input, output, stop| relay::serve(behind, settings, input, output, stop));
    (client, hosts, go, said)
}

/// `asks` asks its client; `tells` sends every kind of notice, and like `waiting` runs until its signal.
fn tools(waiting: Arc<dyn Tool>, go: &Arc<Notify>) -> Vec<Arc<dyn Tool>> {
    let asks = |context: Arc<dyn RunContext>| async move {
        let answers = context.ask(vec![question("k")]).await.expect("answers");
        done(answers[0].outcome.as_ref().expect("an answer").as_str())
    };
    let signal = go.clone();
    let tells = move |context: Arc<dyn RunContext>| {
        let go = signal.clone();
        async move {
            for level in [LogLevel::Debug, LogLevel::Error] {
                context.report(Report::Log { level, logger: None, data: RawJson::trusted("1") });
            }
            context.report(Report::Progress(Progress { progress: 1.0, total: None, message: None }));
            context.report(Report::Changed(toolyard_task::tool::OfferChange::Tools));
            go.notified().await;
            done("told")
        }
    };
    vec![
        tool("quick", TaskSupport::Optional, |_| async { done("quick") }),
        waiting,
        tool("asks", TaskSupport::Optional, asks),
        tool("tells", TaskSupport::Optional, tells),
    ]
}

fn call(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

async fn open(client: &mut Client) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1"}});
    let opened = client.answer(&call(0, "initialize", params)).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {answer}"))
}

async fn create(client: &mut Client, id: i64, tool: &str) -> String {
    let params = json!({"name": tool, "task": {}, "_meta": {"progressToken": tool}});
    let created = client.answered_to(&call(id, "tools/call", params)).await;
    created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("a task: {created}")).to_owned()
}

#[tokio::test]
async fn ir_3_a_question_of_a_task_is_out_once_and_its_answer_finds_the_way_back() {
    let (mut client, hosts, ..) = relayed(100);
    hosts.start();
    open(&mut client).await;
    let id = create(&mut client, 1, "asks").await;
    let question = client.told("elicitation/create").await;
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}));
    client.send(&call(2, "tasks/result", json!({"taskId": id})));
    let mut message = client.next().await.expect("a message");
    while message["id"] != 2 {
        assert_ne!(message["method"], "elicitation/create", "asked twice");
        message = client.next().await.expect("a message");
    }
    assert_eq!(text(&message), r#"{"action":"decline"}"#);
    assert!(client.finish().await.is_empty());
    assert!(hosts.store.sessions(9).await.expect("reads").is_empty(), "H-24: it ends with its client");
}

#[tokio::test]
async fn requests_that_find_no_room_are_refused_by_name() {
    let (mut client, hosts, go, mut said) = relayed(2);
    hosts.start();
    let call = |id: i64, name: &str| request(json!(id), "tools/call", json!({"name": name}), &able());
    for id in 1..=2 {
        client.send(&call(id, "waiting"));
        assert_eq!(said.recv().await, Some("begun"));
        // The connection that the relay keeps is idle by then, and makes room.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    (3..=9).for_each(|id| client.send(&call(id, "quick")));
    let mut refused = async || client.next().await.expect("a refusal")["error"]["message"].to_string();
    let first = refused().await;
    assert!(first.contains("8 requests on this pipe are under way"), "{first}");
    for _ in 3..=8 {
        let refused = refused().await;
        assert!(refused.contains("serves 2 connections"), "{refused}");
    }
    go.notify_waiters();
    for _ in 1..=2 {
        assert_eq!(text(&client.next().await.expect("an answer")), "x");
    }
}

#[tokio::test]
async fn g_2_p_1_tl_1_what_a_task_tells_its_client_arrives_as_the_client_wants_it() {
    let (mut client, hosts, go, _said) = relayed(100);
    hosts.start();
    open(&mut client).await;
    client.answer(&call(1, "logging/setLevel", json!({"level": "error"}))).await;
    create(&mut client, 2, "tells").await;
    let (mut progress, mut logs, mut changes) = (0, 0, 0);
    while progress + logs + changes < 3 {
        let message = client.next().await.expect("a message");
        match message["method"].as_str().expect("a notice") {
            "notifications/progress" => progress += 1,
            "notifications/message" => {
                logs += 1;
                assert_eq!(message["params"]["level"], "error");
            }
            "notifications/tools/list_changed" => changes += 1,
            "notifications/tasks/status" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!((progress, logs, changes), (1, 1, 1));
    go.notify_waiters();
}

#[tokio::test]
async fn t_26s_2_26sub_2_a_client_without_a_session_listens_cancels_and_uses_an_id_again() {
    let (mut client, hosts, _go, mut said) = relayed(100);
    hosts.start();
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    client.send(&request(json!("l"), "subscriptions/listen", wanted, &able()));
    client.told("notifications/subscriptions/acknowledged").await;
    let call = |name: &str| request(json!(1), "tools/call", json!({"name": name}), &able());
    client.send(&call("waiting"));
    assert_eq!(said.recv().await, Some("begun"));
    assert_eq!(client.answered_to(&call("quick")).await["error"]["code"], -32600, "the id is in use");
    // A reason, so that the host does not keep the call for a client that comes back.
    let cancelled = json!({"requestId": 1, "reason": "stop", "_meta": {}});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    assert_eq!(said.recv().await, Some("gone"));
    let mut answer = client.answered_to(&call("quick")).await;
    while answer["error"]["code"] == -32600 {
        answer = client.answered_to(&call("quick")).await;
    }
    for _ in 0..200 {
        assert_eq!(text(&client.answered_to(&call("quick")).await), "quick");
    }
}

#[tokio::test]
async fn a_client_goes_on_at_the_next_host_and_a_call_under_way_is_said_to_be_lost() {
    let (mut client, hosts, go, mut said) = relayed(100);
    hosts.start();
    open(&mut client).await;
    client.send(&call(1, "tools/call", json!({"name": "waiting"})));
    assert_eq!(said.recv().await, Some("begun"));
    client.send(&request(json!("c"), "tools/call", json!({"name": "waiting"}), &able()));
    assert_eq!(said.recv().await, Some("begun"));
    hosts.start();
    let mut left = vec![json!(1), json!("c")];
    while !left.is_empty() {
        let lost = client.next().await.expect("a message");
        left.retain(|id| *id != lost["id"]);
        assert!(lost["error"]["message"].as_str().expect("text").contains("may have had effects"), "{lost}");
    }
    // The same session: the store is the same.
    create(&mut client, 2, "waiting").await;
    go.notify_waiters();
}

#[tokio::test]
async fn a_background_host_that_cannot_be_reached_is_named_and_nothing_runs_instead() {
    let (mut client, hosts, ..) = relayed(100);
    let refused = client.answer(&call(0, "initialize", json!({}))).await;
    let stateless = request(json!(2), "tools/call", json!({"name": "quick"}), &able());
    for refused in [refused, client.answer(&stateless).await] {
        assert_eq!(refused["error"]["code"], -32603);
        assert!(refused["error"]["message"].as_str().expect("a text").contains("no room at the inn"));
    }
    // Once one can, the client opens its session.
    hosts.start();
    open(&mut client).await;
    assert_eq!(text(&client.answered_to(&call(1, "tools/call", json!({"name": "quick"}))).await), "quick");
}
