//! Rules of the workspace: the edges of crates and folders, the length and names of files, and
//! forbidden phrases.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toolyard_tests::guests::root;

/// The dependencies that each crate may have. An arrow that is not here is a decision that has not
/// been made (`host/docs/decisions/`).
const EDGES: [(&str, &[&str]); 15] = [
    ("toolyard-protocol", &[]),
    ("toolyard-task", &["toolyard-protocol"]),
    ("toolyard-dispatch", &["toolyard-protocol", "toolyard-task"]),
    ("toolyard-schema", &["toolyard-protocol"]),
    ("toolyard-manifest", &["toolyard-task"]),
    ("toolyard-engine", &["toolyard-manifest", "toolyard-schema", "toolyard-task"]),
    ("toolyard-store", &["toolyard-task"]),
    ("toolyard-transport", &["toolyard-protocol", "toolyard-dispatch"]),
    ("toolyard-cli", &["toolyard-protocol"]),
    ("toolyard-detach", &["toolyard-transport"]),
    ("toolyard-workshop", &["toolyard-cli", "toolyard-dispatch", "toolyard-engine"]),
    (
        "toolyard",
        &[
            "toolyard-cli",
            "toolyard-detach",
            "toolyard-dispatch",
            "toolyard-engine",
            "toolyard-manifest",
            "toolyard-store",
            "toolyard-transport",
            "toolyard-workshop",
        ],
    ),
    ("toolyard-tests", &[]),
    // Has the readers of foreign data that the fuzzer and the counter of instructions run.
    (
        "toolyard-readers",
        &[
            "toolyard-protocol",
            "toolyard-task",
            "toolyard-dispatch",
            "toolyard-manifest",
            "toolyard-schema",
            "toolyard-transport",
        ],
    ),
    // Counts the instructions of each by itself.
    (
        "toolyard-load",
        &[
            "toolyard-tests",
            "toolyard-readers",
            "toolyard-protocol",
            "toolyard-task",
            "toolyard-dispatch",
            "toolyard-engine",
            "toolyard-store",
        ],
    ),
];

/// Dependencies that the inner crates must not have, so that they build and test in seconds.
const WITHOUT: [(&str, &[&str]); 10] = [
    ("toolyard-protocol", &["tokio", "wasmtime", "rusqlite", "hyper", "uuid"]),
    ("toolyard-task", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-dispatch", &["wasmtime", "rusqlite", "hyper"]),
    ("toolyard-manifest", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-schema", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-store", &["wasmtime", "hyper"]),
    ("toolyard-transport", &["wasmtime", "rusqlite"]),
    ("toolyard-cli", &["clap", "tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-detach", &["clap", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-workshop", &["clap", "wasmtime", "rusqlite", "hyper"]),
];

/// Files that are longer than the rule allows, and why.
const LONG_FILES: [(&str, &str); 0] = [];

const MOST_LINES: usize = 600;

fn manifests() -> BTreeMap<String, toml::Table> {
    let root = root();
    let text = std::fs::read_to_string(root.join("Cargo.toml")).expect("the workspace manifest");
    let workspace: toml::Table = text.parse().expect("TOML");
    let members = workspace["workspace"]["members"].as_array().expect("members");
    let mut folders = Vec::new();
    for member in members.iter().filter_map(toml::Value::as_str) {
        match member.strip_suffix("/*") {
            Some(parent) => folders.extend(subfolders(&root.join(parent))),
            None => folders.push(root.join(member)),
        }
    }
    folders
        .into_iter()
        .map(|folder| {
            let text = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
            let manifest: toml::Table = text.parse().expect("TOML");
            (manifest["package"]["name"].as_str().expect("a name").to_owned(), manifest)
        })
        .collect()
}

fn subfolders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
}

fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let table = |key: &str| manifest.get(key).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    table("dependencies").keys().chain(table("build-dependencies").keys()).cloned().collect()
}

#[test]
fn the_crates_depend_on_each_other_as_the_design_says() {
    let manifests = manifests();
    let known: BTreeMap<_, _> = EDGES.into_iter().collect();
    assert_eq!(
        manifests.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        known.keys().copied().collect(),
        "every package of the workspace has its edges listed here"
    );
    for (name, manifest) in &manifests {
        assert_eq!(edge_too_many(name, &dependencies(manifest)), None, "{name} must not depend on this");
    }
    let uses = |names: [&str; 2]| -> BTreeSet<String> { names.map(str::to_owned).into() };
    assert_eq!(edge_too_many("toolyard-detach", &uses(["tokio", "toolyard-transport"])), None);
    let workshop = uses(["toolyard-dispatch", "toolyard-transport"]);
    assert_eq!(edge_too_many("toolyard-workshop", &workshop), Some("toolyard-transport"));
}

/// A crate of the workspace among these that `name` must not depend on.
fn edge_too_many<'a>(name: &str, used: &'a BTreeSet<String>) -> Option<&'a str> {
    let (_, allowed) = EDGES.iter().find(|(known, _)| *known == name).expect("is listed");
    let mut crates = used.iter().map(String::as_str).filter(|used| used.starts_with("toolyard"));
    crates.find(|used| !allowed.contains(used))
}

