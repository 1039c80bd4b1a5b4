//! The stage of an attack: a host with hostile plugins and an honest one, a client that attacks, and a client
//! that only wants to be served.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use toolyard_tests::host::Setup;
use toolyard_tests::session::LATEST;
use toolyard_tests::wait::PATIENCE;
use toolyard_tests::{Host, Session, eventually, guests};

/// The growth in memory that is fine after hundreds of runs: warm pools and caches, in bytes. One leaked run
/// of most attacks exceeds it.
const MEMORY_SLACK: u64 = 160 << 20;
/// The same for the numbers of descriptors and threads.
const COUNT_SLACK: u64 = 24;

/// A host under attack.
pub struct Stage {
    pub host: Host,
    /// The client that attacks; it supports elicitation by forms.
    pub session: Session,
    honest: Session,
    rest: Usage,
}

/// The resources that a process uses.
#[derive(Debug, Clone, Copy)]
struct Usage {
    memory: u64,
    peak: u64,
    descriptors: u64,
    threads: u64,
}

impl Stage {
    /// Starts the host with the honest plugin besides those of `setup`.
    pub async fn open(setup: Setup) -> Self {
        Self::on(setup.with(&[guests::plugin("probe")]).start().await).await
    }

    /// The same on a host that already has the honest plugin.
    pub async fn on(host: Host) -> Self {
        let session = Session::open_as(host.port(), LATEST, json!({"elicitation": {}})).await.session;
        let honest = Session::open(host.port()).await;
        for _ in 0..50 {
            serve(&honest).await;
        }
        let rest = usage(&host);
        Self { host, session, honest, rest }
    }

    /// Runs one attack; the honest client is served before, during and after it.
    pub async fn attack(&self, name: &str, attack: impl Future<Output = ()>) {
        serve(&self.honest).await;
        let over = AtomicBool::new(false);
        let attacking = async {
            attack.await;
            over.store(true, Ordering::SeqCst);
        };
        let serving = async {
            let mut served = 0;
            while !over.load(Ordering::SeqCst) || served == 0 {
                serve(&self.honest).await;
                served += 1;
                // The honest client must not flood the host.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            served
        };
        let ((), served) = tokio::join!(attacking, serving);
        serve(&self.honest).await;
        eprintln!("{name}: another client was served {served} times meanwhile");
    }

    /// A call that must fail; returns the whole text that the model receives.
    pub async fn failure(&self, tool: &str, arguments: Value) -> String {
        let answer = self.answer(tool, arguments).await;
        match answer.get("error") {
            Some(error) => error["message"].as_str().expect("a message").to_owned(),
            None => {
                assert_eq!(answer["result"]["isError"], true, "{tool}: {}", shown(&answer));
                texts(&answer["result"])
            }
        }
    }

    /// The same, and asserts that the text has all of these phrases.
    pub async fn fails(&self, tool: &str, arguments: Value, says: &[&str]) {
        let told = self.failure(tool, arguments).await;
        for phrase in says {
            assert!(told.contains(phrase), "{tool} should say {phrase}: {}", clip(&told));
        }
        eprintln!("{tool}: {}", clip(&told));
    }

    /// A call that succeeds; returns its text.
    pub async fn said(&self, tool: &str, arguments: Value) -> String {
        let answer = self.answer(tool, arguments).await;
        assert_eq!(answer["result"]["isError"], false, "{tool}: {}", shown(&answer));
        texts(&answer["result"])
    }

    /// Any answer, within the time limit.
    pub async fn answer(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        tokio::time::timeout(PATIENCE, self.session.request("tools/call", params))
            .await
            .unwrap_or_else(|_| panic!("{tool} does not end"))
    }

    /// Starts a task of a tool, waits until `begun` accepts its state, and cancels it.
    pub async fn cancelled(&self, tool: &str, begun: impl AsyncFn(&Value) -> bool) {
        let id = self.session.create(tool, json!({})).await;
        eventually(&format!("{tool} to have begun"), || async {
            let task = self.session.task(&id).await;
            begun(&task).await.then_some(())
        })
        .await;
        self.session.result("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(self.session.task(&id).await["status"], "cancelled");
    }

    /// The peak memory of the host so far.
    pub fn peak_memory(&self) -> u64 {
        usage(&self.host).peak
    }

    /// Waits until the host uses no more resources than before the attacks, apart from warm pools and caches.
    pub async fn at_rest(self) {
        let Self { host, rest, .. } = self;
        let mut last = None;
        let calm = |usage: Usage| {
            usage.memory <= rest.memory + MEMORY_SLACK
                && usage.descriptors <= rest.descriptors + COUNT_SLACK
                && usage.threads <= rest.threads + COUNT_SLACK
        };
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            let usage = usage(&host);
            last = Some(usage);
            if calm(usage) {
                eprintln!("before: {rest:?}, after: {usage:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the host is not at rest: before {rest:?}, now {last:?}");
    }
}

async fn serve(honest: &Session) {
    let call = honest.call("echo", json!({"text": "honest"}));
    let result = tokio::time::timeout(PATIENCE, call).await.expect("the honest client is served");
    assert_eq!(result["content"][0]["text"], "honest");
}

fn texts(result: &Value) -> String {
    let blocks = result["content"].as_array().expect("content");
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn clip(text: &str) -> String {
    text.chars().take(300).collect()
}

fn shown(answer: &Value) -> String {
    clip(&answer.to_string())
}

fn usage(host: &Host) -> Usage {
    let process = PathBuf::from(format!("/proc/{}", host.pid().as_raw_nonzero()));
    let status = std::fs::read_to_string(process.join("status")).expect("the host runs");
    let figure = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says it");
        line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    Usage {
        memory: figure("VmRSS:") << 10,
        peak: figure("VmHWM:") << 10,
        threads: figure("Threads:"),
        descriptors: std::fs::read_dir(process.join("fd")).expect("ours").count() as u64,
    }
}
