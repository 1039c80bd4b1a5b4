//! Checks that make compiles everything once and with the profile of calls, as
//! `host/docs/decisions/0023-a-profile-of-calls.md` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use toolyard_tests::guests::root;

/// The flags for a compiler with this hash and host.
fn flags(script: &Path, hash: &str, host: &str, mode: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let rustc = folder.path().join("rustc");
    let says = format!("#!/bin/sh\nprintf 'rustc 1.0.0\\ncommit-hash: %s\\nhost: %s\\n' {hash} {host}");
    // Another process writes the program, and bash reads the script: a child of another test may have inherited
    // a file that this process writes, and Linux starts no program that is open for writing.
    let mut write = Command::new("sh");
    write.args(["-c", "printf '%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(&rustc).arg(says);
    assert!(write.status().expect("sh runs").success());
    let mut bash = Command::new("bash");
    bash.arg(script).env("RUSTC", &rustc).env("TOOLYARD_PROFILE", mode);
    bash.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = bash.output().expect("the script starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.split_whitespace().map(str::to_owned).collect()
}

/// The compiler and the machine that the profile was made with.
fn profiled() -> (String, String) {
    let of = std::fs::read_to_string(root().join("host/profile/calls.rustc")).expect("names the compiler");
    let line = |key: &str| of.lines().find_map(|line| line.strip_prefix(key)).expect(key).to_owned();
    (line("commit-hash: "), line("host: "))
}

#[test]
fn the_profile_is_for_one_compiler_and_one_machine() {
    let script = root().join("host/profile/flags.sh");
    let (hash, host) = profiled();
    let with = flags(&script, &hash, &host, "use");
    let profile = with.iter().find_map(|flag| flag.strip_prefix("-Cprofile-use=")).expect("the profile");
    assert!(Path::new(profile).is_file(), "{profile}");
    assert!(with.contains(&"--cfg=profiled".to_owned()), "{with:?}");

    let none: Vec<String> = Vec::new();
    assert_eq!(flags(&script, "0123abcd", &host, "use"), none, "another rustc");
    assert_eq!(flags(&script, &hash, "sparc64-unknown", "use"), none, "another machine");
    assert_eq!(flags(&script, &hash, &host, "off"), none);
    let record = flags(&script, &hash, &host, "record");
    assert!(record.len() == 1 && record[0].starts_with("-Cprofile-generate=/"), "{record:?}");
}

/// The arguments with which the wrapper of make calls a compiler.
fn wrapped(arguments: &[&str]) -> Vec<String> {
    let wrapper = root().join("host/profile/rustc.sh");
    let output = Command::new(wrapper).args(["printf", "%s\\n"]).args(arguments).output().expect("it starts");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn only_crates_of_a_call_are_compiled_with_the_profile_and_others_of_the_registry_in_one_piece() {
    let flags = ["-Cprofile-use=/a b", "-Cllvm-args=-no-pgo-warn-mismatch"];
    let fast = ["-C", "opt-level=3", "--cfg", "feature=\"a b\"", flags[0], flags[1]];
    assert_eq!(wrapped(&fast), fast);
    let small = ["-C", "opt-level=1", "--cfg", "feature=\"a b\""];
    let one_piece = [&small[..], &["-Ccodegen-units=1"]].concat();
    assert_eq!(wrapped(&[&small[..], &flags[..]].concat()), one_piece);
    let own = ["--crate-name", "toolyard_cli", "-C", "opt-level=1"];
    assert_eq!(wrapped(&[&own[..], &flags[..]].concat()), own);
    assert_eq!(wrapped(&flags), [""], "without a level");
}

/// The features of each package that dependencies of these kinds enable.
fn features(kinds: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--workspace", "--locked", "--offline", "--prefix", "none", "--edges", kinds]);
    let output = cargo.args(["--format", "{p}|{f}"]).current_dir(root()).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut features = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8(output.stdout).expect("UTF-8").lines().filter(|line| !line.is_empty()) {
        let (package, with) = line.trim_end_matches(" (*)").split_once('|').expect("as it was asked for");
        features.entry(package.to_owned()).or_default().insert(with.to_owned());
    }
    features
}

/// Cargo compiles a crate again for each set of features, with all crates that depend on it. The profile fits
/// only the functions of the build without tests. A set of features may be added for a crate of the tests alone.
#[test]
fn tests_and_benchmarks_want_no_feature_that_the_host_is_built_without() {
    let with_tests = features("normal,dev");
    let differ = features("normal").into_iter().filter_map(|(package, alone)| {
        let more = &with_tests[&package];
        (!alone.is_subset(more)).then(|| format!("{package}: {alone:?}, and with tests {more:?}"))
    });
    let differ: Vec<_> = differ.collect();
    assert!(differ.is_empty(), "have them wanted by a member of the workspace: {differ:#?}");
}
