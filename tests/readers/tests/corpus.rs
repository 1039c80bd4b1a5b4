//! Runs each fuzz target over its seeds in `tests/fuzz/corpus`, and over its costliest input in
//! `tests/fuzz/costly`. A failure names the files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use toolyard_readers::targets::{TARGETS, Target};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz");

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn run(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name).expect("a target");
    let mut inputs = files(&format!("{FUZZ}/corpus/{name}"));
    assert!(!inputs.is_empty(), "tests/fuzz/corpus/{name} is empty");
    inputs.extend(target.budget.map(|_| format!("{FUZZ}/costly/{name}").into()));
    let failing: Vec<_> = inputs.iter().filter(|input| !passes(target, input)).collect();
    assert!(failing.is_empty(), "inputs that fail: {failing:#?}");
    eprintln!("{name}: {} inputs", inputs.len());
}

fn passes(target: Target, input: &Path) -> bool {
    let data = std::fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
    let run = || {
        // The costliest input is one of the reader; that of `rules` is only a part of an input of the target.
        if let Some(budget) = target.budget {
            budget.reader.prepare();
            budget.reader.read(&data);
        }
        target.run(&data, |budget, part| budget.reader.read(part));
    };
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

/// One test for each target, so that a failure names it.
macro_rules! targets {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

targets! {
    bearer bundle cursor decode guard http_headers journal jwt lock manifest provenance registry rules schema
    stateless
}

#[test]
fn each_target_has_a_folder_and_a_test() {
    assert_eq!(TESTED, TARGETS.map(|target| target.name), "the tests in this file, and the targets");
    let mut folders = files(&format!("{FUZZ}/corpus"));
    folders.sort();
    let folders: Vec<_> = folders.iter().filter_map(|folder| folder.file_name()).collect();
    assert_eq!(folders, TESTED, "the folders in tests/fuzz/corpus, and the targets");
}
