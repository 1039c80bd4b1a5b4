//! The table of WASI's functions has those of wasmtime-wasi, and says how the linker repeats them.

mod functions;

use super::*;
use crate::component::wasi_functions::has_interface;
use functions::{INTERFACES, Repetition};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use wit_parser::{Resolve, WorldItem};

/// The folder of a dependency's sources.
fn sources_of(package: &str) -> PathBuf {
    // Crates of other systems may never have been fetched here.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform", &platform])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&metadata.stderr);
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect(&text);
    let packages = metadata["packages"].as_array().expect("packages");
    let found = packages.iter().find(|found| found["name"] == package).expect(package);
    Path::new(found["manifest_path"].as_str().expect("a path")).parent().expect("a folder").to_owned()
}

/// The interfaces that a world imports, with the full names of their functions.
fn imports(wit: &Path, world: &str) -> BTreeMap<String, Vec<String>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).expect("WIT");
    let world = resolve.select_world(&[package], Some(world)).expect("a world");
    let interfaces = resolve.worlds[world].imports.values().filter_map(|item| match item {
        WorldItem::Interface { id, .. } => Some(*id),
        _ => None,
    });
    interfaces
        .map(|id| {
            let functions = resolve.interfaces[id].functions.keys().cloned().collect();
            (resolve.id_of(id).expect("a name"), functions)
        })
        .collect()
}

/// The interfaces that the linker takes from wasmtime.
fn linked() -> BTreeMap<String, Vec<String>> {
    let mut linked = imports(&sources_of("wasmtime-wasi").join("src/p2/wit"), "wasi:cli/imports");
    let http = imports(&sources_of("wasmtime-wasi-http").join("wit"), "wasi:http/proxy");
    linked.extend(http.into_iter().filter(|(name, _)| name.starts_with("wasi:http/")));
    linked
}

/// `pollable.ready` of `[method]pollable.ready`.
fn without_mark(function: &str) -> &str {
    function.rsplit(']').next().unwrap_or(function)
}

/// `io/poll` of `wasi:io/poll@0.2.12`.
fn short(interface: &str) -> &str {
    let name = interface.split('@').next().unwrap_or(interface);
    name.strip_prefix("wasi:").unwrap_or(name)
}

/// Whether an entry of the table is about this function.
fn covers(entry: &str, function: &str) -> bool {
    entry.strip_suffix('*').map_or(entry == function, |resource| function.starts_with(resource))
}

/// The classes of a function in the table, one for each entry that covers it.
fn repetitions(interface: &str, function: &str) -> Vec<Repetition> {
    let classes = INTERFACES.iter().filter(|(name, _)| *name == interface).flat_map(|(_, classes)| *classes);
    let entries = classes.flat_map(|(class, entries)| entries.split(' ').map(move |entry| (*class, entry)));
    entries.filter(|(_, entry)| covers(entry, function)).map(|(class, _)| class).collect()
}

#[test]
fn each_function_of_wasi_is_known_to_be_recorded_executed_or_refused() {
    let linked = linked();
    let interfaces: BTreeSet<&str> = linked.keys().map(|interface| short(interface)).collect();
    assert_eq!(interfaces, INTERFACES.iter().map(|(interface, _)| *interface).collect());
    assert!(interfaces.iter().all(|interface| has_interface(interface)), "a component may import each");
    for (interface, functions) in &linked {
        for function in functions {
            let known = repetitions(short(interface), without_mark(function));
            let question = "can a run that is repeated execute it again?";
            assert_eq!(known.len(), 1, "{interface} {function}: {question} {known:?}");
        }
    }
    for (interface, classes) in INTERFACES {
        let functions = linked.iter().filter(|(name, _)| short(name) == interface).flat_map(|(_, all)| all);
        for entry in classes.iter().flat_map(|(_, entries)| entries.split(' ')) {
            let mut functions = functions.clone();
            assert!(functions.any(|function| covers(entry, without_mark(function))), "{interface} {entry}");
        }
    }
}

/// Recorded by the host's ports behind them: seeded generators, the environment of the beginning, the sender of requests.
const AT_PORTS: [&str; 7] = [
    "cli/environment get-environment",
    "http/outgoing-handler handle",
    "random/insecure get-insecure-random-bytes",
    "random/insecure get-insecure-random-u64",
    "random/insecure-seed insecure-seed",
    "random/random get-random-bytes",
    "random/random get-random-u64",
];

#[test]
fn the_linker_replaces_what_is_recorded_and_nothing_else_of_wasi() {
    let engine = wasmtime::Engine::new(&crate::component::toolchain::journal_config()).expect("starts");
    let mut linker = Linker::new(&engine);
    replace(&mut linker).expect("links");
    for (interface, functions) in linked() {
        let mut instance = linker.instance(&interface).expect("opens");
        for function in functions {
            let name = without_mark(&function);
            // A name can be defined once.
            let is_replaced = instance.func_wrap(&function, |_, (): ()| Ok(())).is_err();
            let is_recorded = repetitions(short(&interface), name) == [Repetition::Recorded];
            let is_at_port = AT_PORTS.contains(&&*format!("{} {name}", short(&interface)));
            assert_eq!(is_replaced, is_recorded && !is_at_port, "{interface} {name}");
        }
    }
}
