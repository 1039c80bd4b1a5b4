//! Runs the official conformance suites against a host with the `conformance` fixture, with a tap in between,
//! and prints the outcome of each scenario. Fails if a scenario failed or checked nothing, or if the host
//! sent an invalid message.

use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use toolyard_tests::host::Setup;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{guests, schema};

/// A suite takes a few seconds; a scenario that hangs takes thirty.
const PATIENCE: Duration = Duration::from_secs(600);

/// An official suite.
struct Suite {
    name: &'static str,
    /// Its folder in `node_modules`.
    package: &'static str,
    /// Its folder in the output.
    output: &'static str,
    args: &'static [&'static str],
    /// The number of scenarios; the suite passes only if it runs them all.
    scenarios: usize,
}

const SUITES: [Suite; 3] = [
    Suite {
        name: "conformance 0.1.16, all scenarios",
        package: "conformance",
        output: "0.1.16",
        args: &["--suite", "all"],
        scenarios: 32,
    },
    Suite {
        name: "conformance 0.2.0-alpha.12, the requirements of 2025-11-25",
        package: "conformance-alpha",
        output: "2025-11-25",
        args: &["--requirements", "2025-11-25"],
        scenarios: 33,
    },
    // The revision requires 37 of these. The suite also runs the tasks extension and scenarios that it does
    // not count yet (the headers, JSON Schema); here they count.
    Suite {
        name: "conformance 0.2.0-alpha.12, the requirements of 2026-07-28 and the tasks extension",
        package: "conformance-alpha",
        output: "2026-07-28",
        args: &["--requirements", "2026-07-28"],
        scenarios: 50,
    },
];

/// Scenarios in which the suite has nothing to check yet: they leave only a message that says so. Tests in
/// this repository cover their subjects.
const WITHOUT_CHECKS: [&str; 1] = ["tasks-status-notifications"];

/// The time at the end of a scenario's folder, such as `-2026-11-21T15-12-18-313Z`.
const TIME_CHARS: usize = 25;

/// The operator's manifest for the plugin.
const MANIFEST: &str = include_str!("../../conformance/plugin/conformance.toml");

fn folder() -> PathBuf {
    guests::root().join("tests/conformance/node_modules")
}

/// The folder for the results of the suites and the log of the host.
fn output() -> PathBuf {
    guests::root().join("target/conformance")
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("stdout can be written to");
}

#[tokio::main]
async fn main() -> ExitCode {
    if !folder().join(".installed").exists() {
        schema::skipped("the conformance suites are not installed: see tests/conformance/install.sh");
        return ExitCode::SUCCESS;
    }
    let mut terminated = signal(SignalKind::terminate()).expect("signals can be heard");
    // In every case the future drops the host, which kills it.
    let passed = tokio::select! {
        passed = run() => passed,
        _ = terminated.recv() => false,
        _ = tokio::signal::ctrl_c() => false,
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run() -> bool {
    drop(std::fs::remove_dir_all(output()));
    std::fs::create_dir_all(output()).expect("a folder for the output");
    let components = [guests::fixture("conformance")];
    let host = Setup::new().manifest("conformance", MANIFEST).with(&components).start().await;
    let proxy = Proxy::before(host.port()).await;
    say("bridge.enabled = false; the default differs: host/docs/explanation/two-revisions.md#conformance");
    let mut passed = true;
    for suite in &SUITES {
        passed &= suite.run(&proxy.url()).await;
    }
    std::fs::write(output().join("host.log"), host.log()).expect("the host's log");
    let report = proxy.tap().report();
    say(&format!("\n{report}"));
    passed &= report.violations.is_empty();
    say(&format!("\n{}; more in {}", if passed { "passed" } else { "FAILED" }, output().display()));
    passed
}

impl Suite {
    async fn run(&self, url: &str) -> bool {
        say(&format!("\n{}", self.name));
        let results = output().join(self.output);
        let said = std::fs::File::create(output().join(format!("{}.log", self.output))).expect("a log");
        let mut node = Command::new(folder().join(".bin/node"));
        node.arg(folder().join(self.package).join("dist/index.js")).args(["server", "--url", url]);
        node.args(self.args).arg("--output-dir").arg(&results).stdin(Stdio::null());
        node.stdout(said.try_clone().expect("a second handle")).stderr(said).kill_on_drop(true);
        let mut suite = node.spawn().expect("Node.js starts");
        let Ok(status) = tokio::time::timeout(PATIENCE, suite.wait()).await else {
            say(&format!("  FAIL  it did not end within {PATIENCE:?}"));
            return false;
        };
        let status = status.expect("waiting works");
        let scenarios = scenarios(&results);
        scenarios.iter().for_each(Scenario::show);
        let failed = scenarios.iter().filter(|scenario| !scenario.passed()).count();
        say(&format!("  {} scenarios, {failed} failed", scenarios.len()));
        if scenarios.len() != self.scenarios {
            say(&format!("  FAIL  there should be {} scenarios", self.scenarios));
        } else if failed == 0 && !status.success() {
            say(&format!("  FAIL  it ended with {status}"));
        }
        failed == 0 && scenarios.len() == self.scenarios && status.success()
    }
}

/// A scenario and the checks that it made.
struct Scenario {
    name: String,
    checks: Vec<Value>,
}

/// The results of a suite: a folder for each scenario, named after it and the time.
fn scenarios(results: &Path) -> Vec<Scenario> {
    let Ok(entries) = std::fs::read_dir(results) else { return Vec::new() };
    let mut scenarios: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            let name = name.strip_prefix("server-").unwrap_or(name);
            let name = name.len().checked_sub(TIME_CHARS).and_then(|end| name.get(..end)).unwrap_or(name);
            let text = std::fs::read(path.join("checks.json")).unwrap_or_default();
            Scenario { name: name.to_owned(), checks: serde_json::from_slice(&text).unwrap_or_default() }
        })
        .collect();
    scenarios.sort_by(|one, other| one.name.cmp(&other.name));
    scenarios
}

impl Scenario {
    fn of(&self, status: &str) -> impl Iterator<Item = &Value> {
        self.checks.iter().filter(move |check| check["status"] == status)
    }

    /// A scenario without checks does not pass.
    fn passed(&self) -> bool {
        let wanted = if WITHOUT_CHECKS.contains(&self.name.as_str()) { "SKIPPED" } else { "SUCCESS" };
        self.of("FAILURE").next().is_none() && self.of(wanted).next().is_some()
    }

    fn show(&self) {
        let mark = if self.passed() { "ok  " } else { "FAIL" };
        say(&format!("  {mark}  {} ({} checks)", self.name, self.of("SUCCESS").count()));
        for (status, mark) in [("FAILURE", ""), ("WARNING", "warning: "), ("SKIPPED", "skipped: ")] {
            for check in self.of(status) {
                let text = check["errorMessage"].as_str().or(check["description"].as_str());
                say(&format!("          {mark}{}", text.unwrap_or_default()));
            }
        }
        if self.of("FAILURE").next().is_none() && !self.passed() {
            say("          nothing was checked that should have been");
        }
    }
}
