//! Claude Code and Codex themselves, with a model that is a script; agent frameworks; suites of others. Their drivers
//! are programs in `tests/clients/`, which start hosts of their own and print a row for each case. The page of tested
//! clients has these rows; `UPDATE_DOCS=1` rewrites them.

use super::{finished_within, folder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;
use toolyard_tests::{guests, schema};

const PAGE: &str = "host/docs/reference/tested-clients.md";

/// A line that a driver prints.
struct Row<'a> {
    client: &'a str,
    version: &'a str,
    transport: &'a str,
    case: &'a str,
    verdict: &'a str,
    remark: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Self {
        let columns: Vec<&str> = line.split('\t').collect();
        let [client, version, transport, case, verdict, remark] = columns[..] else {
            panic!("not six columns: {line}")
        };
        Self { client, version, transport, case, verdict, remark }
    }

    fn column(&self) -> String {
        format!("{} {}, {}", self.client, self.version, self.transport)
    }
}

/// A driver, and the section of the page that has its rows.
struct Driver {
    section: &'static str,
    interpreter: &'static str,
    script: &'static str,
    /// A file that `install.sh` creates last.
    installed: &'static str,
    /// Whether it runs suites, of which the official one needs a component of its own; the page has their counts.
    is_suites: bool,
    most: Duration,
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const CLAUDE_CODE: Driver = Driver {
    section: "Claude Code",
    interpreter: "python3",
    script: "agents/claude_code.py",
    installed: "agents/node_modules/.installed",
    is_suites: false,
    most: minutes(25),
};

const CODEX: Driver =
    Driver { section: "Codex", script: "agents/codex.py", most: minutes(15), ..CLAUDE_CODE };

const FRAMEWORKS: Driver = Driver {
    section: "Agent frameworks",
    script: "frameworks/run.py",
    installed: "frameworks/typescript/node_modules/.installed",
    ..CODEX
};

const SUITES: Driver = Driver {
    section: "Suites",
    script: "suites/run.py",
    is_suites: true,
    installed: "suites/.venv/.installed",
    most: minutes(15),
    ..CLAUDE_CODE
};

impl Driver {
    async fn run(&self) {
        if !folder().join(self.installed).exists() {
            schema::skipped(&format!(
                "{}: run `./tests/clients/install.sh agents frameworks suites`",
                self.section
            ));
            return;
        }
        let plugins = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(self.interpreter);
        command.arg(folder().join(self.script));
        command.arg("--binary").arg(guests::binary());
        command.arg("--plugins").arg(guests::all_plugins(plugins.path()));
        if self.is_suites {
            command.arg("--conformance").arg(guests::fixture("conformance"));
        }
        let printed = finished_within(command, self.section, self.most).await;
        let rows: Vec<Row<'_>> = printed.lines().map(Row::of).collect();
        assert!(!rows.is_empty(), "{printed}");
        let is_fine = |row: &Row<'_>| row.verdict != "failed" && !row.remark.starts_with("not installed");
        assert!(rows.iter().all(is_fine), "{printed}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            self.update(&rows);
        }
    }

    /// Rewrites the tables of its section of the page.
    fn update(&self, rows: &[Row<'_>]) {
        let path: PathBuf = guests::root().join(PAGE);
        let page = std::fs::read_to_string(&path).expect("the page");
        let heading = format!("## {}\n", self.section);
        let (before, rest) = page.split_once(&heading).expect("its section");
        let (text, rest) = rest.split_once("<!-- rows -->").expect("the beginning of its rows");
        let (_, after) = rest.split_once("<!-- end -->").expect("their end");
        let date = std::process::Command::new("date").args(["-u", "+%F"]).output().expect("date runs");
        let date = String::from_utf8(date.stdout).expect("text");
        let shown = if self.is_suites { counts(rows) } else { matrix(rows) };
        let tables = format!("\nRun on {}.\n\n{shown}", date.trim());
        let section = format!("{heading}{text}<!-- rows -->\n{tables}\n<!-- end -->");
        std::fs::write(&path, format!("{before}{section}{after}")).expect("writes");
    }
}

/// How many cases of each suite have each verdict.
fn counts(rows: &[Row<'_>]) -> String {
    let mut suites = Vec::<(String, BTreeMap<&str, usize>)>::new();
    for row in rows {
        let name = row.column();
        if suites.last().is_none_or(|(last, _)| *last != name) {
            suites.push((name, BTreeMap::new()));
        }
        let (_, counts) = suites.last_mut().expect("one is there");
        *counts.entry(row.verdict).or_default() += 1;
    }
    let mut lines = String::new();
    for (name, counts) in suites {
        let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        let _ = writeln!(lines, "- {name}: {}", counts.join(", "));
    }
    lines
}

/// A row for each case with the verdict of each client, and below it why a verdict is not "ok".
fn matrix(rows: &[Row<'_>]) -> String {
    let (mut columns, mut cases) = (Vec::new(), Vec::new());
    for row in rows {
        let column = row.column();
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    let mut table = format!("| case | {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len() + 1));
    for case in &cases {
        let verdict = |column: &String| {
            let row = rows.iter().find(|row| row.case == *case && row.column() == *column);
            row.map_or("–", |row| row.verdict)
        };
        let verdicts: Vec<_> = columns.iter().map(verdict).collect();
        let _ = writeln!(table, "| {case} | {} |", verdicts.join(" | "));
    }
    let mut reasons = Vec::new();
    for row in rows.iter().filter(|row| row.verdict != "ok") {
        let reason = format!("- {}, {}: {}", row.client, row.case, row.remark.replace('<', "\\<"));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(table, "\n{}", reasons.join("\n"));
    }
    table
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn claude_code_calls_waits_answers_and_stops_as_its_user_expects() {
    CLAUDE_CODE.run().await;
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn codex_gets_the_result_of_a_call_that_is_longer_than_it_waits() {
    CODEX.run().await;
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn agent_frameworks_list_call_ask_and_collect() {
    FRAMEWORKS.run().await;
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn the_suites_of_others_find_no_fault_of_the_host() {
    SUITES.run().await;
}