#[test]
fn the_inner_crates_do_without_the_heavy_ones() {
    let manifests = manifests();
    for (name, without) in WITHOUT {
        let used = dependencies(&manifests[name]);
        for heavy in without {
            assert!(!used.contains(*heavy), "{name} must not depend on {heavy}");
        }
    }
}

#[test]
fn versions_stand_in_one_table() {
    for (name, manifest) in manifests() {
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(entries) = manifest.get(table).and_then(toml::Value::as_table) else { continue };
            for (used, entry) in entries {
                let inherits = entry.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                let local = entry.get("path").is_some();
                assert!(inherits || local, "{name}: {used} must take its version from the workspace");
            }
        }
    }
}

/// Files that git tracks or would track.
fn sources() -> Vec<PathBuf> {
    let listed = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files");
    String::from_utf8(listed.stdout)
        .expect("plain names")
        .lines()
        .map(|line| root().join(line))
        .filter(|path| path.is_file())
        .collect()
}

#[test]
fn files_are_short_and_named_for_what_they_hold() {
    const VAGUE: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "misc", "manager", "mod"];
    for path in sources().iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        assert!(!VAGUE.contains(&stem), "{name}: say what it holds");
        let lines = std::fs::read_to_string(path).expect("text").lines().count();
        let excused = LONG_FILES.iter().any(|(excused, _)| *excused == name);
        assert!(lines <= MOST_LINES || excused, "{name} has {lines} lines; {MOST_LINES} are the most");
    }
}

#[test]
fn nothing_sleeps_is_ignored_or_expected_to_panic() {
    // Spelled in pieces, so that this file does not find itself.
    let banned = [concat!("#[ign", "ore"), concat!("#[should_", "panic"), concat!("thread::", "sleep")];
    let tests = root().join("tests/it");
    for path in sources().iter().filter(|path| path.starts_with(&tests)) {
        let text = std::fs::read_to_string(path).expect("text");
        for phrase in banned {
            assert!(!text.contains(phrase), "{}: {phrase}", path.display());
        }
    }
}

/// The folders of `dispatch` from the ground up. A folder uses only folders below it.
const DISPATCH_FLOORS: [&str; 10] =
    ["observe", "access", "client", "slots", "task", "node", "catalog", "run", "cluster", "call"];

/// The folders of `engine` from the ground up, above the files of the crate root: `bindings`, `error`,
/// `settings` and `unattended`.
const ENGINE_FLOORS: [&str; 9] =
    ["limits", "grant", "component", "convert", "network", "guest", "wasi", "run", "folder"];

/// The code of a file without comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin at the crate root, without comments and inline tests.
fn names_from_root(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let name = |text: &str| {
        text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned()
    };
    let names = code.split("crate::").skip(1).flat_map(|rest| {
        let group = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(group, _)| group);
        group.map_or_else(|| vec![name(rest)], |group| group.split(',').map(name).collect())
    });
    names.collect()
}

/// The module that the crate root exports this name from.
fn exporter<'a>(name: &str, root: &'a str) -> Option<&'a str> {
    let mut exports = root.split(';').filter_map(|line| line.trim_start().strip_prefix("pub use "));
    let is_name = |word: &str| word == name;
    let export = exports.find(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_name))?;
    export.split("::").next()
}

/// A folder that this text uses although it is in `floor`, which is below that folder. A name that
/// the crate root exports counts as the folder that it comes from.
fn uses_a_higher_floor<'a>(floors: &[&'a str], floor: &str, text: &str, root: &str) -> Option<&'a str> {
    let rank = |name: &str| floors.iter().position(|floor| *floor == name);
    let own = rank(floor)?;
    names_from_root(text)
        .iter()
        .filter_map(|name| rank(name).or_else(|| rank(exporter(name, root)?)))
        .find(|used| *used > own)
        .map(|used| floors[used])
}

