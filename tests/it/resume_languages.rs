//! Tasks that continue with a state, in every language: the tool `steps` of the projects `desk-*` that
//! `make examples` built. `matrix.rs` runs the cells.

use crate::desk::LANGUAGES;
use crate::matrix;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::{Host, Session, eventually};

/// The names of the cells, in the order of the table.
const CELLS: &str = "a task that resumes | a task that does not resume | a plain call";

/// The ending of the name of a project's copy whose tasks do not resume.
const COPY: &str = "-restarts";

struct Stage {
    host: Host,
    session: Session,
}

impl Stage {
    /// One host with every project, each of them twice.
    async fn start(built: &[(&str, PathBuf)]) -> Self {
        // Python's component takes long to compile on a machine that is busy with tests.
        let setup = Setup::new().set("plugins.compile-time", "10min").set("plugins.start-wait", "10min");
        let plugins = setup.plugins();
        let mut tools = Vec::new();
        for (language, component) in built {
            for (copy, durability) in [("", "resume"), (COPY, "none")] {
                let name = format!("{language}{copy}");
                let task = format!("[task]\ndurability = \"{durability}\"");
                let manifest = format!("prefix = \"{name}\"\n{task}\n[limits]\nmemory = \"128MiB\"\n");
                std::fs::write(plugins.join(format!("{name}.toml")), manifest).expect("a manifest");
                install_as(component, &plugins, &format!("{name}.wasm"));
                tools.push(format!("{name}_steps"));
            }
        }
        let (host, session) = setup.open().await;
        eventually("all tools", || async {
            let listed = session.tool_names().await;
            tools.iter().all(|tool| listed.contains(tool)).then_some(())
        })
        .await;
        Self { host, session }
    }

    async fn run(&self, cell: &str, language: &str) {
        let arguments = json!({ "parts": 5 });
        let tool = match cell {
            "a task that does not resume" => format!("{language}{COPY}_steps"),
            _ => format!("{language}_steps"),
        };
        let result = match cell {
            "a plain call" => self.session.call(&tool, arguments).await,
            _ => self.finished(&tool, arguments).await,
        };
        assert_eq!(result["isError"], false, "{result}");
        let (runs, refusal) = match cell {
            "a task that resumes" => (3, ""),
            _ => (1, "; cannot continue with the state: the call is not a task that resumes"),
        };
        let steps = json!({ "done": [1, 2, 3, 4, 5], "runs": runs });
        assert_eq!(result["structuredContent"], steps, "{result}");
        assert_eq!(result["content"][0]["text"], format!("parts: 5, runs: {runs}{refusal}"));
    }

    /// Runs a tool as a task, and returns the result.
    async fn finished(&self, tool: &str, arguments: Value) -> Value {
        let id = self.session.create(tool, arguments).await;
        self.session.until(&id, "completed").await;
        self.session.result("tasks/result", json!({ "taskId": id })).await
    }
}

#[tokio::test]
async fn tasks_of_every_language_continue_with_a_state() {
    let (built, skipped) = matrix::built(LANGUAGES, |language| format!("desk-{language}"));
    let stage = Arc::new(Stage::start(&built).await);
    let rows = built.into_iter().map(|(language, _)| (language, language));
    let failures = matrix::run("resume-matrix.md", CELLS, rows, &skipped, |cell, language| {
        let stage = stage.clone();
        async move {
            stage.run(cell, language).await;
            Ok(())
        }
    });
    let failures = failures.await;
    assert!(failures.is_empty(), "{failures}\n{}", stage.host.log());
}

#[tokio::test]
async fn a_task_that_continues_survives_kills_between_its_runs() {
    let (built, _) = matrix::built(["rust"], |language| format!("desk-{language}"));
    let stage = Stage::start(&built).await;
    // Each of its 500 runs takes milliseconds, so that kills hit every part of the change to the next one.
    let id = stage.session.create("rust_steps", json!({ "parts": 1_000 })).await;
    let Stage { mut host, mut session } = stage;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        host = host.killed_and_restarted().await;
        session = session.at(host.port());
    }
    session.until(&id, "completed").await;
    let result = session.result("tasks/result", json!({ "taskId": id })).await;
    let done: Vec<u32> = (1..=1_000).collect();
    assert_eq!(result["structuredContent"]["done"], json!(done), "{result}");
}
