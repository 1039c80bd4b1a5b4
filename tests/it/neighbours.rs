//! Three processes on one data folder: one is stopped and resumed late, one is killed (A3, A4). The tasks of a living
//! process stay untouched, those of a dead one are not lost, and a stopped process counts as living.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Host, Setup, Sink, text, token, until};

/// The recovery of a dead host's tasks takes at most this time.
const SEEN_TO: Duration = Duration::from_secs(20);

/// A host, and its user's client.
struct Place {
    host: Host,
    client: Client,
}

impl Place {
    fn of(host: Host) -> Self {
        let client = Client::new(host.port()).declaring(everything()).bearing(&token("ann"));
        Self { host, client }
    }

    /// Creates a task whose run is certainly in the middle of its effect.
    async fn run(&self, sink: &Sink, tool: &str, key: &str, ms: u64) -> String {
        let id = self.create(sink, tool, key, ms).await;
        sink.begun(key, 1).await;
        id
    }

    /// Stops the process, but not while it holds the lock of the database: otherwise no process could write
    /// until it resumes (see `host/docs/explanation/reliability.md`).
    async fn stop(&self) {
        let path = self.host.data().join("toolyard.sqlite");
        until("the process to be stopped outside of a transaction", || async {
            self.host.stop().await;
            let database = rusqlite::Connection::open(&path).expect("the database");
            // Longer than any other process holds the lock.
            database.busy_timeout(Duration::from_secs(2)).expect("a setting");
            let free = database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
            if !free {
                self.host.signal(Signal::CONT);
            }
            free
        })
        .await;
    }

    async fn create(&self, sink: &Sink, tool: &str, key: &str, ms: u64) -> String {
        let arguments = json!({"key": key, "sink": sink.authority(), "ms": ms});
        self.client.create(tool, arguments).await
    }
}

fn setup(sink: &Sink) -> Setup {
    let setup = Setup::fixture("effects", &sink.manifest());
    setup.principals(&["ann"]).set("tasks.rerun-after", "20ms")
}

/// The outcome of a task, as its tool reported it.
fn outcome(task: &Value) -> Value {
    serde_json::from_str(text(&task["result"])).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_stopped_and_one_is_killed_and_the_third_takes_only_what_is_due() {
    let sink = Sink::start().await;
    let stopped = Place::of(setup(&sink).start().await);
    let mut dying = Place::of(stopped.host.another().await);
    let living = Place::of(stopped.host.another().await);
    let asleep = stopped.run(&sink, "once", "asleep", 1).await;
    let repeatable = stopped.run(&sink, "again", "repeatable", 600_000).await;
    let lost = dying.run(&sink, "once", "lost", 600_000).await;
    let moved = dying.run(&sink, "again", "moved", 500).await;
    let running = living.run(&sink, "once", "running", 600_000).await;
    // The stop may come at any moment of its work.
    let churn = stopped.create(&sink, "once", "churn", 2).await;
    stopped.stop().await;
    dying.host.kill().await;
    let killed = Instant::now();
    // A command of the same binary neither takes nor loses a task.
    living.host.command(&["tasks", "list"]).await;
    let moved_on = living.client.until(&moved, "completed");
    let lost_for_good = living.client.until(&lost, "failed");
    // Both tasks are recovered, so the third host has checked the leases of all others, including the stopped
    // one.
    let (moved_on, lost_for_good) = tokio::join!(moved_on, lost_for_good);
    assert!(killed.elapsed() < SEEN_TO, "A3: {:?}", killed.elapsed());
    let attempt = outcome(&moved_on)["attempt"].as_u64();
    assert!(matches!(attempt, Some(1 | 2)), "{moved_on}");
    let message = lost_for_good["statusMessage"].to_string();
    assert!(message.contains("may have had effects"), "{message}");
    for (id, what) in [(&asleep, "asleep"), (&repeatable, "repeatable")] {
        let status = living.client.task(id).await["status"].clone();
        // It may have ended before the signal.
        let ended = what == "asleep" && status == "completed";
        assert!(status == "working" || ended, "a stopped host lives, and {what} is {status}");
        assert_eq!(sink.of(what).begun, [1], "A4: no other host runs it");
    }
    assert_eq!(living.client.task(&running).await["status"], "working", "nothing of its own was touched");

    stopped.host.signal(Signal::CONT);
    stopped.client.until(&asleep, "completed").await;
    stopped.client.until(&churn, "completed").await;
    assert_eq!(living.client.task(&repeatable).await["status"], "working", "it goes on as it was");
    for what in ["asleep", "repeatable", "running", "lost", "churn"] {
        assert_eq!(sink.of(what).begun, [1], "A5: {what} ran once");
    }
    let moved = sink.of("moved");
    assert!(!moved.repeats() && moved.begun.len() <= 2, "{moved:?}");
}