/// Holds every file of a crate to the floors of its folders.
fn check_floors(src: &Path, floors: &[&str]) {
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("text");
    for path in sources().iter().filter(|path| path.starts_with(src)) {
        let inside = path.strip_prefix(src).expect("is below").with_extension("");
        let floor = inside.iter().next().and_then(|name| name.to_str()).expect("plain names");
        let text = std::fs::read_to_string(path).expect("text");
        let higher = uses_a_higher_floor(floors, floor, &text, &lib);
        assert_eq!(higher, None, "{}: a folder uses only folders below it", path.display());
    }
}

/// The folders of a crate, and the other folders that each may use. The empty name means the files
/// beside the folders, which every folder may use.
type FolderEdges = &'static [(&'static str, &'static [&'static str])];

/// The two ways in share everything but themselves.
const TRANSPORT_FOLDERS: FolderEdges = &[
    ("auth", &[]),
    ("methods", &[]),
    ("stateless", &["methods"]),
    ("http", &["auth", "methods", "stateless"]),
    ("stdio", &["methods", "stateless"]),
    ("", &["methods"]),
];

/// No store uses another one. Only tests use the contract.
const STORE_FOLDERS: FolderEdges =
    &[("memory", &[]), ("sqlite", &[]), ("postgres", &[]), ("contract", &[]), ("", &[])];

/// A folder that this text uses although its own folder may not.
fn uses_a_forbidden_folder(folder: &str, text: &str, root: &str, edges: FolderEdges) -> Option<&'static str> {
    let of = |name: &str| edges.iter().find(|(folder, _)| *folder == name);
    let (own, allowed) = of(folder).or_else(|| of(""))?;
    let names = names_from_root(text);
    let used = names.iter().filter_map(|name| of(name).or_else(|| of(exporter(name, root)?)));
    used.map(|(used, _)| *used).find(|used| used != own && !allowed.contains(used))
}

#[test]
fn the_folders_of_dispatch_are_floors() {
    check_floors(&root().join("host/crates/dispatch/src"), &DISPATCH_FLOORS);
    let root = "pub use call::reply::{CallReply, Created};";
    let bad = |text| uses_a_higher_floor(&DISPATCH_FLOORS, "task", text, root);
    assert_eq!(bad("use crate::run::deps::RunDeps;"), Some("run"));
    assert_eq!(bad("use crate::{CallReply, Fault};"), Some("call"), "by way of the root");
    assert_eq!(bad("use crate::slots::Slots;"), None);
}

#[test]
fn the_folders_of_engine_are_floors() {
    let src = root().join("host/crates/engine/src");
    check_floors(&src, &ENGINE_FLOORS);
    for folder in subfolders(&src) {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("plain names");
        assert!(
            ENGINE_FLOORS.contains(&name),
            "{name}: every folder of the engine has its floor listed here"
        );
    }
    // The ground is below all of them.
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("text");
    for file in ["bindings", "error", "settings", "unattended"] {
        let text = std::fs::read_to_string(src.join(file).with_extension("rs")).expect("text");
        let floors: Vec<&str> = [file].into_iter().chain(ENGINE_FLOORS).collect();
        assert_eq!(
            uses_a_higher_floor(&floors, file, &text, &lib),
            None,
            "{file}: the ground uses no folder"
        );
    }
    let root = "pub use run::engine::Engine;";
    let bad = |text| uses_a_higher_floor(&ENGINE_FLOORS, "component", text, root);
    assert_eq!(bad("use crate::guest::state::GuestState;"), Some("guest"));
    assert_eq!(bad("fn compile(engine: &crate::Engine) {}"), Some("run"), "by way of the root");
    assert_eq!(bad("use crate::grant::Grants;"), None);
}

