//! Each limit takes effect, is named in the error and harms nothing else. Stopping a run works.

use crate::kit::{
    BOUND, Folder, Recorder, call, engine, error, eventually, ok, only, run, settings, start, tool, why,
};
use futures_util::FutureExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::Settings;
use toolyard_task::RunEnd;
use toolyard_task::wire::RawJson;

/// Far longer than any test waits.
const FOR_EVER: &str = "{\"ms\":86400000}";

#[tokio::test]
async fn memory_that_the_guest_does_not_check() {
    let engine = engine(&settings());
    let catalog = only(&engine, "probe", "[limits]\nmemory = \"2MiB\"").await;
    let text = "x".repeat(3 << 20);
    let what = error(&call(&catalog, "echo", &format!("{{\"text\":\"{text}\"}}")).await);
    assert!(what.contains("memory limit of 2.0 MiB reached (`limits.memory`)"), "{what}");
    assert_eq!(ok(&call(&catalog, "echo", "{\"text\":\"x\"}").await), "x");
    // Not even its initial memory fits.
    let folder = Folder::with(&[("guest.wasm", "probe")]);
    folder.put("guest.toml", b"[limits]\nmemory = \"64KiB\"");
    let snapshot = folder.load(&engine).await;
    let what = why(&snapshot, "guest.wasm");
    assert!(what.contains("MiB of memory, and `limits.memory` is 64.0 KiB"), "{what}");
}

#[tokio::test]
async fn processor_time() {
    let catalog = only(&engine(&settings()), "probe", "[limits]\ncpu = \"50ms\"").await;
    let what = error(&call(&catalog, "spin", FOR_EVER).await);
    assert!(what.contains("processor time limit of 50ms reached (`limits.cpu`)"), "{what}");
    // Sleeping uses none.
    assert_eq!(ok(&call(&catalog, "wait", "{\"ms\":200}").await), "waited 200 ms");
}

#[tokio::test]
async fn output_and_what_is_copied_at_once() {
    let engine = engine(&settings());
    let catalog = only(&engine, "probe", "[limits]\noutput = \"1MiB\"").await;
    let what = error(&call(&catalog, "flood", "{\"mib\":1}").await);
    assert!(what.contains("output limit of 1.0 MiB (`limits.output`)"), "{what}");
    let catalog = only(&engine, "probe", "[limits]\nhostcall = \"1MiB\"").await;
    let what = error(&call(&catalog, "flood", "{\"mib\":2}").await);
    assert!(what.contains("1.0 MiB to the host at once (`limits.hostcall`)"), "{what}");
    let catalog = only(&engine, "probe", "").await;
    assert_eq!(ok(&call(&catalog, "flood", "{\"mib\":1}").await).len(), 1 << 20);
}

#[tokio::test]
async fn tables() {
    // Standard libraries have a function table, which counts.
    let catalog = only(&engine(&settings()), "probe", "[limits]\ntable = 1").await;
    let what = error(&call(&catalog, "echo", "{\"text\":\"x\"}").await);
    assert!(what.contains("table limit of 1 elements reached (`limits.table`)"), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spinning_guest_is_stopped_at_once() {
    let engine = engine(&settings());
    let catalog = only(&engine, "probe", "").await;
    let spin = tool(&catalog, "spin");
    for _ in 0..20 {
        let recorder = Arc::new(Recorder::default());
        let running = tokio::spawn(run(spin.clone(), FOR_EVER, recorder.clone()));
        eventually("it runs", || (engine.running() == 1).then_some(())).await;
        let asked = Instant::now();
        recorder.stop();
        spin.interrupt();
        assert_eq!(running.await.expect("no panic"), RunEnd::Stopped);
        assert!(asked.elapsed() < BOUND);
    }
    assert_eq!(engine.running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_is_stopped_before_it_begins_never_does() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let recorder = Arc::new(Recorder::default());
    recorder.stop();
    assert_eq!(run(tool(&catalog, "spin"), FOR_EVER, recorder).await, RunEnd::Stopped);
}

#[tokio::test]
async fn dropping_a_sleeping_guest_frees_all_that_it_holds() {
    let engine = engine(&settings());
    let catalog = only(&engine, "probe", "").await;
    for (name, arguments) in [("wait", FOR_EVER), ("ask", "{\"question\":\"x\"}")] {
        let recorder = Arc::new(Recorder { hangs: true, ..Recorder::default() });
        let mut run = start(&tool(&catalog, name), RawJson::trusted(arguments), recorder);
        assert!((&mut run).now_or_never().is_none(), "{name}");
        assert_eq!(engine.running(), 1);
        drop(run);
        assert_eq!(engine.running(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn spinning_guests_let_others_run() {
    let engine = engine(&Settings { max_runs: 8, ..settings() });
    let catalog = only(&engine, "probe", "").await;
    let recorders: Vec<Arc<Recorder>> = (0..4).map(|_| Arc::default()).collect();
    let spinning: Vec<_> = recorders
        .iter()
        .map(|recorder| tokio::spawn(run(tool(&catalog, "spin"), FOR_EVER, recorder.clone())))
        .collect();
    eventually("all run", || (engine.running() == 4).then_some(())).await;
    for _ in 0..10 {
        let quick =
            tokio::spawn(run(tool(&catalog, "echo"), "{\"text\":\"x\"}", Arc::new(Recorder::default())));
        assert_eq!(ok(&tokio::time::timeout(BOUND, quick).await.expect("in time").expect("no panic")), "x");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for recorder in &recorders {
        recorder.stop();
    }
    for run in spinning {
        assert_eq!(run.await.expect("no panic"), RunEnd::Stopped);
    }
}
