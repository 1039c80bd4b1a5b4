//! The table of crash points in `host/docs/explanation/reliability.md`, row by row: the process is
//! stopped exactly there, by a fail point or in the middle of an effect, and what was
//! promised is read after the restart. Effects are counted outside of the host.

mod answers;
mod database;
mod runs;

use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::session::LATEST;
use toolyard_tests::{Host, Session, Sink, guests};

/// A host with the guest `effects`, a sink for them, and a client that can be asked.
struct Scene {
    sink: Sink,
    host: Host,
    session: Session,
}

impl Scene {
    /// `fail_at` is where the host stops itself.
    async fn new(fail_at: Option<&str>) -> Self {
        Self::with(fail_at, |setup| setup).await
    }

    async fn with(fail_at: Option<&str>, more: impl FnOnce(Setup) -> Setup) -> Self {
        let sink = Sink::start().await;
        let setup = Setup::new()
            .with(&[guests::fixture("effects")])
            .manifest("effects", &sink.manifest())
            .set("tasks.rerun-after", "20ms");
        let setup = more(setup);
        let setup = match fail_at {
            Some(name) => setup.fail_at(name),
            None => setup,
        };
        let host = setup.start().await;
        let session = Session::open_as(host.port(), LATEST, json!({"elicitation": {}})).await.session;
        Self { sink, host, session }
    }

    fn order(&self, key: &str) -> Value {
        json!({"key": key, "sink": self.sink.authority()})
    }

    /// Calls a tool as a task, before a host that may die of it.
    async fn try_create(&self, tool: &str, arguments: Value) -> Option<String> {
        let call = json!({"name": tool, "arguments": arguments, "task": {}});
        let created = self.session.try_request(self.session.next_id(), "tools/call", call).await?;
        let id = created["result"]["task"]["taskId"].as_str();
        Some(id.unwrap_or_else(|| panic!("a task: {created}")).to_owned())
    }

    /// Another host on the same folder, in the place of the one that was killed.
    async fn restart(&mut self) {
        self.host.was_killed().await;
        self.move_to(self.host.another().await);
    }

    /// Waits until the host has stopped itself.
    async fn until_stopped(&self) {
        let status = format!("/proc/{}/status", self.host.pid());
        toolyard_tests::eventually("the host to be stopped", || async {
            let status = std::fs::read_to_string(&status).expect("it lives");
            status.contains("State:\tT").then_some(())
        })
        .await;
    }

    async fn kill(&mut self) {
        self.host.kill().await;
        self.move_to(self.host.another().await);
    }

    fn move_to(&mut self, host: Host) {
        self.session = self.session.at(host.port());
        self.host = host;
    }

    /// The ids of all tasks.
    async fn tasks(&self) -> Vec<String> {
        let listed = self.session.result("tasks/list", json!({})).await;
        let tasks = listed["tasks"].as_array().expect("tasks");
        tasks.iter().map(|task| task["taskId"].as_str().expect("an id").to_owned()).collect()
    }

    /// Which attempts had effects.
    fn begun(&self, key: &str) -> Vec<u32> {
        self.sink.of(key).begun
    }

    /// What a task came to, which is a result of the tool.
    async fn outcome(&self, id: &str) -> Value {
        let result = self.session.result("tasks/result", json!({"taskId": id})).await;
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON")
    }

    /// The task has failed because its host stopped, and says of its effects what is
    /// known of them.
    async fn failed_honestly(&self, id: &str) {
        let task = self.session.until(id, "failed").await;
        let message = task["statusMessage"].as_str().expect("a message");
        let effects = message.contains("may have had effects") || message.contains("has had effects");
        assert!(message.contains("host") && effects, "{message}");
        let error = self.session.error("tasks/result", json!({"taskId": id})).await;
        assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(message)));
        assert_eq!(self.session.task(id).await, task, "A2: final");
    }
}

/// Fail points are in a program of their own: what is shipped has no trace of them.
#[test]
fn what_is_shipped_has_no_fail_points() {
    let holds = |program: std::path::PathBuf, name: &str| {
        let bytes = std::fs::read(program).expect("a program");
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    };
    for name in ["TOOLYARD_FAILPOINT", "drain.begun", "there is no fail point"] {
        assert!(holds(guests::binary_with_fail_points(), name), "{name}: this is how they look");
        assert!(!holds(guests::binary(), name), "{name}");
    }
}