/// The paths of a tree of `use`, or the single path, that this text begins with.
fn paths(prefix: &str, text: &str) -> Vec<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    let Some(group) = rest.strip_prefix('{') else { return vec![path] };
    let (mut depth, mut start, mut found) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 || (depth == 1 && c == ',') {
            found.extend(paths(&path, group[start..at].trim()));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The modules that each module uses, by their paths below the crate root. Tests do not count, and
/// neither does a use of a parent or of a child.
fn module_uses(files: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let is_below = |low: &str, high: &str| low.strip_prefix(high).is_some_and(|rest| rest.starts_with("::"));
    let related = |one: &str, other: &str| one == other || is_below(one, other) || is_below(other, one);
    // The longest beginning of a path that is a module.
    let module = |path: &str| {
        let names: Vec<&str> = path.split("::").collect();
        (1..=names.len()).rev().find_map(|most| files.get_key_value(&names[..most].join("::")))
    };
    let uses = |name: &str, text: &str| {
        let code = code(text);
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let parent = name.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
        let bases = [("crate::", ""), ("super::", parent.as_str())];
        let paths = bases.into_iter().flat_map(|(word, base)| {
            code.split(word).skip(1).flat_map(move |rest| paths(base, rest)).collect::<Vec<_>>()
        });
        let used = paths.filter_map(|path| module(&path)).map(|(used, _)| used.as_str());
        used.filter(|used| !related(used, name)).collect()
    };
    files.iter().map(|(name, text)| (name.as_str(), uses(name, text))).collect()
}

/// A module that uses itself by way of others, and the modules on the way.
fn circle<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    uses.keys().find_map(|start| {
        let mut ways = vec![vec![*start]];
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop() {
            let last = way.last().copied()?;
            for next in uses.get(last).into_iter().flatten() {
                if next == start {
                    return Some(way);
                }
                if seen.insert(*next) {
                    ways.push(way.iter().copied().chain([*next]).collect());
                }
            }
        }
        None
    })
}

#[test]
fn no_files_of_engine_use_each_other_in_a_circle() {
    let src = root().join("host/crates/engine/src");
    let mut files = BTreeMap::new();
    for path in sources().iter().filter(|path| path.starts_with(&src)) {
        let inside = path.strip_prefix(&src).expect("is below").with_extension("");
        let names: Vec<&str> = inside.iter().filter_map(|name| name.to_str()).collect();
        if !names.contains(&"tests") && names != ["lib"] {
            files.insert(names.join("::"), std::fs::read_to_string(path).expect("text"));
        }
    }
    assert_eq!(circle(&module_uses(&files)), None);
    let bad = [
        ("run", "mod tool; mod engine;"),
        ("run::tool", "use super::engine::Engine;\nuse crate::run;"),
        ("run::engine", "use crate::wasi::{\n    clocks::{self},\n    files,\n};"),
        ("wasi::files", "use crate::run::tool::GuestTool;"),
        ("wasi::clocks", "// use crate::run::engine;"),
    ];
    let bad = bad.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    assert_eq!(circle(&module_uses(&bad)), Some(vec!["run::engine", "wasi::files", "run::tool"]));
}

#[test]
fn the_folders_of_transport_and_store_use_each_other_as_the_tables_say() {
    for (name, edges) in [("transport", TRANSPORT_FOLDERS), ("store", STORE_FOLDERS)] {
        let src = root().join("host/crates").join(name).join("src");
        let lib = std::fs::read_to_string(src.join("lib.rs")).expect("text");
        for path in sources().iter().filter(|path| path.starts_with(&src) && !is_test(path)) {
            let inside = path.strip_prefix(&src).expect("is below").with_extension("");
            let folder = inside.iter().next().and_then(|name| name.to_str()).expect("plain names");
            let text = std::fs::read_to_string(path).expect("text");
            let is_root = path.ends_with("src/lib.rs");
            let used = (!is_root).then(|| uses_a_forbidden_folder(folder, &text, &lib, edges)).flatten();
            assert_eq!(used, None, "{}: the table of folders has no such edge", path.display());
        }
    }
    let bad = |folder, text| {
        uses_a_forbidden_folder(folder, text, "pub use http::host_origin::AllowedNames;", TRANSPORT_FOLDERS)
    };
    assert_eq!(bad("stdio", "use crate::http::post::Post;"), Some("http"));
    assert_eq!(bad("auth", "use crate::{AllowedNames, Server};"), Some("http"), "by way of the root");
    assert_eq!(bad("session", "use crate::stdio::Line;"), Some("stdio"), "a file beside the folders");
    assert_eq!(bad("http", "use crate::methods::answer;"), None);
}

