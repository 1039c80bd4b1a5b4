//! Compilation in a child process: this program is its own child.

#[allow(dead_code)]
#[path = "it/kit.rs"]
mod kit;

use kit::{Folder, engine, ok, report, settings, state, why};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_engine::{Compiler, PluginState, QuickCode, Settings};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "compile") {
        assert!(std::env::var_os("PATH").is_none(), "the child inherits no environment");
        return toolyard_engine::compile_child(&arguments[1..]);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("starts");
    runtime.block_on(async {
        compiles_what_the_engine_takes().await;
        compiles_quickly_for_those_who_accept_that().await;
        is_killed_when_its_time_is_up().await;
        cannot_take_more_memory_than_it_may().await;
        says_why_it_failed().await;
    });
    ExitCode::SUCCESS
}

fn child() -> Settings {
    let program = std::env::current_exe().expect("a path");
    Settings { compiler: Compiler::Child { program, args: vec!["compile".to_owned()] }, ..settings() }
}

async fn compiles_what_the_engine_takes() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let settings = Settings { cache: Some(home.path().join("cache")), ..child() };
    for found in [false, true] {
        let snapshot = folder.load(&engine(&settings)).await;
        assert_eq!(state(&snapshot, "add.wasm"), &PluginState::Serving);
        assert_eq!(report(&snapshot, "add.wasm").compiled_in.is_none(), found);
        assert_eq!(ok(&kit::call(&snapshot.catalog, "add", "{\"a\":1,\"b\":2}").await), "3");
    }
    let left = std::fs::read_dir(home.path().join("cache")).expect("a folder").count();
    assert_eq!(left, 2, "the code and its note, no scratch files");
}

async fn compiles_quickly_for_those_who_accept_that() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let cache = home.path().join("cache");
    let code = || std::fs::read_dir(&cache).map_or(0, |files| files.count() / 2);
    // Quick code runs, and a host that wants optimised code does not take it for that.
    for (quick_code, is_made, codes) in [
        (QuickCode::Make, true, 1),
        (QuickCode::IfCached, false, 1),
        (QuickCode::Never, true, 2),
        (QuickCode::Make, false, 2),
        (QuickCode::IfCached, false, 2),
    ] {
        let settings = Settings { cache: Some(cache.clone()), quick_code, ..child() };
        let snapshot = folder.load(&engine(&settings)).await;
        assert_eq!(report(&snapshot, "add.wasm").compiled_in.is_some(), is_made, "{quick_code:?}");
        assert_eq!(code(), codes, "{quick_code:?}");
        assert_eq!(ok(&kit::call(&snapshot.catalog, "add", "{\"a\":1,\"b\":2}").await), "3");
    }
    let settings = Settings { cache: None, quick_code: QuickCode::IfCached, ..child() };
    assert!(report(&folder.load(&engine(&settings)).await, "add.wasm").compiled_in.is_some());
}

async fn is_killed_when_its_time_is_up() {
    let folder = Folder::with(&[("jq.wasm", "jq")]);
    let settings = Settings { compile_time: Duration::from_millis(1), ..child() };
    assert!(
        why(&folder.load(&engine(&settings)).await, "jq.wasm").contains("took longer than 1ms to compile")
    );
}

async fn cannot_take_more_memory_than_it_may() {
    let folder = Folder::with(&[("jq.wasm", "jq")]);
    let program = PathBuf::from("/bin/sh");
    // A compiler that needs 4 GiB of address space under the same limit.
    let script = "ulimit -v 100000; exec \"$0\" compile \"$@\"".to_owned();
    let own = std::env::current_exe().expect("a path").display().to_string();
    let compiler = Compiler::Child { program, args: vec!["-c".to_owned(), script, own] };
    let why = why(&folder.load(&engine(&Settings { compiler, ..child() })).await, "jq.wasm");
    assert!(why.contains("jq.wasm: could not be compiled: "), "{why}");
}

async fn says_why_it_failed() {
    let folder = Folder::new();
    let broken = r#"(component
        (core module (func (result i32) unreachable))
        (instance $i) (export "toolyard:plugin/tools@0.1.0" (instance $i)))"#;
    let mut bytes = wat::parse_str(broken).expect("parses");
    // `unreachable` becomes an invalid instruction.
    let at = bytes.windows(3).position(|bytes| bytes == [0, 0, 0x0b]).expect("the body") + 1;
    bytes[at] = 0xff;
    folder.put("broken.wasm", &bytes);
    let why_broken = why(&folder.load(&engine(&child())).await, "broken.wasm");
    assert!(why_broken.contains("could not be compiled") && why_broken.contains("opcode"), "{why_broken}");
    for (program, says) in [("/nowhere/at/all", "does not start"), ("/bin/false", "ended with")] {
        let compiler = Compiler::Child { program: program.into(), args: Vec::new() };
        let why = why(&folder.load(&engine(&Settings { compiler, ..child() })).await, "broken.wasm");
        assert!(why.contains(says), "{why}");
    }
}
