//! That everything is compiled once and by the profile of calls, as
//! `host/docs/decisions/0023-a-profile-of-calls.md` has decided.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use toolyard_tests::guests::root;

/// Says which compiler it is, or else its arguments and what it is told by the environment.
const RUSTC: &str = r#"#!/usr/bin/env bash
if [ "$1" = -vV ]; then printf 'rustc 1.0.0\ncommit-hash: %s\nhost: %s\n' HASH HOST; exit; fi
printf '%s\n' "$@"
env | sed -n 's/^CARGO_BIN_EXE_some-name=//p'
"#;

/// What the wrapper of Cargo's makes of these arguments, with this compiler.
fn wrapped(hash: &str, host: &str, arguments: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let rustc = folder.path().join("rustc");
    std::fs::write(&rustc, RUSTC.replace("HASH", hash).replace("HOST", host)).expect("writes");
    std::fs::set_permissions(&rustc, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("executable");
    let output = Command::new(root().join("host/profile/rustc.sh"))
        .arg(&rustc)
        .args(arguments)
        .env("CARGO_BIN_EXE_some-name", "is passed on")
        .env_remove("TOOLYARD_PROFILE")
        .output()
        .expect("the wrapper starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

const OPTIMISED: [&str; 5] = ["--crate-name", "x", "--emit=dep-info,metadata,link", "-C", "opt-level=3"];

#[test]
fn the_profile_goes_to_what_is_optimised_for_this_machine_and_to_nothing_else() {
    let of = std::fs::read_to_string(root().join("host/profile/calls.rustc")).expect("names the compiler");
    let line = |key: &str| of.lines().find_map(|line| line.strip_prefix(key)).expect(key).to_owned();
    let (hash, host) = (line("commit-hash: "), line("host: "));
    let said = |arguments: &[&str]| wrapped(&hash, &host, arguments);
    let as_it_was = |arguments: &[&str]| {
        arguments.iter().copied().chain(["is passed on"]).map(str::to_owned).collect::<Vec<_>>()
    };

    let optimised = said(&OPTIMISED);
    assert_eq!(optimised[..5], as_it_was(&OPTIMISED)[..5]);
    let profile = optimised.iter().find_map(|it| it.strip_prefix("-Cprofile-use=")).expect("the profile");
    assert!(Path::new(profile).is_file(), "{profile}");
    assert!(optimised.contains(&"--cfg=profiled".to_owned()), "{optimised:?}");
    assert_eq!(optimised.last().map(String::as_str), Some("is passed on"));

    for otherwise in [
        &["--crate-name", "a_build_script", "--emit=dep-info,link"][..],
        &["--crate-name", "checked", "--emit=dep-info,metadata", "-C", "opt-level=3"],
        &["--crate-name", "small", "--emit=dep-info,link", "-C", "opt-level=s"],
        &["--target", "wasm32-wasip2", "--emit=dep-info,link", "-C", "opt-level=3"],
        &["--target=wasm32-wasip2", "--emit=dep-info,link", "-C", "opt-level=3"],
    ] {
        assert_eq!(said(otherwise), as_it_was(otherwise));
    }
    assert_eq!(wrapped("0123abcd", &host, &OPTIMISED), as_it_was(&OPTIMISED), "another rustc");
    assert_eq!(wrapped(&hash, "sparc64-unknown", &OPTIMISED), as_it_was(&OPTIMISED), "another machine");
}

/// The features of each package that these kinds of dependencies bring.
fn features(kinds: &str) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--workspace", "--locked", "--offline", "--prefix", "none", "--edges", kinds])
        .args(["--format", "{p}|{f}"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut features = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8(output.stdout).expect("UTF-8").lines().filter(|line| !line.is_empty()) {
        let (package, with) = line.trim_end_matches(" (*)").split_once('|').expect("as it was asked for");
        features.entry(package.to_owned()).or_default().insert(with.to_owned());
    }
    features
}

/// Cargo compiles a crate once more for each set of features, with all that depends on it,
/// and the profile knows the functions of the one that is built without tests.
#[test]
fn tests_and_benchmarks_want_no_feature_that_the_host_is_built_without() {
    let with_tests = features("normal,dev");
    let differ: Vec<_> = features("normal")
        .into_iter()
        .filter_map(|(package, alone)| {
            let more = &with_tests[&package];
            (*more != alone).then(|| format!("{package}: {alone:?}, and with tests {more:?}"))
        })
        .collect();
    assert!(differ.is_empty(), "have them wanted by a member of the workspace: {differ:#?}");
}
