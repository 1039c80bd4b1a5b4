//! The official clients, which hold the host to what they make of the protocol.
//! What they do is in `tests/clients/`; here is what they are run against.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

/// A scenario takes some five seconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(180);

/// An official client and the scenario written for it.
struct Client {
    name: &'static str,
    interpreter: &'static str,
    script: &'static str,
    /// What `install.sh` leaves when it is through.
    installed: &'static str,
}

const TYPESCRIPT: Client = Client {
    name: "the TypeScript client",
    interpreter: "node",
    script: "typescript/scenario.mjs",
    installed: "node_modules/.installed",
};

const PYTHON: Client = Client {
    name: "the Python client",
    interpreter: ".venv/bin/python",
    script: "python/scenario.py",
    installed: ".venv/.installed",
};

impl Client {
    /// Whether its packages are there. A person may go without; CI may not.
    fn is_installed(&self) -> bool {
        if folder().join(self.installed).exists() {
            return true;
        }
        let missing = format!("{} is not installed: run `make clients`", self.name);
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
        // Not by `eprintln!`, which is kept back while a test passes.
        writeln!(std::io::stderr(), "SKIPPED: {missing}").expect("stderr can be written to");
        false
    }

    /// Runs its scenario against `target`; the checks it made are the output.
    async fn run(&self, target: &[&str]) {
        let interpreter = match self.interpreter.contains('/') {
            true => folder().join(self.interpreter),
            false => PathBuf::from(self.interpreter),
        };
        let run = Command::new(interpreter)
            .arg(folder().join(self.script))
            .args(target)
            // The sources are not the place for compiled scripts.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, run).await;
        let output = output.unwrap_or_else(|_| panic!("{} did not end within {PATIENCE:?}", self.name));
        let Output { status, stdout, stderr } = output.expect("the interpreter starts");
        eprint!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{} over {}: {status}, see above", self.name, target[0]);
    }
}

fn folder() -> PathBuf {
    guests::root().join("tests/clients")
}

/// Pages so small that clients have to follow them, and polling so frequent that
/// they do not spend their time waiting.
fn setup() -> Setup {
    Setup::new().with(&[guests::plugin("probe")]).set("lists.page", "5").set("tasks.poll-interval", "100ms")
}

async fn over_http(client: &Client) {
    if !client.is_installed() {
        return;
    }
    let host = setup().start().await;
    client.run(&["http", &host.url()]).await;
}

async fn over_stdio(client: &Client) {
    if !client.is_installed() {
        return;
    }
    let (folder, settings) = setup().into_parts();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (plugins, data) = (path("plugins"), path("data"));
    let binary = guests::binary().display().to_string();
    let mut target = vec!["stdio", &binary, "stdio", "--plugins", &plugins, "--data", &data];
    target.extend(settings.iter().map(String::as_str));
    client.run(&target).await;
}

#[tokio::test]
async fn the_typescript_client_over_http() {
    over_http(&TYPESCRIPT).await;
}

#[tokio::test]
async fn the_typescript_client_over_stdio() {
    over_stdio(&TYPESCRIPT).await;
}

#[tokio::test]
async fn the_python_client_over_http() {
    over_http(&PYTHON).await;
}

#[tokio::test]
async fn the_python_client_over_stdio() {
    over_stdio(&PYTHON).await;
}
