//! Limits that `attacks` does not meet, runs that are stopped, and runs that share a thread.

use crate::kit::{Recorder, call, engine, eventually, ok, only, run, settings, tool};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::Settings;
use toolyard_task::RunEnd;

/// Far longer than any test waits.
const FOR_EVER: &str = "{\"ms\":86400000}";

#[tokio::test]
async fn sleeping_uses_no_processor_time() {
    let catalog = only(&engine(&settings()), "probe", "[limits]\ncpu = \"50ms\"").await;
    assert_eq!(ok(&call(&catalog, "wait", "{\"ms\":200}").await), "waited 200 ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_is_stopped_before_it_begins_never_does() {
    let catalog = only(&engine(&settings()), "probe", "").await;
    let recorder = Arc::new(Recorder::default());
    recorder.stop();
    assert_eq!(run(tool(&catalog, "spin"), FOR_EVER, recorder).await, RunEnd::Stopped);
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
        let catalog = catalog.clone();
        let quick = tokio::spawn(async move { call(&catalog, "echo", "{\"text\":\"x\"}").await });
        assert_eq!(ok(&quick.await.expect("no panic")), "x");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for recorder in &recorders {
        recorder.stop();
    }
    for run in spinning {
        assert_eq!(run.await.expect("no panic"), RunEnd::Stopped);
    }
}
