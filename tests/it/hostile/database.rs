//! Another role of the shared database. It may connect, and create its own schemas; it has no rights on the
//! schema of the hosts.

use super::stage::Stage;
use crate::questions::RELATED;
use serde_json::json;
use std::ops::Deref;
use toolyard_tests::exchange::next_of;
use toolyard_tests::postgres::{self, Server};
use toolyard_tests::{Host, Session, Setup, guests, until};

const SECRET: &str = "told-to-its-client-alone";

/// A stage whose host shares a database with others.
struct Shared {
    stage: Stage,
    server: &'static Server,
    schema: String,
}

impl Deref for Shared {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

/// A host on this schema, as a role that is not a superuser.
fn setup(server: &Server, schema: &str) -> Setup {
    Setup::new()
        .variable("TOOLYARD_STORE", &server.address_of("hosts"))
        .set("cluster.schema", schema)
        .set("admin.listen", "127.0.0.1:0")
        .with(&[guests::fixture("script")])
}

impl Shared {
    /// Another host on the same schema.
    async fn another(&self) -> Host {
        setup(self.server, &self.schema).with(&[guests::plugin("probe")]).start().await
    }

    /// The messages that the spy receives during `doing`.
    async fn overheard(&self, doing: impl Future<Output = ()>) -> Vec<String> {
        let channel = format!("toolyard_{}", self.schema);
        let listen = format!("LISTEN {channel}");
        let pause = "SELECT pg_sleep(0.2)";
        let statements = [&[listen.as_str()][..], &[pause; 20]].concat();
        let listening = self.server.begin_as("spy", &statements);
        let listens =
            format!("SELECT count(*) FROM pg_stat_activity WHERE usename = 'spy' AND query = '{pause}'");
        until("the spy to listen", || async { self.server.ask(&listens).trim() != "0" }).await;
        doing.await;
        let heard = tokio::task::spawn_blocking(|| listening.answer()).await.expect("it ends");
        let payloads = heard.lines().filter_map(|line| {
            let (_, rest) = line.split_once("with payload \"")?;
            rest.split_once("\" received").map(|(payload, _)| payload.to_owned())
        });
        payloads.collect()
    }
}

#[tokio::test]
async fn database() {
    let Some(server) = postgres::shared() else { return };
    server.ask(
        "CREATE ROLE hosts LOGIN; CREATE ROLE spy LOGIN; GRANT CREATE ON DATABASE postgres TO hosts, spy",
    );
    let schema = server.schema();
    let stage = Stage::open(setup(server, &schema)).await;
    let stage = Shared { stage, server, schema };
    attacks!(stage; hear_and_repeat_what_hosts_say);
    stage.stage.at_rest().await;
}

/// A task on one host, whose client listens on another.
async fn work(on: &Shared, other: &Host) -> (String, String) {
    let session = Session::open(on.host.port()).await;
    let mut listening = session.at(other.port()).listen().await;
    let log = json!({"log": {"level": "error", "data": SECRET}});
    let task = session.create_script(json!(vec![[log, json!({"sleep": 50})]; 20].concat())).await;
    let message = next_of(&mut listening, "notifications/message").await;
    assert_eq!(message["params"]["data"], SECRET, "it goes from one host to the other");
    assert_eq!(message["params"]["_meta"][RELATED]["taskId"], task.as_str(), "{message}");
    session.until(&task, "completed").await;
    (session.id().to_owned(), task)
}

async fn hear_and_repeat_what_hosts_say(stage: &Shared) {
    let other = stage.another().await;
    let mut made = (String::new(), String::new());
    let heard = stage.overheard(async { made = work(stage, &other).await }).await;
    let (session, task) = made;
    assert!(heard.len() > 2, "hosts tell each other of the task, and of its messages: {heard:?}");
    eprintln!("{} messages, such as {}", heard.len(), heard[0]);
    for secret in [&session, &task, &task.replace('-', ""), SECRET, "session", "message", "changed"] {
        assert!(!heard.iter().any(|message| message.contains(secret)), "{secret} in {heard:?}");
    }
    let series = "toolyard_store_messages_refused_total{reason=\"replayed\"}";
    let replayed = async || stage.host.metric(series).await.unwrap_or(0);
    let before = replayed().await;
    for payload in &heard {
        let say = format!("SELECT pg_notify('toolyard_{}', '{payload}')", stage.schema);
        let server = stage.server;
        tokio::task::spawn_blocking(move || server.ask_as("spy", &[&say])).await.expect("it is said");
    }
    // Both hosts have received each other's messages.
    until("repetitions to be counted", || async { replayed().await >= before + heard.len() as u64 }).await;
}