/// Names of files that said nothing to a newcomer, and the names that replaced them.
const OLD_FILE_NAMES: [(&str, &str); 52] = [
    ("ask", "elicitation"),
    ("asked", "question_history"),
    ("authority", "access_rules"),
    ("change", "commit"),
    ("conversation", "session"),
    ("desk", "inflight_questions"),
    ("door", "listener"),
    ("due", "maintenance"),
    ("extent", "search_range"),
    ("floor", "monotonic_clock"),
    ("follow", "client_task"),
    ("gate", "cpu_scheduler"),
    ("gossip", "broadcast"),
    ("guard", "host_origin"),
    ("host", "guest_state"),
    ("hub", "session_registry"),
    ("inputs", "guest_input"),
    ("lines", "jsonl"),
    ("lobby", "overflow"),
    ("looking_on", "call_log"),
    ("mirrored", "header_check"),
    ("neighbours", "broadcast"),
    ("news", "change_notifications"),
    ("notes", "audit_buffer"),
    ("notices", "notifications"),
    ("offered", "catalog_changes"),
    ("outlet", "client_channel"),
    ("outlets", "client_channels"),
    ("outstanding", "inflight"),
    ("pace", "first_poll"),
    ("paces", "rate_limit"),
    ("patience", "write_timeout"),
    ("place", "runtime_dir"),
    ("play", "run_call"),
    ("posed", "pending_question"),
    ("prospect", "promotion"),
    ("query", "operations"),
    ("reach", "imports_used"),
    ("rehearsal", "run_case"),
    ("requests", "pending_requests"),
    ("reseal", "reencryption"),
    ("room", "reservation"),
    ("rooms", "run_budget"),
    ("rounds", "round_trip"),
    ("seal", "encryption"),
    ("seats", "connection_limit"),
    ("sharing", "work_stealing"),
    ("tidings", "change_notifications"),
    ("touches", "last_seen_buffer"),
    ("traffic", "network_policy"),
    ("vitals", "health"),
    ("wake", "waiters"),
];

/// Folders that still have files of old names, and which.
const OLD_FILES: [(&str, &[&str]); 2] = [
    ("host/crates/engine/src", &["gate", "host", "inputs", "pace", "reach", "rooms", "traffic"]),
    ("host/src", &["door", "looking_on", "place", "play", "reach", "rehearsal", "vitals"]),
];

/// The name that a file should have instead of its own.
fn better_file_name(stem: &str) -> Option<&'static str> {
    OLD_FILE_NAMES.iter().find(|(old, _)| *old == stem).map(|(_, new)| *new)
}

#[test]
fn files_have_the_names_of_the_glossary() {
    let host = root().join("host");
    for path in sources().iter().filter(|path| path.starts_with(&host) && is_source(path)) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("plain names");
        let is_excused = |(folder, stems): &(&str, &[&str])| {
            path.starts_with(root().join(folder)) && stems.contains(&stem)
        };
        let better = better_file_name(stem).filter(|_| !OLD_FILES.iter().any(is_excused));
        assert_eq!(better, None, "{}: a newcomer would look for this name", path.display());
    }
    assert_eq!(better_file_name("lobby"), Some("overflow"));
    assert_eq!(better_file_name("overflow"), None);
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "rs") && path.iter().any(|part| part == "src")
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.iter().any(|part| part == "tests")
        || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_tests.rs"))
}

/// Public names that a crate still uses for more than one type.
const SHARED_TYPE_NAMES: [(&str, &[&str]); 2] = [
    ("host/crates/engine/src", &["Checked", "Kind", "Left", "Offer", "Reach", "Turn"]),
    // Each command has its own, and no command uses those of another.
    ("host/src", &["Options"]),
];

/// The types that this text declares for its whole crate or for others. A type of `pub(super)` is
/// known to one folder only, so that both databases may have a `Writer`.
fn public_types(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let declared = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?;
        let (keyword, rest) = line.split_once(' ')?;
        ["struct", "enum", "union", "trait", "type"].contains(&keyword).then_some(rest)
    });
    declared.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()).collect()
}

/// The names that more than one of these declarations has.
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

/// Crates that still have predicates which do more than answer, and which.
const ACTIVE_PREDICATES: [(&str, &[&str]); 2] = [
    ("host/crates/schema/src", &["is_among", "is_unique"]),
    ("host/crates/engine/src", &["is_over", "is_of", "has_inside", "may_send", "has_body"]),
];

/// The functions of this text that are named like a question and do not just answer it by yes or no.
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

/// A mutation that does not apply any more shows nothing, and only `make mutants` would say so.
#[test]
fn every_mutation_applies_to_the_code_as_it_is() {
    for path in sources().iter().filter(|path| path.extension().is_some_and(|kind| kind == "patch")) {
        let checked = std::process::Command::new("git")
            .args(["apply", "--check"])
            .arg(path)
            .current_dir(root())
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {said}", path.display());
    }
}
