//! Several hosts on one PostgreSQL: each of them answers for every task, and hosts may join and leave
//! (A1 to A7).

use crate::bridge::order;
use crate::network::authority;
use crate::questions::{accepted, everything, form};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use toolyard_tests::exchange::{next, outcome};
use toolyard_tests::host::{command, run};
use toolyard_tests::postgres::{self, Flushing, Server};
use toolyard_tests::stateless::Client;
use toolyard_tests::{Host, Session, Setup, Sink, ends, eventually, guests, until};

/// A database for hosts that share it.
struct Cluster {
    server: &'static Server,
    schema: String,
}

impl Cluster {
    /// On the server that the tests of this process share; `None` if there is no server.
    fn on_shared() -> Option<Self> {
        let server = postgres::shared()?;
        Some(Self { server, schema: server.schema() })
    }

    fn setup(&self) -> Setup {
        self.bare().with(&[guests::plugin("probe"), guests::fixture("script")])
    }

    /// A host without plugins. Its lease is long enough for a busy machine.
    fn bare(&self) -> Setup {
        Setup::new()
            .variable("TOOLYARD_STORE", &self.server.address())
            .set("cluster.schema", &self.schema)
            .set("cluster.lease", "4s")
    }

    async fn hosts<const COUNT: usize>(&self) -> [Host; COUNT] {
        let mut hosts = Vec::new();
        for _ in 0..COUNT {
            hosts.push(self.setup().start().await);
        }
        hosts.try_into().unwrap_or_else(|_| unreachable!("so many were started"))
    }
}

/// A6: each host answers for the tasks of the others, to clients of both eras.
#[tokio::test]
async fn any_host_answers_for_any_task() {
    let Some(cluster) = Cluster::on_shared() else { return };
    let a = cluster.setup().set("admin.listen", "127.0.0.1:0").start().await;
    let [b, c] = cluster.hosts().await;
    // With a session, which every host serves.
    let on_a = Session::open(a.port()).await;
    let (on_b, on_c) = (on_a.at(b.port()), on_a.at(c.port()));
    let running = on_a.create("wait", json!({"ms": 600_000})).await;
    assert_eq!(on_b.task(&running).await["status"], "working");
    assert_eq!(on_c.result("tasks/list", json!({})).await["tasks"][0]["taskId"], running.as_str());
    // Clients of both other hosts wait for the result.
    let quick = on_a.create("wait", json!({"ms": 700})).await;
    let wait = json!({"taskId": quick});
    let results = tokio::join!(on_b.result("tasks/result", wait.clone()), on_c.result("tasks/result", wait));
    assert_eq!((&results.0["isError"], &results.1["isError"]), (&json!(false), &json!(false)));
    // A cancel is final before it is acknowledged, no matter which host runs the task, and the guest stops.
    let spinning = on_a.create("spin", json!({"ms": 600_000})).await;
    // One that sleeps, and this one.
    until("the guest to run", || async { a.runs().await == 2 }).await;
    assert_eq!(on_c.result("tasks/cancel", json!({"taskId": spinning})).await["status"], "cancelled");
    for session in [&on_a, &on_b, &on_c] {
        assert_eq!(session.task(&spinning).await["status"], "cancelled");
        assert_eq!(session.error("tasks/cancel", json!({"taskId": spinning})).await["code"], -32602);
    }
    until("the guest to stop", || async { a.runs().await == 1 }).await;
    // Without a session.
    let there = Client::with_tasks(b.port());
    let id = there.create("batch", json!({"steps": 1, "ms": 600_000})).await;
    let elsewhere = there.again(c.port());
    assert_eq!(elsewhere.task(&id).await["status"], "working");
    elsewhere.cancel(&id).await;
    there.again(a.port()).until(&id, "cancelled").await;
}

/// A7: the host on which the client waits asks the question. The first answer counts, whichever host receives
/// it.
#[tokio::test]
async fn questions_of_a_task_are_asked_and_answered_on_other_hosts_and_a_session_ends_on_all() {
    let Some(cluster) = Cluster::on_shared() else { return };
    let [a, b, c] = cluster.hosts().await;
    let on_a = a.open_as(everything()).await;
    let task = on_a.create_script(json!([{"ask": [form("a")]}])).await;
    let (on_b, on_c) = (on_a.at(b.port()), on_a.at(c.port()));
    let mut wait = on_b.begin("tasks/result", json!({"taskId": task})).await;
    let asked = wait.next_of("elicitation/create").await;
    assert_eq!(on_c.task(&task).await["status"], "input_required");
    on_c.respond(&asked, accepted()).await;
    on_b.respond(&asked, json!({"action": "decline"})).await;
    let (answer, _) = wait.answer().await;
    assert_eq!(outcome(&answer["result"]), json!([{"a": accepted()}]));
    assert_eq!(on_a.task(&task).await["status"], "completed");
    // If one host closes a session, all hosts close it a moment later.
    on_a.delete().await;
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    until("the session to be closed there too", || async { on_b.post(&ping).await.status == 404 }).await;
}

