//! Claude Code and Codex themselves, with a model that is a script; agent frameworks; suites of others. Their drivers
//! are programs in `tests/clients/`, which start hosts of their own and print a row for each case. The page of tested
//! clients has these rows; `UPDATE_DOCS=1` rewrites them.

use super::{finished_within, folder, runs};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::process::Command;
use toolyard_tests::{guests, schema};

const PAGE: &str = "host/docs/reference/tested-clients.md";
/// The section of the suites, of whose cases the page has only the counts.
const SUITES: &str = "Suites";

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

/// Runs a driver, whose rows are in this section of the page, for so many minutes at most. `installed` is a file that
/// `install.sh` creates last.
async fn drive(section: &str, script: &str, installed: &str, minutes: u64) {
    if !folder().join(installed).exists() {
        schema::skipped(&format!("{section}: run `./tests/clients/install.sh agents frameworks suites`"));
        return;
    }
    let plugins = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("python3");
    command.arg(folder().join(script));
    command.arg("--binary").arg(guests::binary());
    command.arg("--plugins").arg(guests::all_plugins(plugins.path()));
    if section == SUITES {
        // The official suite needs a component of its own.
        command.arg("--conformance").arg(guests::fixture("conformance"));
    }
    let printed = finished_within(command, section, Duration::from_secs(60 * minutes)).await;
    let rows: Vec<Row<'_>> = printed.lines().map(Row::of).collect();
    assert!(!rows.is_empty(), "{printed}");
    let is_fine = |row: &Row<'_>| row.verdict != "failed" && !row.remark.starts_with("not installed");
    assert!(rows.iter().all(is_fine), "{printed}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        update(section, &rows);
    }
}

/// Rewrites the tables of a section of the page.
fn update(section: &str, rows: &[Row<'_>]) {
    let path = guests::root().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page");
    let heading = format!("## {section}\n");
    let (before, rest) = page.split_once(&heading).expect("its section");
    let (text, rest) = rest.split_once("<!-- rows -->").expect("the beginning of its rows");
    let (_, after) = rest.split_once("<!-- end -->").expect("their end");
    let date = std::process::Command::new("date").args(["-u", "+%F"]).output().expect("date runs");
    let date = String::from_utf8(date.stdout).expect("text");
    let shown = if section == SUITES { counts(rows) } else { matrix(rows) };
    let tables = format!("\nRun on {}.\n\n{shown}", date.trim());
    let section = format!("{heading}{text}<!-- rows -->\n{tables}\n<!-- end -->");
    std::fs::write(&path, format!("{before}{section}{after}")).expect("writes");
}

/// How many cases of each suite have each verdict.
fn counts(rows: &[Row<'_>]) -> String {
    let mut lines = String::new();
    for suite in rows.chunk_by(|row, next| row.column() == next.column()) {
        let mut counts = BTreeMap::<&str, usize>::new();
        for row in suite {
            *counts.entry(row.verdict).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        let _ = writeln!(lines, "- {}: {}", suite[0].column(), counts.join(", "));
    }
    lines
}

/// Each of these once, in their order.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut found, one| {
        if !found.contains(&one) {
            found.push(one);
        }
        found
    })
}

/// A row for each case with the verdict of each client, and below it why a verdict is not "ok".
fn matrix(rows: &[Row<'_>]) -> String {
    let columns = distinct(rows.iter().map(Row::column));
    let mut table = format!("| case | {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len() + 1));
    for case in distinct(rows.iter().map(|row| row.case)) {
        let verdict = |column: &String| {
            let row = rows.iter().find(|row| row.case == case && row.column() == *column);
            row.map_or("–", |row| row.verdict)
        };
        let verdicts: Vec<_> = columns.iter().map(verdict).collect();
        let _ = writeln!(table, "| {case} | {} |", verdicts.join(" | "));
    }
    let failed = rows.iter().filter(|row| row.verdict != "ok");
    let reasons = distinct(
        failed.map(|row| format!("- {}, {}: {}", row.client, row.case, row.remark.replace('<', "\\<"))),
    );
    if !reasons.is_empty() {
        let _ = writeln!(table, "\n{}", reasons.join("\n"));
    }
    table
}

runs! {
    #[ignore = "nightly: clients"]
    claude_code_calls_waits_answers_and_stops_as_its_user_expects =>
        drive("Claude Code", "agents/claude_code.py", "agents/node_modules/.installed", 25);
    #[ignore = "nightly: clients"]
    codex_gets_the_result_of_a_call_that_is_longer_than_it_waits =>
        drive("Codex", "agents/codex.py", "agents/node_modules/.installed", 15);
    #[ignore = "nightly: clients"]
    agent_frameworks_list_call_ask_and_collect =>
        drive("Agent frameworks", "frameworks/run.py", "frameworks/typescript/node_modules/.installed", 15);
    #[ignore = "nightly: clients"]
    the_suites_of_others_find_no_fault_of_the_host =>
        drive(SUITES, "suites/run.py", "suites/.venv/.installed", 15);
}
