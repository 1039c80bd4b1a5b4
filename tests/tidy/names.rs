//! Names of files, types and functions.

use super::{sources, subfolders, without_inline_tests};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toolyard_tests::guests::root;

/// Names of files that said nothing to a newcomer, each with the name that replaced it.
const OLD_FILE_NAMES: &str = "\
    ask elicitation, asked question_history, authority access_rules, change commit, conversation session, \
    desk inflight_questions, door listener, due maintenance, extent search_range, floor monotonic_clock, \
    follow client_task, gate cpu_scheduler, gossip broadcast, guard host_origin, host guest_state, \
    hub session_registry, inputs guest_input, lines jsonl, lobby overflow, looking_on call_log, \
    mirrored header_check, neighbours broadcast, news change_notifications, notes audit_buffer, \
    notices notifications, offered catalog_changes, outlet client_channel, outlets client_channels, \
    outstanding inflight, pace first_poll, paces rate_limit, patience write_timeout, place runtime_dir, \
    play run_call, posed pending_question, prospect promotion, query operations, reach imports_used, \
    rehearsal run_case, requests pending_requests, reseal reencryption, room reservation, \
    rooms run_budget, rounds round_trip, seal encryption, seats connection_limit, sharing work_stealing, \
    tidings change_notifications, touches last_seen_buffer, traffic network_policy, vitals health, \
    wake waiters";

/// The name that a file should have instead of its own.
fn better_file_name(stem: &str) -> Option<&'static str> {
    let mut names = OLD_FILE_NAMES.split(", ").filter_map(|pair| pair.split_once(' '));
    names.find(|(old, _)| *old == stem).map(|(_, new)| new)
}

#[test]
fn files_have_the_names_of_the_glossary() {
    let host = root().join("host");
    for path in sources().iter().filter(|path| path.starts_with(&host) && is_source(path)) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("plain names");
        assert_eq!(better_file_name(stem), None, "{}: a newcomer would look for this name", path.display());
    }
    assert_eq!(better_file_name("lobby"), Some("overflow"));
    assert_eq!(better_file_name("overflow"), None);
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "rs") && path.iter().any(|part| part == "src")
}

pub fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.iter().any(|part| part == "tests")
        || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_tests.rs"))
}

/// Public names that a crate still uses for more than one type.
const SHARED_TYPE_NAMES: [(&str, &[&str]); 1] = [
    // Each command has its own type, and no command uses another one's.
    ("host/src", &["Options"]),
];

/// The types that this text declares for its whole crate or for others. A type of `pub(super)` is
/// known to one folder only, so that both databases may have a `Writer`.
fn public_types(text: &str) -> Vec<&str> {
    let declared = without_inline_tests(text).lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?;
        let (keyword, rest) = line.split_once(' ')?;
        ["struct", "enum", "union", "trait", "type"].contains(&keyword).then_some(rest)
    });
    declared.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()).collect()
}

/// The names that occur in more than one of these declarations.
fn declared_twice(types: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    types.iter().map(String::as_str).filter(|name| !seen.insert(*name)).collect()
}

#[test]
fn a_crate_uses_a_public_type_name_once() {
    let mut folders: Vec<PathBuf> =
        subfolders(&root().join("host/crates")).iter().map(|folder| folder.join("src")).collect();
    folders.push(root().join("host/src"));
    for folder in folders {
        let files = sources().into_iter().filter(|path| path.starts_with(&folder) && is_source(path));
        let texts =
            files.filter(|path| !is_test(path)).map(|path| std::fs::read_to_string(path).expect("text"));
        let types: Vec<String> = texts
            .flat_map(|text| public_types(&text).into_iter().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let excused = SHARED_TYPE_NAMES.iter().find(|(crate_folder, _)| folder == root().join(crate_folder));
        let excused = excused.map_or(&[][..], |(_, names)| names);
        let twice = declared_twice(&types).into_iter().find(|name| !excused.contains(name));
        assert_eq!(twice, None, "{}: give each type the name of what it holds", folder.display());
    }
    let bad =
        "pub(crate) struct Claim<'a> {\n}\nstruct Claim;\npub enum Claim {\n}\npub(super) type Claim = u8;";
    let types: Vec<String> = public_types(bad).into_iter().map(str::to_owned).collect();
    assert_eq!(types, ["Claim", "Claim"], "private types, and those of one folder, are not counted");
    assert_eq!(declared_twice(&types), ["Claim"]);
    assert!(declared_twice(&["Claim".to_owned(), "Slot".to_owned()]).is_empty());
}

/// Crates that still have predicates with side effects, and those predicates.
const ACTIVE_PREDICATES: [(&str, &[&str]); 1] = [
    // Both reduce the budget of the check that calls them.
    ("host/crates/schema/src", &["is_among", "is_unique"]),
];

/// Functions that are named like a question but do more than answer yes or no.
fn active_predicates(text: &str) -> Vec<&str> {
    let functions = text.split("fn ").skip(1).filter_map(|rest| {
        let signature = rest.split(['{', ';']).next()?;
        let name = signature.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let asks = ["is_", "has_", "may_", "can_"].iter().any(|prefix| name.starts_with(prefix));
        let answers = signature.contains("-> bool") || signature.contains("Result<bool");
        (asks && signature.contains('(') && (!answers || signature.contains("&mut self"))).then_some(name)
    });
    functions.collect()
}

#[test]
fn predicates_answer_yes_or_no_and_change_nothing() {
    let host = root().join("host");
    for path in sources().iter().filter(|path| path.starts_with(&host) && is_source(path)) {
        let text = std::fs::read_to_string(path).expect("text");
        let excused = ACTIVE_PREDICATES.iter().filter(|(folder, _)| path.starts_with(root().join(folder)));
        let excused: Vec<&str> = excused.flat_map(|(_, names)| *names).copied().collect();
        let active = active_predicates(&text).into_iter().find(|name| !excused.contains(name));
        assert_eq!(active, None, "{}: name a function for what it does", path.display());
    }
    let bad =
        "fn is_task(&mut self) -> bool {}\nfn may_log(&self) -> MayLog {}\nfn has_room(&self) -> bool {}";
    assert_eq!(active_predicates(bad), ["is_task", "may_log"]);
}