/// A client of one host gives up. The same call on another host joins the kept task, once.
#[tokio::test]
async fn an_equal_call_on_another_host_joins_the_kept_task() {
    let Some(cluster) = Cluster::on_shared() else { return };
    let sink = Sink::start().await;
    let start = || {
        let setup = cluster.bare().with(&[guests::fixture("effects")]).manifest("effects", &sink.manifest());
        let setup = setup.principals(&["alice"]).set("admin.listen", "127.0.0.1:0");
        setup.set("bridge.after", "60s").start()
    };
    let (a, b) = tokio::join!(start(), start());
    let (on_a, on_b) = tokio::join!(a.session_of("alice"), b.session_of("alice"));
    // From the first call on, a host looks in the store for no more kept tasks.
    on_b.call("slow", order(&sink, "other", 0)).await;
    sink.hold();
    let arguments = order(&sink, "k", 0);
    let (id, params) = (on_a.next_id(), json!({"name": "slow", "arguments": arguments}));
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    tokio::join!(on_a.post(&call), async {
        sink.begun("k", 1).await;
        on_a.notify("notifications/cancelled", json!({"requestId": id, "reason": "timed out"})).await;
    });
    let counts = async |host: &Host, series: &str| {
        let count = eventually(series, || async { host.metric(series).await.filter(|n| *n > 0) }).await;
        assert_eq!(count, 1, "{series}");
    };
    counts(&a, "toolyard_kept_total").await;
    // Broadcasts arrive in the order in which they were sent, so this one arrives after that about the task.
    let other = a.session_of("alice").await;
    let mut listening = other.at(b.port()).listen().await;
    other.create("slow", json!({"key": "without effects"})).await;
    while next(&mut listening).await.expect("the stream stays open")["method"] != "notifications/tasks/status"
    {
    }

    let (joined, ()) = tokio::join!(on_b.call("slow", arguments.clone()), async {
        counts(&b, "toolyard_rejoins_total").await;
        sink.release();
    });
    assert_eq!(joined["structuredContent"]["key"], "k", "{joined}");
    assert_eq!(sink.of("k").begun, [1], "the guest ran once");
    // The result is delivered, so no call joins the task on the first host either.
    until("another run", || async {
        on_a.call("slow", arguments.clone()).await;
        sink.of("k").begun.len() == 2
    })
    .await;
}

/// Any host lists the differences between the plugin folders.
#[tokio::test]
async fn hosts_and_the_components_that_some_lack_are_listed() {
    let Some(cluster) = Cluster::on_shared() else { return };
    let a = cluster.setup().start().await;
    let _b = cluster.bare().with(&[guests::plugin("probe")]).start().await;
    let (schema, address) = (format!("cluster.schema={}", cluster.schema), cluster.server.address());
    let listed = async |further: &[&str]| {
        let args = [&["hosts", "--store", &address, "--set", &schema], further].concat();
        a.prints(&args).await
    };
    let components = |line: &str| {
        let host: Value = serde_json::from_str(line).expect("JSON");
        assert!(host["name"].is_string() && host["since"].is_string(), "{host}");
        host["components"].as_array().expect("a list").len()
    };
    until("both to be known with what they have", || async {
        let mut has: Vec<usize> = listed(&["--json"]).await.lines().map(components).collect();
        has.sort_unstable();
        has == [1, 2]
    })
    .await;
    let shown = listed(&[]).await;
    assert!(shown.contains("Not all have the same components"), "{shown}");
    assert_eq!(shown.lines().skip_while(|line| !line.contains("NOT ON HOST")).count(), 2, "{shown}");
}

/// All connections to a remote database are encrypted, and the host checks the certificate of the server.
#[tokio::test]
async fn the_certificate_of_a_database_is_checked() {
    let Some(server) = Server::start(Flushing::Off) else { return };
    let (issuer, trusted) = authority("ours");
    let (_, foreign) = authority("theirs");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &issuer).expect("signed").pem();
    let address = |mode: &str, name: &str| {
        format!("postgres://toolyard@{name}:{}/postgres?sslmode={mode}", server.port())
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("it can be written");
        path.display().to_string()
    };
    let (trusted, foreign) = (file("trusted.pem", &trusted), file("foreign.pem", &foreign));
    let refused = async |address: String, trusts: &str| {
        let setup = Setup::new();
        let mut command = command("serve", setup.folder(), &["--store", &address]);
        let output = command.env("SSL_CERT_FILE", trusts).output().await.expect("it starts");
        ends(&output, 1, "")
    };
    let said = refused(address("require", "localhost"), &trusted).await;
    assert!(said.contains("TLS") && said.contains("sslmode=disable"), "{said}");
    server.encrypt(&certificate, &key.serialize_pem());
    for mode in ["require", "verify-full"] {
        let setup = Setup::new().variable("TOOLYARD_STORE", &address(mode, "localhost"));
        let (_host, session) =
            setup.variable("SSL_CERT_FILE", &trusted).with(&[guests::plugin("probe")]).open().await;
        session.complete("wait", json!({"ms": 1})).await;
        let secured = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name LIKE 'toolyard%' AND state IS NOT NULL";
        assert_eq!(server.ask(secured).trim(), "t");
    }
    let said = refused(address("require", "localhost"), &foreign).await;
    assert!(said.contains("certificate"), "{said}");
    // The certificate names another machine.
    let said = refused(address("require", "127.0.0.1"), &trusted).await;
    assert!(said.contains("certificate"), "{said}");
}

/// The password shows neither in the list of processes nor in a log.
#[tokio::test]
async fn an_address_that_leads_nowhere_is_explained_without_its_password() {
    let args = ["--store", "postgres://me:hunter2@127.0.0.1:1/x?sslmode=disable"];
    let said = ends(&run("serve", Setup::new().folder(), &args).await, 1, "check the address");
    assert!(said.contains("127.0.0.1") && !said.contains("hunter2"), "{said}");
}
