//! Formats that others depend on: they change only with a new version, and with a migration that has a test.

use std::fs;
use toolyard_tests::guests::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A component of a tool is built against the contract and stays as it is for years.
#[test]
fn the_contract_with_plugins_is_the_frozen_one_until_its_version_changes() {
    let mut files: Vec<_> = fs::read_dir(root().join("wit")).expect("a folder").flatten().collect();
    files.retain(|file| file.path().extension().is_some_and(|end| end == "wit"));
    files.sort_by_key(fs::DirEntry::file_name);
    let contract: String = files
        .iter()
        .map(|file| {
            let name = file.file_name().into_string().expect("plain");
            format!("// {name}\n{}", read(&format!("wit/{name}")))
        })
        .collect();
    let version = contract.split_once("package toolyard:plugin@").and_then(|(_, rest)| rest.split_once(';'));
    let (version, _) = version.expect("a version");
    let frozen = read(&format!("tests/formats/plugin-contract-{version}.wit"));
    assert!(
        contract == frozen,
        "the contract has changed: give it another version (CONTRIBUTING.md, Formats)"
    );
}

/// Operators write these keys into files that they keep.
#[test]
fn each_setting_of_0_3_is_still_one_or_is_dropped_with_a_reason() {
    let (settings, dropped) = (read("host/docs/reference/settings.md"), read("host/src/config/dropped.rs"));
    for key in read("tests/formats/settings.txt").lines() {
        let is_known = settings.contains(&format!("`{key}`")) || dropped.contains(&format!("\"{key}\""));
        assert!(is_known, "`{key}` is gone without a word to its operators");
    }
}
