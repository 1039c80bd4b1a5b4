//! Compilation in a child process: this program is its own child.

#[allow(dead_code)]
#[path = "it/kit.rs"]
mod kit;

use kit::{Folder, engine, ok, report, settings, state, why};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolyard_engine::{Compiler, PluginState, Plugins, QuickCode, Settings, Snapshot};
use toolyard_task::{Catalog, Tool};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "compile") {
        assert!(std::env::var_os("PATH").is_none(), "the child inherits no environment");
        return toolyard_engine::compile_child(&arguments[1..]);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("starts");
    runtime.block_on(async {
        compiles_quickly_for_those_who_accept_that().await;
        serves_with_quick_code_until_it_is_optimized().await;
        goes_on_with_quick_code_that_cannot_be_optimized().await;
        lists_what_it_knows_while_components_are_compiled_again().await;
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

/// A compiler that is this script, whose `$0` is this program.
fn scripted(script: &str) -> Compiler {
    let own = std::env::current_exe().expect("a path").display().to_string();
    Compiler::Child { program: PathBuf::from("/bin/sh"), args: vec!["-c".to_owned(), script.to_owned(), own] }
}

/// Calls a tool that adds two numbers.
async fn adds(catalog: &Catalog, name: &str) {
    assert_eq!(ok(&kit::call(catalog, name, "{\"a\":1,\"b\":2}").await), "3");
}

/// The number of codes in the cache.
fn codes_in(cache: &Path) -> usize {
    let files = std::fs::read_dir(cache).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == "cwasm")).count()
}

async fn compiles_quickly_for_those_who_accept_that() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let cache = home.path().join("cache");
    // Quick code runs, and a host that wants optimised code does not take it for that.
    for (quick_code, is_made, codes) in [
        (QuickCode::Make, true, 1),
        (QuickCode::IfCached, false, 1),
        (QuickCode::Never, true, 2),
        (QuickCode::Never, false, 2),
        (QuickCode::Make, false, 2),
        (QuickCode::IfCached, false, 2),
    ] {
        let settings = Settings { cache: Some(cache.clone()), quick_code, ..child() };
        let snapshot = folder.load(&engine(&settings)).await;
        assert_eq!(report(&snapshot, "add.wasm").compiled_in.is_some(), is_made, "{quick_code:?}");
        assert_eq!(codes_in(&cache), codes, "{quick_code:?}");
        adds(&snapshot.catalog, "add").await;
    }
    let left = std::fs::read_dir(&cache).expect("a folder").count();
    assert_eq!(left, 2 * 2 + 1, "the codes, their notes and the offer, no scratch files");
    let settings = Settings { cache: None, quick_code: QuickCode::IfCached, ..child() };
    assert!(report(&folder.load(&engine(&settings)).await, "add.wasm").compiled_in.is_some());
}

/// Serves the folder, and returns what is published after the first load.
async fn follow(
    folder: &Folder,
    settings: &Settings,
) -> (Snapshot, mpsc::UnboundedReceiver<Snapshot>, DropGuard) {
    let mut plugins = Plugins::open(engine(settings), folder.path());
    let first = plugins.load_within(Duration::from_secs(60)).await;
    let (sender, published) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let watch = plugins.watch(stop.clone(), move |snapshot| drop(sender.send(snapshot)));
    tokio::spawn(watch);
    (first, published, stop.drop_guard())
}

