//! A relay on real pipes, and a background host on a real socket, both in this process:
//! which messages go where, in which order, and what remains when one of the two is gone.

use crate::kit::pipe::{Client, client};
use crate::kit::request::{able, request};
use crate::kit::server::{Gone, clock, server_on, tool};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{DrainMode, OfferChange, RawJson, Report, TaskSupport};
use toolyard_kit::{done, question};
use toolyard_protocol::LogLevel;
use toolyard_store::MemoryStore;
use toolyard_task::wire::Progress;
use toolyard_task::{RunContext, Tool};
use toolyard_transport::Server;
use toolyard_transport::stdio::{self, Background, Connection, PipeClient};

/// A background host that is a server in this process.
struct Behind {
    server: Arc<Server>,
    /// This side's ends of all connections so far.
    connections: Mutex<Vec<UnixStream>>,
    /// The reason why there is no connection.
    refused: Option<&'static str>,
    stop: CancellationToken,
}

impl Behind {
    fn connections(&self) -> usize {
        self.connections.lock().expect("no panic").len()
    }

    /// Ends the connection as if the process had ended.
    fn cut(&self) {
        let connections = self.connections.lock().expect("no panic");
        connections.last().expect("a connection").shutdown(Shutdown::Both).expect("still open");
    }
}

impl Background for Behind {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>> {
        async {
            if let Some(why) = self.refused {
                return Err(why.to_owned());
            }
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let half = |stream: &UnixStream| stream.try_clone().expect("a clone");
            self.connections.lock().expect("no panic").push(half(&theirs));
            let input = BufReader::new(half(&theirs));
            let stop = self.stop.clone();
            tokio::spawn(stdio::serve(
                self.server.clone(),
                PipeClient::Relay,
                input,
                theirs,
                stop,
                std::future::ready(()),
            ));
            let input = Box::new(BufReader::new(half(&ours)));
            Ok(Connection { input, output: Box::new(Closing(ours)) })
        }
        .boxed()
    }
}

/// The other side reads the end when it is dropped.
struct Closing(UnixStream);

impl std::io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// A relay, its client, and the host behind it.
struct Relayed {
    client: Client,
    behind: Arc<Behind>,
    /// The relay's own part.
    before: Arc<Server>,
}

/// Tools that report where they run.
type Tools = fn(&'static str, &Told) -> Vec<Arc<dyn Tool>>;

/// Signals between the tools and the test.
#[derive(Clone)]
struct Told {
    says: mpsc::UnboundedSender<String>,
    go: Arc<Notify>,
}

impl Told {
    fn say(&self, what: impl Into<String>) {
        self.says.send(what.into()).expect("the test listens");
    }
}

fn relayed(tools: Tools) -> (Relayed, Told, mpsc::UnboundedReceiver<String>) {
    relayed_unless(None, tools)
}

fn relayed_unless(
    refused: Option<&'static str>,
    tools: Tools,
) -> (Relayed, Told, mpsc::UnboundedReceiver<String>) {
    let (says, said) = mpsc::unbounded_channel();
    let told = Told { says, go: Arc::new(Notify::new()) };
    let clock = clock();
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let other = Arc::new(store.node());
    let before = server_on(store, clock.clone(), tools("relay", &told));
    let behind = server_on(other, clock, tools("background", &told));
    let stop = CancellationToken::new();
    let behind = Arc::new(Behind { server: behind, connections: Mutex::default(), refused, stop });
    let (relayed, server) = (PipeClient::Relayed(behind.clone()), before.clone());
    let client = client(|input, output, stop| {
        stdio::serve(server, relayed, input, output, stop, std::future::ready(()))
    });
    (Relayed { client, behind, before }, told, said)
}

/// `place` names the process that runs it; `waiting` runs until its signal; `never`
/// cannot be a task.
fn tools(place: &'static str, told: &Told) -> Vec<Arc<dyn Tool>> {
    let (waits, says) = (told.clone(), told.clone());
    let waiting = move |_: Arc<dyn RunContext>| {
        let told = waits.clone();
        async move {
            let gone = Gone(told.says.clone());
            told.say(format!("begun in {place}"));
            told.go.notified().await;
            drop(gone);
            done(place)
        }
    };
    let at_once = move |context: Arc<dyn RunContext>| {
        let told = says.clone();
        async move {
            context.begin_task().await.expect("it can be a task");
            told.say(format!("a task in {place}"));
            told.go.notified().await;
            done(place)
        }
    };
    vec![
        tool("place", TaskSupport::Optional, move |_| async move { done(place) }),
        tool("never", TaskSupport::Forbidden, move |_| async move { done(place) }),
        tool("waiting", TaskSupport::Optional, waiting),
        tool("at_once", TaskSupport::Optional, at_once),
    ]
}

fn call(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

async fn open(client: &mut Client) {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1"},
    });
    client.answer(&call(0, "initialize", params)).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {answer}"))
}

