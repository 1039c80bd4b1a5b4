//! A matrix: the same requirements for a plugin in every language. Its outcome is a table, which is printed and
//! written to `target/examples`, where `make examples` puts the components.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use toolyard_tests::guests::root;
use toolyard_tests::{nightly, schema};

/// The languages of each run; `make nightly PART=languages` runs all.
const AT_EACH_LANDING: [&str; 2] = ["rust", "typescript"];

/// Whether this run tests plugins in `language`.
pub fn is_tested(language: &str) -> bool {
    nightly::is_on() || AT_EACH_LANDING.contains(&language)
}

/// The outcome of a cell that has not panicked: the requirement is met, or the sentence says why this language
/// cannot meet it.
pub type Met = Result<(), &'static str>;

/// The rows of this run's languages with the components that `make examples` built, and why it skipped others.
/// `project` names the project of a row.
pub fn built<R>(
    rows: impl IntoIterator<Item = R>,
    project: impl Fn(&R) -> String,
) -> (Vec<(R, PathBuf)>, BTreeMap<String, String>) {
    let out = root().join("target/examples");
    let (mut built, mut skipped) = (Vec::new(), BTreeMap::new());
    for row in rows {
        let project = project(&row);
        if !is_tested(project.trim_start_matches("desk-")) {
            continue;
        }
        let component = out.join(format!("{project}.wasm"));
        if let Ok(why) = std::fs::read_to_string(out.join(format!("{project}.skipped"))) {
            // Go is the only language whose tools may be unavailable to a machine in CI.
            if !project.ends_with("go") || !schema::is_ci() {
                schema::skipped(&format!("{project}: {}", why.trim()));
            }
            skipped.insert(project, why.trim().to_owned());
        } else {
            assert!(component.exists(), "{} is not there: run `make examples` first", component.display());
            built.push((row, component));
        }
    }
    (built, skipped)
}

/// Runs each cell for each language, in a task of its own, so that one failure does not hide others. `cells` has
/// their names, in the order of the table. Returns the failures.
pub async fn run<R: Clone, F: Future<Output = Met> + Send + 'static>(
    file: &str,
    cells: &'static str,
    rows: impl IntoIterator<Item = (&'static str, R)>,
    skipped: &BTreeMap<String, String>,
    cell: impl Fn(&'static str, R) -> F,
) -> String {
    let names: Vec<&str> = cells.split(" | ").collect();
    let mut table = format!("| language | {cells} |\n|---|{}\n", "---|".repeat(names.len()));
    let mut failures = String::new();
    for (language, row) in rows {
        write!(table, "| {language} |").expect("a string");
        for &name in &names {
            let mark = match tokio::spawn(cell(name, row.clone())).await {
                Ok(met) => met.err().map_or("yes".to_owned(), |why| format!("no: {why}")),
                Err(_) => {
                    writeln!(failures, "{language}: {name} (its panic is above)").expect("a string");
                    "NO".to_owned()
                }
            };
            write!(table, " {mark} |").expect("a string");
        }
        table.push('\n');
    }
    for (project, why) in skipped {
        writeln!(table, "| {project} | skipped: {why} |{}", " |".repeat(names.len() - 1)).expect("a string");
    }
    std::fs::write(root().join("target/examples").join(file), &table).expect("the table");
    // Not by `eprintln!`, which the test harness captures while a test passes.
    writeln!(std::io::stderr(), "\n{table}").expect("stderr");
    failures
}
