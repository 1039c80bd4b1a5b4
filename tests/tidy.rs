//! Rules of the workspace: the edges of crates and folders, the length of files, the events of the log, the formats
//! that others keep, the links and paths in pages, and the code in recipes.

#[path = "tidy/events.rs"]
mod events;

#[path = "tidy/files.rs"]
mod files;

#[path = "tidy/formats.rs"]
mod formats;

#[path = "tidy/pages.rs"]
mod pages;

#[path = "tidy/price_list.rs"]
mod price_list;

#[path = "tidy/recipes.rs"]
mod recipes;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toolyard_tests::guests::root;

/// The edges between crates that the picture in `host/ARCHITECTURE.md` leaves out: those from and to crates for tests. A
/// new edge needs a decision first (`host/docs/decisions/`).
const UNDRAWN_EDGES: [(&str, &str); 7] = [
    // Only the program with fail points contains it.
    ("host", "failpoint"),
    ("store", "failpoint"),
    ("failpoint", "task"),
    ("kit", "dispatch store task"),
    // It has the readers of data from outside that the fuzzer and the instruction counter run.
    ("readers", "protocol task dispatch journal manifest registry schema transport trust"),
    ("store-contract", "journal store task"),
    // It counts the instructions of each crate separately.
    ("load", "tests readers protocol task dispatch engine kit store store-contract"),
];

/// Dependencies that take long to build or are not for the inner crates, and the crates that may have them.
const HEAVY: [(&str, &str); 6] = [
    ("wasmtime", "engine"),
    ("rusqlite", "store load"),
    ("hyper", "host engine registry transport console tests load"),
    (
        "tokio",
        "host engine workshop dispatch detach registry store transport console tests kit load store-contract",
    ),
    ("uuid", "host task engine dispatch store kit store-contract"),
    ("clap", "host load"),
];

/// The files of this folder are generated, and may be long.
const GENERATED: &str = "plugins/sdk/src/bindings/";

const MOST_LINES: usize = 600;

/// The packages of the workspace, and what they depend on at run time and to build.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let packages = list(&metadata["packages"]).into_iter().map(|package| {
        let used = list(&package["dependencies"]).into_iter().filter(|used| used["kind"] != "dev");
        (name(&package), used.map(|used| name(&used)).collect())
    });
    packages.collect()
}

fn subfolders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
}

/// The name of a package in the picture of the crates.
fn crate_name(package: &str) -> &str {
    package.strip_prefix("toolyard-").unwrap_or("host")
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("host/ARCHITECTURE.md")).expect("a page")
}

/// The edges between crates of the host that a page draws, by their names in the page.
fn drawn_edges(page: &str) -> BTreeSet<(&str, &str)> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
    let arrows = page.lines().filter_map(|line| line.trim().split_once(" --> "));
    arrows.filter(|(from, to)| is_name(from) && is_name(to)).collect()
}

#[test]
fn the_crates_depend_on_each_other_as_the_picture_says() {
    let dependencies = dependencies();
    let edges = dependencies.iter().flat_map(|(from, used)| {
        let crates = used.iter().filter(|used| used.starts_with("toolyard"));
        crates.map(move |to| (crate_name(from), crate_name(to)))
    });
    let undrawn = UNDRAWN_EDGES.into_iter();
    let undrawn = undrawn.flat_map(|(from, all)| all.split(' ').map(move |to| (from, to)));
    let page = architecture();
    let allowed: BTreeSet<_> = drawn_edges(&page).into_iter().chain(undrawn).collect();
    assert_eq!(edges.collect::<BTreeSet<_>>(), allowed);
}

#[test]
fn only_these_crates_use_the_heavy_dependencies() {
    for (name, used) in dependencies() {
        for (heavy, users) in HEAVY {
            let may_use = users.split(' ').any(|user| user == crate_name(&name));
            assert!(may_use || !used.contains(heavy), "{name} must not depend on {heavy}");
        }
    }
}

/// The files of the repository.
fn sources() -> Vec<PathBuf> {
    files::tracked(&[]).into_iter().filter(|path| path.is_file()).collect()
}

#[test]
fn files_are_short() {
    for path in sources().iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let lines = std::fs::read_to_string(path).expect("text").lines().count();
        let is_short = lines <= MOST_LINES || name.starts_with(GENERATED);
        assert!(is_short, "{name} has {lines} lines; {MOST_LINES} are the most");
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
        // In pieces, so that this file does not match itself.
        for reason in text.split(concat!("#[ign", "ore")).skip(1) {
            let part = reason.strip_prefix(" = \"nightly: ").and_then(|part| Some(part.split_once('"')?.0));
            let prefixes = part.and_then(|part| parts.get(part));
            let prefixes = prefixes.unwrap_or_else(|| panic!("{name}: an ignored test has no nightly part"));
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

/// The folders of a crate, and the other folders that each may use. The empty name means the files beside the folders,
/// which every folder may use.
type FolderEdges<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// The two transports share everything except their own folders. The file `server` stands for a folder here, because
/// the state that they share includes the access over HTTP.
const TRANSPORT_FOLDERS: [(&str, &str); 8] = [
    ("auth", ""),
    ("methods", ""),
    ("server", "http"),
    ("stateless", "methods"),
    ("http", "auth methods server stateless"),
    ("stdio", "methods server stateless"),
    ("relay", "http stateless stdio"),
    ("", "methods server"),
];

/// No store uses another one.
const STORE_FOLDERS: [(&str, &str); 4] = [("memory", ""), ("sqlite", ""), ("postgres", ""), ("", "")];

fn folder_edges(table: &[(&'static str, &'static str)]) -> FolderEdges<'static> {
    table.iter().map(|(folder, allowed)| (*folder, allowed.split(' ').collect())).collect()
}

/// The folders of a crate that a page draws as floors: each uses the folders below it only.
fn drawn_floors<'a>(page: &'a str, name: &str) -> FolderEdges<'a> {
    let (_, drawn) = page.split_once(&format!("subgraph {name}\n")).expect("a picture");
    let (drawn, _) = drawn.split_once("\n  end").expect("its end");
    let names: Vec<&str> = drawn.split("[\"").skip(1).filter_map(|rest| rest.split(':').next()).collect();
    names.iter().enumerate().map(|(at, floor)| (*floor, names[at + 1..].to_vec())).collect()
}

