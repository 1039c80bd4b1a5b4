//! Rules of the workspace: the edges of crates and folders, the length of files, the doc comments, the events of
//! the log, the links and paths in pages, and the code in recipes.

#[path = "tidy/docs.rs"]
mod docs;

#[path = "tidy/events.rs"]
mod events;

#[path = "tidy/formats.rs"]
mod formats;

#[path = "tidy/pages.rs"]
mod pages;

#[path = "tidy/price_list.rs"]
mod price_list;

#[path = "tidy/recipes.rs"]
mod recipes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toolyard_tests::guests::root;

/// The dependencies that each crate may have, without `toolyard-` in front. A dependency that is missing here
/// needs a decision first (`host/docs/decisions/`).
const EDGES: [(&str, &str); 23] = [
    ("toolyard-protocol", ""),
    ("toolyard-task", "journal protocol"),
    ("toolyard-dispatch", "protocol task"),
    ("toolyard-schema", "protocol"),
    ("toolyard-manifest", "task"),
    ("toolyard-engine", "journal manifest schema task"),
    ("toolyard-store", "failpoint journal task"),
    ("toolyard-transport", "protocol dispatch"),
    ("toolyard-cli", "protocol"),
    ("toolyard-connect", "cli"),
    ("toolyard-console", "dispatch protocol"),
    ("toolyard-detach", "transport"),
    ("toolyard-trust", ""),
    ("toolyard-journal", "protocol"),
    ("toolyard-registry", "trust"),
    ("toolyard-workshop", "cli dispatch engine"),
    (
        "toolyard",
        "cli connect console detach dispatch engine failpoint journal manifest registry store transport trust workshop",
    ),
    ("toolyard-tests", ""),
    // It has the readers of data from outside that the fuzzer and the instruction counter run.
    ("toolyard-readers", "protocol task dispatch journal manifest registry schema transport trust"),
    ("toolyard-kit", "dispatch store task"),
    // Only the program with fail points contains it.
    ("toolyard-failpoint", "task"),
    // Only tests use it.
    ("toolyard-store-contract", "journal store task"),
    // It counts the instructions of each crate separately.
    ("toolyard-load", "tests readers protocol task dispatch engine kit store store-contract"),
];

/// Dependencies that the inner crates must not have, so that they build and test in seconds.
const WITHOUT: [(&str, &[&str]); 15] = [
    ("toolyard-protocol", &["tokio", "wasmtime", "rusqlite", "hyper", "uuid"]),
    ("toolyard-task", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-dispatch", &["wasmtime", "rusqlite", "hyper"]),
    ("toolyard-manifest", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-schema", &["tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-store", &["wasmtime", "hyper"]),
    ("toolyard-transport", &["wasmtime", "rusqlite"]),
    ("toolyard-cli", &["clap", "tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-connect", &["clap", "tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-detach", &["clap", "wasmtime", "rusqlite", "hyper"]),
    // The simulation uses it.
    ("toolyard-kit", &["wasmtime", "rusqlite", "hyper"]),
    ("toolyard-registry", &["clap", "wasmtime", "rusqlite"]),
    ("toolyard-journal", &["tokio", "wasmtime", "rusqlite", "hyper", "uuid"]),
    ("toolyard-trust", &["clap", "tokio", "wasmtime", "rusqlite", "hyper"]),
    ("toolyard-workshop", &["clap", "wasmtime", "rusqlite", "hyper"]),
];

/// Files that are longer than the rule allows, and why.
const LONG_FILES: [(&str, &str); 3] = [
    ("plugins/sdk/src/bindings/prompts.rs", "generated"),
    ("plugins/sdk/src/bindings/resources.rs", "generated"),
    ("plugins/sdk/src/bindings/tools.rs", "generated"),
];

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
}

/// A crate of the workspace among these that `name` must not depend on.
fn edge_too_many<'a>(name: &str, used: &'a BTreeSet<String>) -> Option<&'a str> {
    let (_, allowed) = EDGES.iter().find(|(known, _)| *known == name).expect("is listed");
    let mut crates = used.iter().map(String::as_str).filter(|used| used.starts_with("toolyard"));
    crates.find(|used| !allowed.split_whitespace().any(|name| used.strip_prefix("toolyard-") == Some(name)))
}

/// The edges between crates of the host that a page draws, by their names in the page.
fn drawn_edges(page: &str) -> BTreeSet<(String, String)> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
    let arrows = page.lines().filter_map(|line| line.trim().split_once(" --> "));
    let edges = arrows.filter(|(from, to)| is_name(from) && is_name(to));
    edges.map(|(from, to)| (from.to_owned(), to.to_owned())).collect()
}