async fn serves_with_quick_code_until_it_is_optimized() {
    let folder = Folder::with(&[("add.wasm", "add"), ("copy.wasm", "add")]);
    folder.put("copy.toml", b"prefix = \"copy\"");
    let home = tempfile::tempdir().expect("a folder");
    let cache = home.path().join("cache");
    let codes = || codes_in(&cache);
    let (cache, quick_code) = (Some(cache.clone()), QuickCode::Meanwhile);
    let settings = Settings { cache, quick_code, optimize_after: Duration::ZERO, ..child() };
    let (first, mut published, _stop) = follow(&folder, &settings).await;
    assert_eq!(
        (state(&first, "add.wasm"), codes()),
        (&PluginState::Serving, 1),
        "only quick code is waited for"
    );
    let both =
        [first.catalog.get("add"), first.catalog.get("copy_add")].map(|tool| tool.expect("is there").clone());
    let is_new = |next: &Snapshot, old: &Arc<dyn Tool>| {
        let new = next.catalog.get(old.spec().name()).expect("it stays");
        assert_eq!(new.spec(), old.spec(), "so clients get no notification");
        !Arc::ptr_eq(new, old)
    };
    let last = loop {
        let next = published.recv().await.expect("the host follows the folder");
        if both.iter().all(|old| is_new(&next, old)) {
            break next;
        }
    };
    assert_eq!(codes(), 2, "optimised once, for both files");
    for catalog in [&first.catalog, &last.catalog] {
        adds(catalog, "copy_add").await;
    }
    let again = folder.load(&engine(&settings)).await;
    assert!(report(&again, "add.wasm").compiled_in.is_none() && codes() == 2, "it is found optimised");
}

async fn goes_on_with_quick_code_that_cannot_be_optimized() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let attempts = home.path().join("attempts");
    let counted = format!("case \"$*\" in *optimize*) echo >> '{}'; exit 3;; esac", attempts.display());
    let compiler = scripted(&format!("{counted}; exec \"$0\" compile \"$@\""));
    let (quick_code, optimize_after) = (QuickCode::Meanwhile, Duration::ZERO);
    let settings = Settings { compiler, quick_code, optimize_after, ..child() };
    let (first, mut published, _stop) = follow(&folder, &settings).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tried = std::fs::read_to_string(&attempts).expect("it was tried");
    assert_eq!(tried.lines().count(), 1, "and not again");
    let last = std::iter::from_fn(|| published.try_recv().ok()).last().unwrap_or(first);
    assert_eq!(state(&last, "add.wasm"), &PluginState::Serving);
    adds(&last.catalog, "add").await;
}

async fn lists_what_it_knows_while_components_are_compiled_again() {
    let folder = Folder::with(&[("add.wasm", "add")]);
    let home = tempfile::tempdir().expect("a folder");
    let cache = home.path().join("cache");
    let settings = Settings { cache: Some(cache.clone()), ..child() };
    let before = folder.load(&engine(&settings)).await;
    let shown = |catalog: &Catalog| catalog.get("add").map(|tool| tool.spec().clone());
    for (script, ends_well) in [("sleep 2; exec \"$0\" compile \"$@\"", true), ("sleep 2; exit 1", false)] {
        // As a host of another version does, which cannot use this code.
        for file in std::fs::read_dir(&cache).expect("a folder").flatten() {
            if file.path().extension().is_some_and(|end| end == "cwasm") {
                std::fs::remove_file(file.path()).expect("removes");
            }
        }
        let settings = Settings { compiler: scripted(script), ..settings.clone() };
        let (first, mut published, _stop) = follow(&folder, &settings).await;
        assert_eq!(first.loading, ["add.wasm"], "nothing was compiled yet");
        assert_eq!(shown(&first.catalog), shown(&before.catalog));
        let answer = kit::call(&first.catalog, "add", "{\"a\":1,\"b\":2}").await;
        let last = published.recv().await.expect("the host follows the folder");
        if ends_well {
            assert_eq!(ok(&answer), "3");
            assert_eq!(shown(&last.catalog), shown(&before.catalog));
        } else {
            assert!(kit::error(&answer).contains("is not offered any more"), "{answer:?}");
            assert!(last.catalog.is_empty());
        }
    }
}

async fn is_killed_when_its_time_is_up() {
    let folder = Folder::with(&[("jq.wasm", "jq")]);
    let settings = Settings { compile_time: Duration::from_millis(1), ..child() };
    let why = why(&folder.load(&engine(&settings)).await, "jq.wasm");
    assert!(why.contains("took longer than 1ms to compile"), "{why}");
}

async fn cannot_take_more_memory_than_it_may() {
    let folder = Folder::with(&[("jq.wasm", "jq")]);
    // A compiler that needs 4 GiB of address space under the same limit.
    let compiler = scripted("ulimit -v 100000; exec \"$0\" compile \"$@\"");
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
