//! `toolyard stdio --detach`: tasks outlive the pipe on which they were created. The tests use real
//! processes, and kill them in every way.

mod hosts;
mod kills;
mod parked;
mod reached;

use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_tests::host::run;
use toolyard_tests::stateless::{enveloped, everything};
use toolyard_tests::{Backgrounds, Setup, Stdio, guests, succeeds};

/// A folder with the probe, and the background hosts that start on it.
struct Folder {
    folder: Arc<TempDir>,
    args: Vec<String>,
    backgrounds: Backgrounds,
}

impl Folder {
    fn new() -> Self {
        Self::of(Setup::new())
    }

    fn of(setup: Setup) -> Self {
        let (folder, args) = setup.with(&[guests::plugin("probe")]).into_parts();
        let folder = Arc::new(folder);
        Self { backgrounds: Backgrounds::of(folder.clone()), folder, args }
    }

    /// Starts a process with `--detach`.
    fn relay(&self) -> Stdio {
        self.stdio(&["--detach"])
    }

    /// Starts a process with these arguments.
    fn stdio(&self, args: &[&str]) -> Stdio {
        let args = self.args.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned()));
        Stdio::spawn(self.folder.clone(), args.collect())
    }

    /// Starts a process with `--detach`, and opens a session that supports elicitation.
    async fn open(&self) -> Stdio {
        open(self.relay()).await
    }

    /// The output of a `toolyard tasks` command on the same folders.
    async fn tasks(&self, args: &[&str]) -> String {
        let args: Vec<&str> = args.iter().copied().chain(self.args.iter().map(String::as_str)).collect();
        succeeds(&run("tasks", self.folder.path(), &args).await)
    }
}

async fn open(mut stdio: Stdio) -> Stdio {
    stdio.initialize_as("2025-11-25", json!({"elicitation": {}})).await;
    stdio
}

/// Creates a task without a session, with a tool that requires one; returns its id.
async fn create_alone(stdio: &mut Stdio, tool: &str, arguments: Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    let created = stdio.result("tools/call", enveloped(params, &everything())).await;
    created["taskId"].as_str().unwrap_or_else(|| panic!("a task: {created}")).to_owned()
}