#[test]
fn the_picture_of_the_crates_shows_their_edges() {
    let page = std::fs::read_to_string(root().join("host/ARCHITECTURE.md")).expect("a page");
    let shown = |name: &str| name.strip_prefix("toolyard-").unwrap_or("host").to_owned();
    let of_tests = ["tests", "readers", "kit", "load", "store-contract", "failpoint"];
    let product = EDGES.iter().filter(|(name, _)| !of_tests.contains(&&*shown(name)));
    let edges = product.flat_map(|(from, to)| to.split_whitespace().map(|to| (shown(from), to.to_owned())));
    let edges = edges.filter(|(_, to)| !of_tests.contains(&&**to));
    assert_eq!(drawn_edges(&page), edges.collect());
}

/// The floors of a crate that a page draws, the lowest first.
fn drawn_floors<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let (_, drawn) = page.split_once(&format!("subgraph {name}\n")).expect("a picture");
    let (drawn, _) = drawn.split_once("\n  end").expect("its end");
    let names = drawn.split("[\"").skip(1).filter_map(|rest| rest.split(':').next());
    names.collect::<Vec<_>>().into_iter().rev().collect()
}

#[test]
fn the_picture_of_the_floors_shows_them() {
    let page = std::fs::read_to_string(root().join("host/ARCHITECTURE.md")).expect("a page");
    assert_eq!(drawn_floors(&page, "dispatch"), DISPATCH_FLOORS);
    assert_eq!(drawn_floors(&page, "engine"), ENGINE_FLOORS);
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

/// Paths that git tracks or would track: files, and symbolic links to files or folders.
fn tracked() -> Vec<PathBuf> {
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
        .filter(|path| path.exists())
        .collect()
}

/// The files among them.
fn sources() -> Vec<PathBuf> {
    tracked().into_iter().filter(|path| path.is_file()).collect()
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
fn nothing_sleeps_or_is_expected_to_panic() {
    // In pieces, so that this file does not match itself.
    let banned = [concat!("#[should_", "panic"), concat!("thread::", "sleep")];
    let tests = root().join("tests/it");
    for path in sources().iter().filter(|path| path.starts_with(&tests)) {
        let text = std::fs::read_to_string(path).expect("text");
        for phrase in banned {
            assert!(!text.contains(phrase), "{}: {phrase}", path.display());
        }
    }
}

/// `tests/nightly.sh` selects the tests of a part by prefixes of their names.
#[test]
fn an_ignored_test_names_the_nightly_part_that_runs_it() {
    let script = std::fs::read_to_string(root().join("tests/nightly.sh")).expect("text");
    let parts: BTreeMap<&str, Vec<&str>> = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" ;;")?.split_once(") echo "))
        .map(|(part, prefixes)| (part, prefixes.split(' ').collect()))
        .collect();
    assert!(parts.len() >= 4, "{parts:?}");
    for path in sources().iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let text = std::fs::read_to_string(path).expect("text");
        for (_, reason) in
            text.match_indices(concat!("#[ign", "ore")).map(|(at, found)| text[at..].split_at(found.len()))
        {
            let part = reason.strip_prefix(" = \"nightly: ").and_then(|part| Some(part.split_once('"')?.0));
            let prefixes = part.and_then(|part| parts.get(part));
            let prefixes =
                prefixes.unwrap_or_else(|| panic!("{name}: an ignored test names no nightly part"));
            let is_run = match name.trim_end_matches(".rs").split_once("/it/") {
                Some((_, module)) => {
                    let module = format!("{}::", module.replace('/', "::"));
                    prefixes.iter().any(|prefix| module.starts_with(prefix))
                }
                None => name.starts_with("tests/simulation/") && part == Some("durability"),
            };
            assert!(is_run, "{name}: the nightly part {part:?} runs {prefixes:?}");
        }
    }
}

/// The folders of `dispatch`, the lowest first. A folder uses only folders below it.
const DISPATCH_FLOORS: [&str; 11] =
    ["observe", "access", "bridge", "client", "slots", "task", "node", "catalog", "run", "cluster", "call"];

/// The folders of `engine`, the lowest first, above the files of the crate root: `bindings`, `error` and
/// `settings`.
const ENGINE_FLOORS: [&str; 10] =
    ["limits", "grant", "journal", "component", "convert", "network", "guest", "wasi", "run", "folder"];

/// The code of a file without comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether a file holds only tests.
fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.iter().any(|part| part == "tests")
        || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_tests.rs"))
}

