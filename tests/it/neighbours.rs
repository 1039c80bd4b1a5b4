//! Several processes on one data folder, one of them stopped, killed, or resumed late (A3, A4). The tasks of
//! a living process stay untouched, those of a dead one are not lost, and a stopped process counts as living.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolyard_tests::dice::Dice;
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Host, Sink, eventually, guests};

/// The recovery of a dead host's tasks takes at most this time.
const SEEN_TO: Duration = Duration::from_secs(20);

/// Folders in parallel; the rounds in each folder come one after the other.
const FOLDERS: u64 = 5;
const ROUNDS: u64 = 4;

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
        eventually("the process to be stopped outside of a transaction", || async {
            self.host.stop().await;
            let database = rusqlite::Connection::open(&path).expect("the database");
            // Longer than any other process holds the lock.
            database.busy_timeout(Duration::from_secs(2)).expect("a setting");
            let free = database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
            if !free {
                self.host.signal(Signal::CONT);
            }
            free.then_some(())
        })
        .await;
    }

    async fn create(&self, sink: &Sink, tool: &str, key: &str, ms: u64) -> String {
        let arguments = json!({"key": key, "sink": sink.authority(), "ms": ms});
        self.client.create(tool, arguments).await
    }
}

fn setup(sink: &Sink) -> Setup {
    Setup::new()
        .with(&[guests::fixture("effects")])
        .manifest("effects", &sink.manifest())
        .config(&stanza("ann", &[]))
        .set("tasks.rerun-after", "20ms")
}

/// The outcome of a task, as its tool reported it.
fn outcome(task: &Value) -> Value {
    let text = task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a result: {task}"));
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_times_one_is_stopped_and_one_is_killed_and_the_third_takes_only_what_is_due() {
    let mut folders = tokio::task::JoinSet::new();
    for folder in 0..FOLDERS {
        folders.spawn(async move {
            let sink = Sink::start().await;
            let mut places = vec![Place::of(setup(&sink).start().await)];
            for _ in 0..2 {
                places.push(Place::of(places[0].host.another().await));
            }
            let mut dice = Dice(20_261_122 + folder);
            for round in 0..ROUNDS {
                let first = dice.below(3) as usize;
                places.rotate_left(first);
                round_of(&sink, &mut places, round, &mut dice).await;
            }
        });
    }
    while let Some(folder) = folders.join_next().await {
        folder.expect("every promise is kept");
    }
}

/// The first host is stopped, the second is killed, the third continues.
async fn round_of(sink: &Sink, places: &mut Vec<Place>, round: u64, dice: &mut Dice) {
    let key = |what: &str| format!("{what}-{round}");
    let [stopped, dying, living] = &places[..] else { panic!("three places") };
    let asleep = stopped.run(sink, "once", &key("asleep"), 1).await;
    let repeatable = stopped.run(sink, "again", &key("repeatable"), 600_000).await;
    let lost = dying.run(sink, "once", &key("lost"), 600_000).await;
    let moved = dying.run(sink, "again", &key("moved"), dice.below(50)).await;
    let running = living.run(sink, "once", &key("running"), 600_000).await;
    // The stop may come at any moment of its work.
    let churn = stopped.create(sink, "once", &key("churn"), dice.below(5)).await;
    stopped.stop().await;
    let mut dying = places.remove(1);
    dying.host.kill().await;
    let killed = Instant::now();
    if dice.below(2) == 0 {
        // A command of the same binary neither takes nor loses a task.
        places[1].host.command(&["tasks", "list"]).await;
    }
    let [stopped, living] = &places[..] else { panic!("two places") };
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
        assert_eq!(sink.of(&key(what)).begun, [1], "A4: no other host runs it");
    }
    assert_eq!(living.client.task(&running).await["status"], "working", "nothing of its own was touched");

    stopped.host.signal(Signal::CONT);
    stopped.client.until(&asleep, "completed").await;
    stopped.client.until(&churn, "completed").await;
    assert_eq!(living.client.task(&repeatable).await["status"], "working", "it goes on as it was");
    for what in ["asleep", "repeatable", "running", "lost", "churn"] {
        assert_eq!(sink.of(&key(what)).begun, [1], "A5: {what} of round {round} ran once");
    }
    let moved = sink.of(&key("moved"));
    assert!(!moved.repeats() && moved.begun.len() <= 2, "{moved:?}");
    for id in [&repeatable, &running] {
        living.client.cancel(id).await;
        stopped.client.until(id, "cancelled").await;
    }
    let another = places[0].host.another().await;
    places.push(Place::of(another));
}
