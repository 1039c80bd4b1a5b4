//! The cost of the parts of a call in instructions, which do not depend on the speed or the load of the
//! machine. None may cost more than `budget.toml` allows.
//!
//! `UPDATE_BUDGET=1 make budget` rewrites the file. Counts depend on the compiler, so the file names the one
//! that was used. With another compiler, or without the profile of calls (`host/profile/flags.sh`), the test
//! compares nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The pieces of work, each with the smaller and the larger number of repetitions.
const WORK: [(&str, u32, u32); 17] = [
    ("decode", 200, 1_200),
    ("decode-stateless", 200, 1_200),
    ("encode", 200, 1_200),
    ("apply", 200, 1_200),
    ("dispatch", 200, 1_200),
    // When the history is full, each call takes the place of another one.
    ("dispatch-observed", 2_200, 4_200),
    ("dispatch-bridged", 200, 1_200),
    ("dispatch-task", 100, 600),
    ("commit", 50, 550),
    ("invoke", 50, 2_050),
    ("invoke-beside", 50, 2_050),
    ("read-decode", 50, 550),
    ("read-schema", 10, 60),
    ("read-rules", 50, 550),
    ("read-jwt", 5, 25),
    ("read-cursor", 50, 550),
    ("read-manifest", 50, 550),
];

/// The allowed excess: threads meet in a different order, ids have different digits, and the dynamic linker
/// selects functions by processor.
const TOLERANCE: f64 = 0.05;

/// The allowed cost of a plain call beside a tool that resumes, as a multiple of its cost without one.
const BESIDE: f64 = 1.01;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("budget.toml")
}

/// The instructions of a process that repeats this work `times` times.
fn instructions(what: &str, times: u32) -> i64 {
    let output = Command::new("valgrind")
        // Otherwise the functions that copy bytes would depend on the processor, and each byte would count.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS,-FSRM")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", env!("CARGO_BIN_EXE_toolyard-load")])
        .args(["work", what, &times.to_string()])
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}:\n{said}");
    let line =
        said.lines().find_map(|line| line.split_once("Collected : ")).expect("callgrind says a number");
    line.1.trim().parse().expect("a number")
}

fn each(what: &str, few: u32, many: u32) -> i64 {
    (instructions(what, many) - instructions(what, few)) / i64::from(many - few)
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output().expect("rustc starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn no_part_of_a_call_takes_more_instructions_than_its_budget() {
    if !is_there("valgrind") {
        assert!(std::env::var_os("CI").is_none(), "CI counts instructions, and valgrind is missing");
        eprintln!("SKIPPED: valgrind is missing");
        return;
    }
    if cfg!(not(profiled)) {
        eprintln!("SKIPPED: this is compiled without the profile of calls, see host/profile/flags.sh");
        return;
    }
    let counted: BTreeMap<&str, i64> =
        WORK.into_iter().map(|(what, few, many)| (what, each(what, few, many))).collect();
    let (alone, beside) = (counted["invoke"], counted["invoke-beside"]);
    let is_within = beside as f64 <= alone as f64 * BESIDE;
    assert!(is_within, "a call beside a tool that resumes: {beside}, alone: {alone}");
    if std::env::var_os("UPDATE_BUDGET").is_some() {
        let mut text =
            "# The instructions of each; tests/budget.rs explains how they are counted.\n".to_owned();
        text += &format!("compiler = {:?}\n\n[instructions]\n", compiler());
        counted.iter().for_each(|(what, count)| text.push_str(&format!("{what} = {count}\n")));
        std::fs::write(file(), text).expect("writes");
        return;
    }
    let budget: toml::Table = std::fs::read_to_string(file()).expect("is there").parse().expect("TOML");
    eprintln!("counted: {counted:?}");
    if budget["compiler"].as_str() != Some(&compiler()) {
        eprintln!("SKIPPED: the budget was counted with {}, this is {}", budget["compiler"], compiler());
        return;
    }
    let over = counted.iter().filter_map(|(what, count)| {
        let allowed = budget["instructions"][*what].as_integer().expect("a number");
        let most = allowed as f64 * (1.0 + TOLERANCE);
        (*count as f64 > most).then(|| format!("{what}: {count}, allowed are {allowed}"))
    });
    let over: Vec<String> = over.collect();
    assert!(over.is_empty(), "{over:#?}\nIf that is what it has to cost, UPDATE_BUDGET=1 make budget");
}
