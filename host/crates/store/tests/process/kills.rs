//! The promises that hold when a process is killed. The test binary runs itself as the process,
//! with a folder in its environment.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{ManualClock, START, created, finish, owner, result, task};
use toolyard_task::{TaskId, TaskStore};

const FOLDER: &str = "TOOLYARD_STORE_TEST_FOLDER";

fn open(folder: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(folder, SqliteOptions::new(ManualClock::at(START))).expect("opens")
}

/// The part of the process; without a folder, this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&folder));
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

fn say(line: &str) {
    // Bypasses the output capture of the test harness, in a single write.
    std::io::stdout().write_all(format!("\n> {line}\n").as_bytes()).expect("a reader");
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(folder: &TempDir) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("is known"))
            .args(["--exact", "kills::process", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        Self { child, lines }
    }

    /// Its next output, if any.
    fn hear(&mut self) -> Option<Vec<String>> {
        self.lines
            .find_map(|line| Some(line.ok()?.strip_prefix("> ")?.split(' ').map(str::to_owned).collect()))
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
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut said: HashMap<TaskId, bool> = HashMap::new();
    for round in 0..10_usize {
        let mut process = Process::start(&folder);
        // At a different point of its work each time, in steps of a prime number.
        for _ in 0..=(round * 131) % 600 {
            note(&mut said, &process.hear().expect("it writes"));
        }
        process.child.kill().expect("SIGKILL");
        process.child.wait().expect("ends");
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
