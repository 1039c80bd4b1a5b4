//! The table of crash points in `host/docs/explanation/reliability.md`, row by row. The process stops
//! exactly there, at a fail point or in the middle of an effect, and the test checks the promise after the
//! restart. A sink outside of the host counts the effects.

mod answers;
mod resume;
mod runs;

use serde_json::{Value, json};
use toolyard_tests::{Host, Session, Setup, Sink, until};

/// A host with the guest `effects`, a sink for its effects, and a client that supports elicitation.
struct Scene {
    sink: Sink,
    host: Host,
    session: Session,
}

impl Scene {
    /// `fail_at` names the fail point at which the host stops itself.
    async fn new(fail_at: Option<&str>) -> Self {
        Self::with(fail_at, |setup| setup).await
    }

    async fn with(fail_at: Option<&str>, more: impl FnOnce(Setup) -> Setup) -> Self {
        let sink = Sink::start().await;
        let setup = more(Setup::fixture("effects", &sink.manifest()).set("tasks.rerun-after", "20ms"));
        let setup = fail_at.into_iter().fold(setup, Setup::fail_at);
        let (host, session) = setup.open_as(json!({"elicitation": {}})).await;
        Self { sink, host, session }
    }

    fn order(&self, key: &str) -> Value {
        json!({"key": key, "sink": self.sink.authority()})
    }

    /// Calls a tool as a task on a host that may crash during the call.
    async fn try_create(&self, tool: &str, arguments: Value) -> Option<String> {
        let call = json!({"name": tool, "arguments": arguments, "task": {}});
        let created = self.session.try_request(self.session.next_id(), "tools/call", call).await?;
        let id = created["result"]["task"]["taskId"].as_str();
        Some(id.unwrap_or_else(|| panic!("a task: {created}")).to_owned())
    }

    /// The id of a task whose host may have died before it told the id.
    async fn known(&self, id: Option<String>) -> String {
        match id {
            Some(id) => id,
            None => self.tasks().await.remove(0),
        }
    }

    /// Starts another host on the same folder, instead of the one that was killed.
    async fn restart(&mut self) {
        self.host.was_killed().await;
        self.move_to(self.host.another().await);
    }

    /// Waits until the host has stopped itself.
    async fn until_stopped(&self) {
        let status = format!("/proc/{}/status", self.host.pid());
        until("the host to be stopped", || async {
            let status = std::fs::read_to_string(&status).expect("it lives");
            status.contains("State:\tT")
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

    /// The attempts that had effects.
    fn begun(&self, key: &str) -> Vec<u32> {
        self.sink.of(key).begun
    }

    /// The outcome of a task, as its tool reported it.
    async fn outcome(&self, id: &str) -> Value {
        let result = self.session.result("tasks/result", json!({"taskId": id})).await;
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON")
    }

    /// The task of `once` has failed honestly, and that of `again` has ended in its second run.
    async fn ended(&self, tool: &str, id: &str) {
        match tool {
            "once" => self.failed_honestly(id).await,
            _ => assert_eq!(self.outcome(id).await["attempt"], 2),
        }
    }

    /// The task has failed because its host stopped, and its message says what the host knows about its
    /// effects.
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
