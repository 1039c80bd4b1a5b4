//! Plugin projects whose build copies a component, and `toolyard dev` on such a project.

use crate::compiled::Compiled;
use crate::wait::PATIENCE;
use crate::{guests, process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The build command of a correct project.
pub const COPY: &str = "cp source/component.wasm made.wasm";

/// A project in its own folder, called `sample`.
pub struct Project {
    // Dropped first, because it keeps what is in the folder.
    _compiled: Compiled,
    folder: TempDir,
}

impl Project {
    /// A project that builds this component.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn of(component: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let project = Self { _compiled: Compiled::given_to(&folder.path().join("data")), folder };
        project.write("data/keep", "");
        project.builds_by(COPY);
        project.replace(component);
        project
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the project folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Sets another build command.
    pub fn builds_by(&self, command: &str) {
        let build = Value::from(command);
        self.write(
            "project.toml",
            &format!(
                "name = \"sample\"\nbuild = [{build}]\ncomponent = \"made.wasm\"\nwatch = [\"source\"]\n"
            ),
        );
    }

    /// Writes a file atomically.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let partial = self.at(".partial");
        std::fs::write(&partial, text).expect("written");
        std::fs::rename(partial, path).expect("renamed");
    }

    /// The text of a file.
    ///
    /// # Panics
    /// If there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).expect("a file")
    }

    /// Makes this component its source.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn replace(&self, component: &Path) {
        std::fs::create_dir_all(self.at("source")).expect("a folder");
        crate::host::install_as(component, &self.at("source"), "component.wasm");
    }

    /// A command of the binary in the project's folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(guests::binary());
        command.args(args).env("TOOLYARD_DATA", self.at("data")).current_dir(self.folder());
        command.kill_on_drop(true).stdin(Stdio::null());
        command
    }

    /// Runs a command of the binary in the project's folder.
    ///
    /// # Panics
    /// If it cannot be run.
    pub async fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().await.expect("the command runs")
    }

    /// Starts `toolyard dev` on it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn dev(&self) -> Dev {
        let mut command = self.command(&["dev", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Dev { child, lines, seen: Vec::new() }
    }
}

/// A `toolyard dev`. Killed when dropped.
pub struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Dev {
    /// The next event of this kind; earlier events are recorded too.
    ///
    /// # Panics
    /// If there is none.
    pub async fn event(&mut self, kind: &str) -> Value {
        self.event_where(kind, |_| true).await
    }

    /// The next event of this kind that `is_meant` accepts.
    ///
    /// # Panics
    /// If there is none.
    pub async fn event_where(&mut self, kind: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let Ok(line) = line else { panic!("waited in vain for `{kind}`: {:#?}", self.seen) };
            let Some(line) = line.expect("text") else {
                panic!("it ended before `{kind}`: {:#?}", self.seen)
            };
            let event: Value = serde_json::from_str(&line).expect("each line is JSON");
            self.seen.push(event.clone());
            if event["event"] == kind && is_meant(&event) {
                return event;
            }
        }
    }

    /// The port that it serves on, once it serves.
    ///
    /// # Panics
    /// If it does not serve.
    pub async fn port(&mut self) -> u16 {
        let serving = self.event("serving").await;
        let url = serving["url"].as_str().expect("a URL");
        let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/mcp"));
        port.and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The events so far.
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Presses Ctrl-C, and waits for the end.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn interrupt(mut self) -> ExitStatus {
        process::signal(&self.child, rustix::process::Signal::INT);
        process::ended(&mut self.child).await
    }
}