/// A file without its inline tests, which are last in it.
fn without_inline_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The first names of all paths that begin at the crate root, without comments and inline tests.
fn names_from_root(text: &str) -> Vec<String> {
    let code = code(without_inline_tests(text));
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

/// A folder above `floor` that this text, a file of `floor`, uses. A name that the crate root exports counts
/// as the folder that it comes from.
fn uses_a_higher_floor<'a>(floors: &[&'a str], floor: &str, text: &str, root: &str) -> Option<&'a str> {
    let rank = |name: &str| floors.iter().position(|floor| *floor == name);
    let own = rank(floor)?;
    names_from_root(text)
        .iter()
        .filter_map(|name| rank(name).or_else(|| rank(exporter(name, root)?)))
        .find(|used| *used > own)
        .map(|used| floors[used])
}

/// Checks every file of a crate against the order of its folders.
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

/// The two transports share everything except their own folders. The file `server` stands for a folder here, because
/// the state that they share includes the access over HTTP.
const TRANSPORT_FOLDERS: FolderEdges = &[
    ("auth", &[]),
    ("methods", &[]),
    ("server", &["http"]),
    ("stateless", &["methods"]),
    ("http", &["auth", "methods", "server", "stateless"]),
    ("stdio", &["methods", "server", "stateless"]),
    ("relay", &["http", "stateless", "stdio"]),
    ("", &["methods", "server"]),
];

/// No store uses another one.
const STORE_FOLDERS: FolderEdges = &[("memory", &[]), ("sqlite", &[]), ("postgres", &[]), ("", &[])];

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
    // The files of the crate root are below all folders.
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("text");
    for file in ["bindings", "error", "settings"] {
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

/// The paths of the `use` tree, or the single path, at the start of this text.
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

/// The modules that each module uses, by their paths below the crate root. Tests do not count, and neither does a use of
/// a parent or of a child. `lib` uses all others, and is used by who names a thing by the root of the crate.
fn module_uses(files: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let is_below = |low: &str, high: &str| low.strip_prefix(high).is_some_and(|rest| rest.starts_with("::"));
    let related = |one: &str, other: &str| one == other || is_below(one, other) || is_below(other, one);
    // The longest prefix of a path that is a module.
    let module = |path: &str| {
        let names: Vec<&str> = path.split("::").collect();
        let longest = (1..=names.len()).rev().find_map(|most| files.get_key_value(&names[..most].join("::")));
        longest.or_else(|| files.get_key_value("lib")).map(|(used, _)| used.as_str())
    };
    let uses = |name: &str, text: &str| {
        if name == "lib" {
            return files.keys().map(String::as_str).filter(|used| *used != "lib").collect();
        }
        let code = code(without_inline_tests(text));
        let parent = name.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
        let bases = [("crate::", ""), ("super::", parent.as_str())];
        let paths = bases.into_iter().flat_map(|(word, base)| {
            code.split(word).skip(1).flat_map(move |rest| paths(base, rest)).collect::<Vec<_>>()
        });
        let named = paths.filter(|path| !path.is_empty());
        named.filter_map(|path| module(&path)).filter(|used| !related(used, name)).collect()
    };
    files.iter().map(|(name, text)| (name.as_str(), uses(name, text))).collect()
}

/// A module that uses itself through others, and the modules on the way.
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
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let crates = subfolders(&root().join("host/crates")).into_iter().chain([root().join("host")]);
    for src in crates.map(|folder| folder.join("src")) {
        let mut files = BTreeMap::new();
        for path in sources().iter().filter(|path| path.starts_with(&src)) {
            let inside = path.strip_prefix(&src).expect("is below").with_extension("");
            let names: Vec<&str> = inside.iter().filter_map(|name| name.to_str()).collect();
            if !names.contains(&"tests") && !names.contains(&"bin") && names != ["main"] {
                files.insert(names.join("::"), std::fs::read_to_string(path).expect("text"));
            }
        }
        assert!(files.contains_key("lib"), "{}", src.display());
        assert_eq!(circle(&module_uses(&files)), None, "{}", src.display());
    }
    let bad = [
        ("run", "mod tool; mod engine;"),
        ("run::tool", "use super::engine::Engine;\nuse crate::run;"),
        ("run::engine", "use crate::wasi::{\n    clocks::{self},\n    files,\n};"),
        ("wasi::files", "use crate::run::tool::GuestTool;"),
        ("wasi::clocks", "// use crate::run::engine;"),
    ];
    let files = |bad: &[(&str, &str)]| {
        bad.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    assert_eq!(circle(&module_uses(&files(&bad))), Some(vec!["run::engine", "wasi::files", "run::tool"]));
    let by_root =
        [("lib", "pub use error::Fault;"), ("error", "pub enum Fault {}"), ("run", "use crate::Fault;")];
    assert_eq!(circle(&module_uses(&files(&by_root))), Some(vec!["lib", "run"]));
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

/// A mutation that no longer applies shows nothing, and without this test only `make mutants` would report
/// it.
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
