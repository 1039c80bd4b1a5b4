//! The official clients, which test how the host implements the protocol. Their scenarios are in
//! `tests/clients/`; this module starts the hosts for them, with a tap in between.

mod real;
pub mod second;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use toolyard_tests::host::has_bridge;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{Setup, guests, schema};

/// A scenario takes about five seconds on an otherwise idle machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// An official client and the scenario written for it.
pub struct Client {
    pub name: &'static str,
    interpreter: &'static str,
    script: &'static str,
    /// A file that `install.sh` creates last.
    installed: &'static str,
}

pub const TYPESCRIPT: Client = Client {
    name: "the TypeScript client",
    interpreter: "node",
    script: "typescript/scenario.mjs",
    installed: "node_modules/.installed",
};

pub const PYTHON: Client = Client {
    name: "the Python client",
    interpreter: ".venv/bin/python",
    script: "python/scenario.py",
    installed: ".venv/.installed",
};

const TYPESCRIPT_ASKED: Client = Client { script: "typescript/questions.mjs", ..TYPESCRIPT };
const TYPESCRIPT_OFFERED: Client = Client { script: "typescript/offers.mjs", ..TYPESCRIPT };
const PYTHON_ASKED: Client = Client { script: "python/questions.py", ..PYTHON };

impl Client {
    /// The same client with another script.
    pub const fn with_script(self, script: &'static str) -> Self {
        Self { script, ..self }
    }

    /// The client, if its packages are installed. They are optional on a developer's machine and required in CI.
    pub fn installed(&self) -> Option<&Self> {
        let is_installed = folder().join(self.installed).exists();
        if !is_installed {
            schema::skipped(&format!("{} is not installed: run `make clients`", self.name));
        }
        is_installed.then_some(self)
    }

    /// The command that runs its scenario with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let interpreter = match self.interpreter.contains('/') {
            true => folder().join(self.interpreter),
            false => PathBuf::from(self.interpreter),
        };
        let mut command = Command::new(interpreter);
        command.arg(folder().join(self.script)).args(args);
        command
    }

    /// Runs its scenario against `target`; the scenario prints the checks that it made.
    async fn run(&self, target: &[&str]) {
        finished(self.command(target), &format!("{} over {}", self.name, target[0])).await;
    }
}

/// Runs a script with the packages of the Python client; returns its output, or `None` if they are not
/// installed.
pub async fn python(script: &str, args: &[PathBuf]) -> Option<String> {
    PYTHON.installed()?;
    let mut command = Command::new(folder().join(PYTHON.interpreter));
    command.arg(folder().join(script)).args(args);
    Some(finished(command, script).await)
}

/// Runs a client until it succeeds; returns its output.
pub async fn finished(command: Command, what: &str) -> String {
    finished_within(command, what, PATIENCE).await
}

async fn finished_within(mut command: Command, what: &str, most: Duration) -> String {
    let run = command
        // Keeps compiled scripts out of the source tree.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(most, run).await;
    let output = output.unwrap_or_else(|_| panic!("{what} did not end within {most:?}"));
    let Output { status, stdout, stderr } = output.expect("the interpreter starts");
    let stdout = String::from_utf8(stdout).expect("text");
    eprint!("{stdout}{}", String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{what}: {status}, see above");
    stdout
}

pub fn folder() -> PathBuf {
    guests::root().join("tests/clients")
}

/// Compiles the components in the plugin folder, so that a host answers its first line at once. Clients that
/// probe for the revision wait ten seconds, and treat silence as the older revision.
pub async fn compile(folder: &Path, settings: &[String]) {
    let tools = toolyard_tests::host::command("tools", folder, settings).output().await;
    let tools = tools.expect("the binary starts");
    assert!(tools.status.success(), "{}", String::from_utf8_lossy(&tools.stderr));
}

/// The command that starts a host on a pipe, with a tap on the pipe that records its findings.
pub fn tapped_stdio(folder: &Path, settings: &[String]) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let tap = env!("CARGO_BIN_EXE_tap").to_owned();
    let binary = guests::binary().display().to_string();
    let spec = schema::folder().display().to_string();
    let mut command = vec![tap, spec, path("report"), binary, "stdio".to_owned()];
    command.extend(["--plugins".to_owned(), path("plugins"), "--data".to_owned(), path("data")]);
    if !has_bridge(settings) {
        command.extend(["--set".to_owned(), "bridge.enabled=false".to_owned()]);
    }
    command.extend_from_slice(settings);
    command
}

/// Asserts that the tap on the pipe has found no fault since a first answer of this type.
pub fn expect_clean_since(beginning: &str, folder: &Path) {
    if schema::Schema::official().is_none() {
        return;
    }
    let report = std::fs::read_to_string(folder.join("report")).expect("the report of the tap");
    assert!(!report.contains("VIOLATION"), "{report}");
    assert!(report.contains(&format!("ok {beginning}")), "the tap heard the beginning:\n{report}");
}

/// Tests with one expression each: `name => expression;`.
macro_rules! runs {
    ($($(#[$attribute:meta])* $name:ident => $run:expr;)*) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            $run.await;
        }
    )*};
}
pub(crate) use runs;

/// Polling so frequent that clients hardly wait.
fn setup() -> Setup {
    Setup::probe().set("tasks.poll-interval", "100ms")
}

/// A tool with a simple question, and one that asks whatever its script says.
fn asking() -> Setup {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::fixture("script")]);
    setup.set("tasks.poll-interval", "100ms")
}

/// Resources and prompts.
fn offering() -> Setup {
    Setup::new().with(&[guests::fixture("conformance"), guests::fixture("script")])
}

async fn over_http(client: &Client, setup: Setup) {
    let Some(client) = client.installed() else { return };
    let host = setup.start().await;
    let proxy = Proxy::before(host.port()).await;
    client.run(&["http", &proxy.url()]).await;
    proxy.tap().expect_clean();
}

async fn over_stdio(client: &Client, setup: Setup) {
    // The scenarios list tools once. On a busy machine a component compiles for longer than a host waits.
    let setup = setup.set("plugins.start-wait", "2min");
    let Some(client) = client.installed() else { return };
    let (folder, settings) = setup.into_parts();
    let command = tapped_stdio(folder.path(), &settings);
    let mut target = vec!["stdio"];
    target.extend(command.iter().map(String::as_str));
    client.run(&target).await;
    expect_clean_since("InitializeResult", folder.path());
}

runs! {
    the_typescript_client_over_http => over_http(&TYPESCRIPT, setup());
    #[ignore = "nightly: clients"]
    the_typescript_client_over_stdio => over_stdio(&TYPESCRIPT, setup());
    #[ignore = "nightly: clients"]
    the_python_client_over_http => over_http(&PYTHON, setup());
    #[ignore = "nightly: clients"]
    the_python_client_over_stdio => over_stdio(&PYTHON, setup());
    #[ignore = "nightly: clients"]
    the_typescript_client_is_asked_over_http => over_http(&TYPESCRIPT_ASKED, asking());
    #[ignore = "nightly: clients"]
    the_python_client_is_asked_over_stdio => over_stdio(&PYTHON_ASKED, asking());
    #[ignore = "nightly: clients"]
    the_typescript_client_is_offered_more_than_tools_over_http => over_http(&TYPESCRIPT_OFFERED, offering());
}
