//! The stage of an attack: a host with hostile plugins and an honest one, a client that attacks, and a client
//! that only wants to be served.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use toolyard_tests::host::{install_as, write_private};
use toolyard_tests::process::Usage;
use toolyard_tests::{Host, PATIENCE, Session, Setup, guests, until};

/// The growth in memory that is fine after hundreds of runs: warm pools and caches, in bytes. One leaked run
/// of most attacks exceeds it.
const MEMORY_SLACK: u64 = 160 << 20;
/// The same for the numbers of descriptors and threads.
const COUNT_SLACK: u64 = 24;

/// The content of files that no guest may read.
pub const SECRET: &str = "a secret of the operator";

/// Writes keys that only this user can read, for `encryption.key-file`.
pub fn write_keys(file: &Path) {
    write_private(file, &"5a".repeat(32));
}

/// A host under attack.
pub struct Stage {
    pub host: Host,
    /// The client that attacks; it supports elicitation by forms.
    pub session: Session,
    honest: Session,
    rest: Usage,
}

impl Stage {
    /// Starts the host with the honest plugin besides those of `setup`.
    pub async fn open(setup: Setup) -> Self {
        Self::on(setup.with(&[guests::plugin("probe")]).start().await).await
    }

    /// The same on a host that already has the honest plugin.
    pub async fn on(host: Host) -> Self {
        let session = host.open_as(json!({"elicitation": {}})).await;
        let honest = Session::open(host.port()).await;
        for _ in 0..50 {
            serve(&honest).await;
        }
        let rest = host.usage();
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
        until(&format!("{tool} to have begun"), || async {
            let task = self.session.task(&id).await;
            begun(&task).await
        })
        .await;
        self.session.result("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(self.session.task(&id).await["status"], "cancelled");
    }

    /// A path beside the folders of the host.
    pub fn at(&self, path: &str) -> PathBuf {
        self.host.folder().canonicalize().expect("it is there").join(path)
    }

    /// Installs the guest that attempts file accesses under this name, with a manifest that grants these
    /// folders: the path in the guest, the path on the host, and the mode.
    pub fn install(&self, name: &str, folders: &[(&str, &Path, &str)]) {
        let plugins = self.host.plugins();
        let mut manifest = format!("prefix = \"{name}\"\n[fs]\n");
        for (guest, path, mode) in folders {
            manifest.push_str(&format!("{guest:?} = {{ path = {path:?}, mode = {mode:?} }}\n"));
        }
        std::fs::write(plugins.join(format!("{name}.toml")), manifest).expect("writes");
        if !plugins.join(format!("{name}.wasm")).exists() {
            install_as(&guests::fixture("hostile_files"), &plugins, &format!("{name}.wasm"));
        }
    }

    pub fn remove(&self, name: &str) {
        for ending in ["wasm", "toml"] {
            std::fs::remove_file(self.host.plugins().join(format!("{name}.{ending}"))).expect("removes");
        }
    }

    /// Waits until the host serves the guest of this name.
    pub async fn served(&self, name: &str) {
        until(&format!("{name} to be served"), || async { self.has_tool(name).await }).await;
    }

    /// Waits until the host has refused the guest because of one of its folders, for this reason.
    pub async fn refused(&self, name: &str, says: &str) {
        until(&format!("{name} to be refused: {says}"), || async {
            let parts = [&*format!("event=\"plugin.refused\" plugin=\"{name}.wasm\""), "`fs.\"", says];
            let log = self.host.log();
            log.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        })
        .await;
        assert!(!self.has_tool(name).await, "{name} is served");
    }

    pub async fn has_tool(&self, name: &str) -> bool {
        self.session.tool_names().await.contains(&format!("{name}_file"))
    }

    /// Makes the guest of this name attempt a file access; returns what it got.
    pub async fn attempt(&self, name: &str, what: &str, path: &str, other: &str) -> String {
        let arguments = json!({"what": what, "path": path, "other": other});
        self.said(&format!("{name}_file"), arguments).await
    }

    pub async fn allowed(&self, name: &str, what: &str, path: &str, other: &str) -> String {
        let seen = self.attempt(name, what, path, other).await;
        assert!(seen.starts_with("ALLOWED"), "{name} {what} {path} {other}: {seen}");
        seen
    }

    /// The access is denied, and the guest learns neither the secret nor a path of the host.
    pub async fn denied(&self, name: &str, what: &str, path: &str, other: &str) -> String {
        let seen = self.attempt(name, what, path, other).await;
        assert!(seen.starts_with("denied"), "{name} {what} {path} {other}: {seen}");
        assert!(
            !seen.contains(SECRET) && !seen.contains(self.host.plugins().to_str().expect("plain")),
            "{seen}"
        );
        seen
    }

    /// Each of these accesses to each of these paths is denied.
    pub async fn all_denied(&self, name: &str, accesses: &[&str], paths: &[&str], other: &str) {
        for path in paths {
            for what in accesses {
                self.denied(name, what, path, other).await;
            }
        }
    }

    /// Waits until the host uses no more resources than before the attacks, apart from warm pools and caches.
    pub async fn at_rest(self) {
        let Self { host, rest, .. } = self;
        let begun = std::time::Instant::now();
        loop {
            let usage = host.usage();
            if usage.resident <= rest.resident + MEMORY_SLACK
                && usage.descriptors <= rest.descriptors + COUNT_SLACK
                && usage.threads <= rest.threads + COUNT_SLACK
            {
                return eprintln!("before: {rest:?}, after: {usage:?}");
            }
            assert!(begun.elapsed() < PATIENCE, "it is not at rest: before {rest:?}, now {usage:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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
