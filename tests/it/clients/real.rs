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

/// A suite with more cases has only their counts on the page.
const MAX_ROWS: usize = 16;

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
}

/// A driver, and the section of the page that has its rows.
struct Driver {
    section: &'static str,
    interpreter: &'static str,
    script: &'static str,
    /// A file that `install.sh` creates last.
    installed: &'static str,
    /// Whether it runs the official suite, too, which needs a component of its own.
    runs_conformance: bool,
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
    runs_conformance: false,
    most: minutes(20),
};

const CODEX: Driver = Driver { section: "Codex", script: "agents/codex.py", most: minutes(8), ..CLAUDE_CODE };

const FRAMEWORKS: Driver = Driver {
    section: "Agent frameworks",
    script: "frameworks/run.py",
    installed: "frameworks/typescript/node_modules/.installed",
    ..CODEX
};

const SUITES: Driver = Driver {
    section: "Suites",
    script: "suites/run.py",
    runs_conformance: true,
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
        if self.runs_conformance {
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
        let mut clients: Vec<(&str, &str)> = rows.iter().map(|row| (row.client, row.version)).collect();
        clients.dedup();
        let mut tables = String::new();
        for client in clients {
            let (name, version) = client;
            let own = rows.iter().filter(|row| (row.client, row.version) == client).collect();
            let _ = write!(tables, "\n{name} {version}, {}:\n\n{}", date.trim(), table(own));
        }
        let section = format!("{heading}{text}<!-- rows -->\n{tables}\n<!-- end -->");
        std::fs::write(&path, format!("{before}{section}{after}")).expect("writes");
    }
}

/// A case with its verdicts over HTTP and over stdio; of a suite with many cases, how many have each verdict.
fn table(rows: Vec<&Row<'_>>) -> String {
    if rows.len() > MAX_ROWS {
        let mut counts = BTreeMap::<&str, usize>::new();
        for row in rows {
            *counts.entry(row.verdict).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        return format!("{}.\n", counts.join(", "));
    }
    let mut cases = Vec::<(&str, [String; 2])>::new();
    for row in rows {
        let verdict = if row.remark.is_empty() {
            row.verdict.to_owned()
        } else {
            format!("{}: {}", row.verdict, row.remark.replace('|', "\\|"))
        };
        let column = usize::from(row.transport == "stdio");
        match cases.iter_mut().find(|(case, _)| *case == row.case) {
            Some((_, verdicts)) => verdicts[column] = verdict,
            None => {
                let mut verdicts = [String::new(), String::new()];
                verdicts[column] = verdict;
                cases.push((row.case, verdicts));
            }
        }
    }
    let mut table = String::from("| case | HTTP | stdio |\n| --- | --- | --- |\n");
    for (case, [http, stdio]) in cases {
        let _ = writeln!(table, "| {case} | {http} | {stdio} |");
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