fn task_of(answer: &Value) -> String {
    answer["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("a task: {answer}")).to_owned()
}

#[tokio::test]
async fn a_task_that_cannot_begin_is_refused_in_the_relay() {
    let (Relayed { mut client, behind, .. }, ..) = relayed(tools);
    open(&mut client).await;
    for params in [
        json!({"name": "never", "task": {}}),
        json!({"name": "unknown", "task": {}}),
        json!({"name": "place", "task": {"ttl": -1}}),
    ] {
        let refused = client.answer(&call(1, "tools/call", params)).await;
        assert!(refused["error"].is_object(), "{refused}");
    }
    assert_eq!(text(&client.answer(&call(2, "tools/call", json!({"name": "place"}))).await), "relay");
    assert_eq!(behind.connections(), 0);
}

#[tokio::test]
async fn a_task_of_a_session_runs_behind_and_is_seen_to_in_front() {
    let (Relayed { mut client, behind, before }, told, mut said) = relayed(tools);
    open(&mut client).await;
    let create = json!({"name": "waiting", "task": {}});
    let id = task_of(&client.answered_to(&call(1, "tools/call", create.clone())).await);
    assert_eq!(said.recv().await.as_deref(), Some("begun in background"));
    let seen = client.answered_to(&call(2, "tasks/get", json!({"taskId": id}))).await;
    assert_eq!(seen["result"]["status"], "working");
    // The background host waits for the end of the task, because it learns of it first; other requests
    // continue meanwhile.
    client.send(&call(3, "tasks/result", json!({"taskId": id})));
    client.answered_to(&call(4, "ping", json!({}))).await;
    told.go.notify_one();
    while client.told("notifications/tasks/status").await["params"]["status"] != "completed" {}
    assert_eq!(text(&client.answered(&json!(3)).await), "background");
    assert_eq!((behind.connections(), before.dispatch.is_idle()), (1, true));
    // The second task takes the same connection.
    let id = task_of(&client.answered_to(&call(5, "tools/call", create)).await);
    assert_eq!(said.recv().await.as_deref(), Some("gone"));
    assert_eq!(said.recv().await.as_deref(), Some("begun in background"));
    assert_eq!(behind.connections(), 1);
    // It continues when the client ends.
    let rest = client.finish().await;
    assert!(rest.iter().all(|told| told["method"] == "notifications/tasks/status"), "{rest:?}");
    told.go.notify_one();
    assert_eq!(said.recv().await.as_deref(), Some("gone"));
    let caller = toolyard_dispatch::Caller::local(RawJson::empty_object());
    let channel = Arc::new(toolyard_dispatch::NoClientChannel);
    let result = behind.server.dispatch.task_result(&caller, &id, channel).await.expect("there");
    assert!(result.expect("a result").as_str().contains("background"));
}

#[tokio::test]
async fn a_call_without_a_session_may_become_a_task_and_so_runs_behind() {
    let (Relayed { mut client, behind, before }, told, mut said) = relayed(tools);
    let call = |id: i64, name: &str| request(json!(id), "tools/call", json!({"name": name}), &able());
    assert_eq!(text(&client.answer(&call(1, "place")).await), "background");
    let created = client.answer(&call(2, "at_once")).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    assert_eq!(said.recv().await.as_deref(), Some("a task in background"));
    let get = json!({"taskId": created["result"]["taskId"]});
    let seen = client.answer(&request(json!(3), "tasks/get", get.clone(), &able())).await;
    assert_eq!(seen["result"]["status"], "working");
    told.go.notify_one();
    let patience = std::time::Duration::from_secs(3600);
    behind.server.dispatch.drain(patience, DrainMode::HandOver).await;
    let seen = client.answer(&request(json!(4), "tasks/get", get, &able())).await;
    assert_eq!(seen["result"]["status"], "completed");
    assert_eq!((behind.connections(), before.dispatch.is_idle()), (1, true));
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn t_26s_2_26j_3_a_cancelled_call_is_stopped_behind_and_an_id_is_free_with_its_answer() {
    let (Relayed { mut client, .. }, _told, mut said) = relayed(tools);
    let call = |name: &str| request(json!(1), "tools/call", json!({"name": name}), &able());
    client.send(&call("waiting"));
    assert_eq!(said.recv().await.as_deref(), Some("begun in background"));
    assert_eq!(client.answer(&call("place")).await["error"]["code"], -32600, "the id is in use");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    assert_eq!(said.recv().await.as_deref(), Some("gone"));
    // Until the cancelled request has freed its id.
    let mut answer = client.answer(&call("place")).await;
    while answer["error"]["code"] == -32600 {
        answer = client.answer(&call("place")).await;
    }
    for _ in 0..200 {
        assert_eq!(text(&client.answer(&call("place")).await), "background");
    }
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn what_was_under_way_when_the_connection_ends_is_said_to_be_lost_and_the_next_call_makes_another() {
    let (Relayed { mut client, behind, .. }, _told, mut said) = relayed(tools);
    open(&mut client).await;
    let create = json!({"name": "waiting", "task": {}});
    let id = task_of(&client.answered_to(&call(1, "tools/call", create.clone())).await);
    assert_eq!(said.recv().await.as_deref(), Some("begun in background"));
    client.send(&request(json!("c"), "tools/call", json!({"name": "waiting"}), &able()));
    assert_eq!(said.recv().await.as_deref(), Some("begun in background"));
    client.send(&call(2, "tasks/result", json!({"taskId": id})));
    client.answered_to(&call(3, "ping", json!({}))).await;
    behind.cut();
    let lost = client.answered(&json!("c")).await;
    assert_eq!(lost["error"]["code"], -32603);
    assert!(lost["error"]["message"].as_str().expect("a text").contains("may have had effects"), "{lost}");
    // The relay continues the wait: the task is in the store, and ends when it is cancelled.
    client.send(&call(4, "tasks/cancel", json!({"taskId": id})));
    assert_eq!(client.answered(&json!(2)).await["error"]["code"], -32603, "T-28");
    assert_eq!(behind.connections(), 1, "neither needs another connection");
    task_of(&client.answered_to(&call(5, "tools/call", create)).await);
    assert_eq!(behind.connections(), 2);
}

#[tokio::test]
async fn a_background_host_that_cannot_be_reached_is_named_and_nothing_runs_instead() {
    let (Relayed { mut client, before, .. }, ..) = relayed_unless(Some("no room at the inn"), tools);
    open(&mut client).await;
    let refused = client.answer(&call(1, "tools/call", json!({"name": "place", "task": {}}))).await;
    let refusals =
        [refused, client.answer(&request(json!(2), "tools/call", json!({"name": "place"}), &able())).await];
    for refused in refusals {
        assert_eq!(refused["error"]["code"], -32603);
        assert!(refused["error"]["message"].as_str().expect("a text").contains("no room at the inn"));
    }
    assert!(before.dispatch.is_idle());
    assert_eq!(text(&client.answer(&call(3, "tools/call", json!({"name": "place"}))).await), "relay");
    assert!(client.finish().await.is_empty());
}

/// `asks` asks its client; `tells` sends every kind of notice.
fn talkative(_place: &'static str, told: &Told) -> Vec<Arc<dyn Tool>> {
    let (asks, tells) = (told.clone(), told.clone());
    let asks = move |context: Arc<dyn RunContext>| {
        let told = asks.clone();
        async move {
            let answers = context.ask(vec![question("k")]).await.expect("answers");
            told.say(answers[0].outcome.as_ref().expect("an answer").as_str());
            done("asked")
        }
    };
    let tells = move |context: Arc<dyn RunContext>| {
        let told = tells.clone();
        async move {
            for level in [LogLevel::Debug, LogLevel::Error] {
                context.report(Report::Log { level, logger: None, data: RawJson::trusted("1") });
            }
            context.report(Report::Progress(Progress { progress: 1.0, total: None, message: None }));
            context.report(Report::Changed(OfferChange::Tools));
            told.go.notified().await;
            done("told")
        }
    };
    vec![tool("asks", TaskSupport::Optional, asks), tool("tells", TaskSupport::Optional, tells)]
}

#[tokio::test]
async fn ir_3_a_question_of_a_task_behind_is_out_once_and_its_answer_finds_the_way_back() {
    let (Relayed { mut client, .. }, _told, mut said) = relayed(talkative);
    open(&mut client).await;
    let id = task_of(&client.answered_to(&call(1, "tools/call", json!({"name": "asks", "task": {}}))).await);
    let question = client.told("elicitation/create").await;
    client.send(&call(2, "tasks/result", json!({"taskId": id})));
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}));
    assert_eq!(said.recv().await.as_deref(), Some(r#"{"action":"decline"}"#));
    loop {
        let message = client.next().await.expect("a message");
        assert_ne!(message["method"], "elicitation/create", "asked twice");
        assert_ne!(message["method"], "notifications/cancelled", "it was answered");
        if message["id"] == 2 {
            assert_eq!(text(&message), "asked");
            break;
        }
    }
    assert!(client.finish().await.is_empty());
}

#[tokio::test]
async fn g_2_p_1_tl_1_what_a_task_behind_tells_its_client_arrives_as_the_client_wants_it() {
    let (Relayed { mut client, .. }, told, _said) = relayed(talkative);
    open(&mut client).await;
    client.answer(&call(1, "logging/setLevel", json!({"level": "error"}))).await;
    let create = |token: &str| json!({"name": "tells", "task": {}, "_meta": {"progressToken": token}});
    task_of(&client.answered_to(&call(2, "tools/call", create("p"))).await);
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
    // A level that is set while there is a connection is also sent.
    client.answered_to(&call(3, "logging/setLevel", json!({"level": "debug"}))).await;
    task_of(&client.answered_to(&call(4, "tools/call", create("q"))).await);
    assert_eq!(client.told("notifications/message").await["params"]["level"], "debug");
    told.go.notify_waiters();
}

#[tokio::test]
async fn t_26sub_2_who_listens_in_the_relay_hears_what_a_guest_behind_announces() {
    let (Relayed { mut client, .. }, _told, _said) = relayed(talkative);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    client.send(&request(json!("l"), "subscriptions/listen", wanted, &able()));
    client.told("notifications/subscriptions/acknowledged").await;
    client.send(&request(json!(1), "tools/call", json!({"name": "tells"}), &able()));
    client.told("notifications/tools/list_changed").await;
}
