//! A real `toolyard stdio` process on a pipe.

use crate::compiled::Compiled;
use crate::host::{Setup, command};
use crate::process;
use crate::schema::Schema;
use crate::session::{LATEST, initialize};
use crate::tap::{Conversation, Violation, stands_aside};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::process::Stdio as Pipe;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The process and its pipes.
pub struct Stdio {
    /// Declared before the folder, because its drop needs the folder.
    _compiled: Compiled,
    /// The working folder of the process.
    pub folder: Arc<TempDir>,
    args: Vec<String>,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next: i64,
    notices: Vec<Value>,
    /// Checks the output; a violation fails the test at once.
    conversation: Option<Conversation>,
}

impl Stdio {
    /// Starts the process.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(setup: Setup) -> Self {
        let (folder, args) = setup.into_parts();
        Self::spawn(Arc::new(folder), args)
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts another process on the same folders.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::spawn(self.folder.clone(), self.args.clone())
    }

    /// Starts a process on the folders in `folder`, with these arguments.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn spawn(folder: Arc<TempDir>, args: Vec<String>) -> Self {
        let command = command("stdio", folder.path(), &args);
        Self::run(command, folder, args)
    }

    /// The same through a wrapper command in front of the command line, and in its own process group.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn wrapped(words: &[&str], folder: Arc<TempDir>, args: Vec<String>) -> Self {
        let inner = command("stdio", folder.path(), &args);
        let inner = inner.as_std();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(folder.path()).kill_on_drop(true).process_group(0);
        Self::run(command, folder, args)
    }

    fn run(mut command: Command, folder: Arc<TempDir>, args: Vec<String>) -> Self {
        let _compiled = Compiled::given_to(&folder.path().join("data"));
        command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::null());
        let mut child = command.spawn().expect("the host starts");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let input = child.stdin.take();
        let schema = (!stands_aside()).then(Schema::official).flatten();
        let conversation = schema.map(Conversation::new);
        Self { _compiled, folder, args, child, input, output, next: 1, notices: Vec::new(), conversation }
    }

    /// Starts the process and initializes.
    pub async fn open(setup: Setup) -> Self {
        let mut stdio = Self::start(setup);
        stdio.initialize(LATEST).await;
        stdio
    }

    /// Initializes with this revision; returns the result.
    pub async fn initialize(&mut self, revision: &str) -> Value {
        self.initialize_as(revision, json!({})).await
    }

    /// Initializes with this revision and these client capabilities.
    pub async fn initialize_as(&mut self, revision: &str, capabilities: Value) -> Value {
        self.line(&initialize(revision, capabilities).to_string()).await;
        let mut answer = self.read().await;
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer["result"].take()
    }

    /// Writes a line.
    ///
    /// # Panics
    /// If the process does not read.
    pub async fn line(&mut self, line: &str) {
        self.conversation.iter_mut().for_each(|conversation| conversation.from_client(line.as_bytes()));
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("the host reads");
    }

    /// Reads a message.
    ///
    /// # Panics
    /// If the output ends, or a line is not JSON.
    pub async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(crate::wait::PATIENCE, self.output.next_line());
        let line = line.await.expect("the host answers").expect("text").expect("a line");
        self.judge(&line);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn judge(&mut self, line: &str) {
        let verdict = self.conversation.as_mut().and_then(|judge| judge.from_host(line.as_bytes()));
        if let Some(violation) = verdict.and_then(|verdict| Violation::of(verdict, line.as_bytes())) {
            panic!("the host sent what it must not: {violation}");
        }
    }

    /// Sends a request and waits for its response; earlier messages are kept as notices.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// The result of a request.
    ///
    /// # Panics
    /// If it is an error.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.request(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Makes a plain call; returns its result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool as a task; returns the id of the task.
    ///
    /// # Panics
    /// If no task is created.
    pub async fn create(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "task": {}});
        let created = self.result("tools/call", params).await;
        created["task"]["taskId"].as_str().expect("a task").to_owned()
    }

    /// The current state of the task.
    pub async fn task(&mut self, id: &str) -> Value {
        self.result("tasks/get", json!({"taskId": id})).await
    }

    /// Sends a request; returns its id.
    pub async fn send(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        id
    }

    /// Waits for the response to a request.
    pub async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.read().await;
            if message["id"] == id {
                return message;
            }
            self.notices.push(message);
        }
    }

    /// Takes the messages that were not awaited responses.
    pub fn notices(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.notices)
    }

    /// Closes the input and waits for the end; returns the exit status and the rest of the output.
    ///
    /// # Panics
    /// If the process does not end.
    pub async fn close(&mut self) -> (ExitStatus, String) {
        drop(self.input.take());
        let mut rest = String::new();
        let read = async {
            while let Ok(Some(line)) = self.output.next_line().await {
                rest.push_str(&line);
                rest.push('\n');
            }
        };
        tokio::time::timeout(crate::wait::PATIENCE, read).await.expect("the output ends");
        rest.lines().for_each(|line| self.judge(line));
        (self.ended().await, rest)
    }

    /// The process id.
    ///
    /// # Panics
    /// If it has ended.
    pub fn pid(&self) -> Pid {
        process::pid(&self.child)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end within [`crate::wait::PATIENCE`].
    pub async fn ended(&mut self) -> ExitStatus {
        process::ended(&mut self.child).await
    }

    /// Kills the process as `kill -9` does.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the host can be killed");
    }
}
