//! The promises that hold when a process is killed. The test binary runs itself as the process,
//! with a role in its environment.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{
    BOUND, ManualClock, START, applied, created, eventually, finish, owner, result, task,
};
use toolyard_task::node::NodeStore;
use toolyard_task::recovery::{Departure, NotRerun};
use toolyard_task::store::{Hint, TaskQuestion};
use toolyard_task::{Event, Fence, Incarnation, Task, TaskId, TaskStore};

const FOLDER: &str = "TOOLYARD_STORE_TEST_FOLDER";
const ROLE: &str = "TOOLYARD_STORE_TEST_ROLE";

fn open(folder: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(folder, SqliteOptions::new(ManualClock::at(START))).expect("opens")
}

/// The part of the process; without a role, this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let (Ok(folder), Ok(role)) = (std::env::var(FOLDER), std::env::var(ROLE)) else { return };
    let store = open(Path::new(&folder));
    match role.as_str() {
        "hold" => {
            let incarnation = store.register().await.expect("registers").incarnation;
            let fence = Fence { incarnation, attempt: 1 };
            let held = created(&*store, Task { fence, ..task(&owner("a")) }).await;
            say(&format!("held {incarnation} {}", held.id));
            std::thread::park();
        }
        "write" => {
            let lanes = (0..16).map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    loop {
                        let made = created(&*store, task(&owner("a"))).await;
                        say(&format!("created {}", made.id));
                        finish(&*store, &made, result()).await;
                        say(&format!("ended {}", made.id));
                    }
                })
            });
            futures_util::future::join_all(lanes).await;
        }
        other => panic!("no such role: {other}"),
    }
}

fn say(line: &str) {
    // Bypasses the output capture of the test harness, in a single write.
    std::io::stdout().write_all(format!("\n> {line}\n").as_bytes()).expect("a reader");
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(folder: &TempDir, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("is known"))
            .args(["--exact", "kills::process", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        Self { child, lines }
    }

    /// Its next output, if any.
    fn hear(&mut self) -> Option<Vec<String>> {
        self.lines
            .by_ref()
            .filter_map(|line| Some(line.ok()?.strip_prefix("> ")?.split(' ').map(str::to_owned).collect()))
            .next()
    }

    fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also runs if the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_is_dead_and_its_tasks_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.register().await.expect("registers");
    let mut hints = store.hints();
    let mut process = Process::start(&folder, "hold");
    let said = process.hear().expect("it registers");
    let incarnation = Incarnation(said[1].parse().expect("a number"));
    let held = TaskId::parse(&said[2]).expect("an id");
    let hint = tokio::time::timeout(BOUND, hints.next()).await.expect("in time");
    assert_eq!(hint, Some(Hint::Anything), "another process wrote");
    assert_eq!(store.dead().await.expect("answers"), [], "it lives");
    store.forget(incarnation).await.expect("does no harm");
    process.kill();
    let dead = async || store.dead().await.expect("answers") == [incarnation];
    eventually("the kernel freed the lock", dead).await;
    assert_eq!(store.select(TaskQuestion::HeldBy(incarnation), 1_000).await.expect("answers"), [held]);
    let orphaned = Event::Orphaned { incarnation, departure: Departure::Died, why: NotRerun::NotDeclared };
    applied(&*store, held, orphaned).await;
    store.forget(incarnation).await.expect("forgets");
    assert_eq!(store.dead().await.expect("answers"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut said: HashMap<TaskId, bool> = HashMap::new();
    for round in 0..10_usize {
        let mut process = Process::start(&folder, "write");
        // At a different point of its work each time, in steps of a prime number.
        for _ in 0..=(round * 131) % 600 {
            note(&mut said, &process.hear().expect("it writes"));
        }
        process.kill();
        // The output before the process was killed counts as well.
        while let Some(words) = process.hear() {
            note(&mut said, &words);
        }
        let store = open(folder.path());
        for (id, ended) in &said {
            let read = store.read(*id, None).await.expect("reads").expect("an acknowledged task is lost");
            assert!(!ended || !read.task.is_live(), "an acknowledged end is lost");
        }
        store.shut_down().await;
        crate::whole(folder.path());
    }
    assert!(said.len() > 1_000, "{} tasks were written", said.len());
}

fn note(said: &mut HashMap<TaskId, bool>, words: &[String]) {
    // The last line may be cut off.
    let Some(id) = words.get(1).and_then(|id| TaskId::parse(id)) else { return };
    *said.entry(id).or_default() |= words[0] == "ended";
}