/// A module in a folder that must not use the folder of another module, and that other module.
fn forbidden_use<'a>(
    files: &'a BTreeMap<String, String>,
    edges: &FolderEdges<'_>,
) -> Option<(&'a str, &'a str)> {
    let folder = |module: &str| edges.get_key_value(module.split("::").next().unwrap_or_default());
    let modules = module_uses(files).into_iter().filter(|(name, _)| *name != "lib");
    let mut uses = modules.flat_map(|(name, used)| used.into_iter().map(move |used| (name, used)));
    uses.find(|(name, used)| {
        let Some((own, allowed)) = folder(name).or_else(|| edges.get_key_value("")) else { return false };
        folder(used).is_some_and(|(used, _)| used != own && !allowed.contains(used))
    })
}

#[test]
fn the_folders_of_a_crate_use_each_other_as_the_picture_and_the_tables_say() {
    let page = architecture();
    // The files beside the folders of the engine are below all of them.
    let engine: FolderEdges<'_> =
        drawn_floors(&page, "engine").into_iter().chain([("", Vec::new())]).collect();
    for folder in subfolders(&root().join("host/crates/engine/src")) {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("plain names");
        assert!(engine.contains_key(name), "{name}: every folder of the engine has its floor in the picture");
    }
    let transport = folder_edges(&TRANSPORT_FOLDERS);
    let bad = |name: &str, text: &str| {
        let others = ["lib", "auth", "http::post", "methods", "stdio"].map(|name| (name, ""));
        let files = others.into_iter().chain([(name, text)]);
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        forbidden_use(&files, &transport).map(|(_, used)| used.to_owned())
    };
    assert_eq!(bad("stdio::line", "use crate::http::post::Post;").as_deref(), Some("http::post"));
    assert_eq!(bad("session", "use crate::stdio::Line;").as_deref(), Some("stdio"), "beside the folders");
    assert_eq!(bad("http::get", "use crate::{auth, methods::answer};"), None);
    let dispatch = drawn_floors(&page, "dispatch");
    let store = folder_edges(&STORE_FOLDERS);
    for (name, edges) in
        [("dispatch", dispatch), ("engine", engine), ("transport", transport), ("store", store)]
    {
        let files = modules(&root().join("host/crates").join(name).join("src"));
        assert_eq!(forbidden_use(&files, &edges), None, "{name}");
    }
}

/// The modules of a library, by their paths below the crate root, and their texts.
fn modules(src: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for path in sources().iter().filter(|path| path.starts_with(src)) {
        let inside = path.strip_prefix(src).expect("is below").with_extension("");
        let names: Vec<&str> = inside.iter().filter_map(|name| name.to_str()).collect();
        if !names.contains(&"tests") && !names.contains(&"bin") && names != ["main"] {
            files.insert(names.join("::"), std::fs::read_to_string(path).expect("text"));
        }
    }
    assert!(files.contains_key("lib"), "{}", src.display());
    files
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
        let files = modules(&src);
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

/// A mutation that no longer applies shows nothing, and without this test only `make mutants` would report
/// it.
#[test]
fn every_mutation_applies_to_the_code_as_it_is() {
    for path in sources().iter().filter(|path| path.extension().is_some_and(|kind| kind == "patch")) {
        let mut git = std::process::Command::new("git");
        let checked = git.args(["apply", "--check"]).arg(path).current_dir(root()).output().expect("git");
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {said}", path.display());
    }
}

/// Operators read there whether hosts of two releases may share a database.
#[test]
fn the_page_about_upgrades_gives_the_schemas_of_this_release() {
    let number = |database: &str| {
        let folder = root().join("host/crates/store/src").join(database).join("schema");
        let stems = std::fs::read_dir(folder).expect("lists").map(|file| file.expect("there").path());
        stems.filter_map(|file| file.file_stem()?.to_str()?.parse::<u32>().ok()).max().expect("a schema")
    };
    let page = std::fs::read_to_string(root().join("host/docs/guides/operate/upgrade.md")).expect("reads");
    let row = page.lines().rfind(|line| line.starts_with("| 0.")).expect("a row");
    let ends = format!("| {} | {} |", number("sqlite"), number("postgres"));
    assert!(row.ends_with(&ends), "{row} does not end with {ends}");
}
