//! An application over a store in memory, with tools written in Rust.

use futures_util::FutureExt as _;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolyard_dispatch::search::{Direction, Filter};
use toolyard_dispatch::{Bounds, Caller, Dispatch, NoClientChannel, Settings, Stores, Summary, Task, Tasks};
use toolyard_kit::{SETTINGS, TickingClock, application, memory, stores};
use toolyard_store::MemoryStore;
use toolyard_task::{AuditStore as _, TaskStore, Tool};

/// With room for this many runs.
pub fn running(running: u32) -> Settings {
    Settings { admission: Bounds { running, ..SETTINGS.admission }, ..SETTINGS }
}

/// An application that keeps its tasks in `tasks` and everything else in `store`.
pub fn dispatch(
    store: &Arc<MemoryStore>,
    tasks: Arc<dyn TaskStore>,
    tools: Vec<Arc<dyn Tool>>,
) -> Arc<Dispatch> {
    application(SETTINGS, Stores { tasks, ..stores(store) }, TickingClock::at(1), tools)
}

/// An application with a store of its own.
pub fn in_memory(tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    dispatch_by(SETTINGS, &memory(), tools)
}

/// An application that keeps everything in this store.
pub fn dispatch_by(settings: Settings, store: &Arc<MemoryStore>, tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    application(settings, stores(store), TickingClock::at(1), tools)
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The tasks of a dispatcher.
pub async fn tasks_of(dispatch: &Dispatch) -> &Arc<Tasks> {
    dispatch.tasks().await.expect("recovers")
}

/// A task of this caller.
pub async fn task_of(dispatch: &Dispatch, caller: &Caller, id: &str) -> Task {
    tasks_of(dispatch).await.task(caller, id).await.expect("found")
}

/// The tasks of this caller.
pub async fn listed(dispatch: &Dispatch, caller: &Caller) -> Vec<Summary> {
    let tasks = tasks_of(dispatch).await;
    let found = tasks.find_tasks(caller, Filter::default(), Direction::Ascending, None, 1_000).await;
    found.expect("lists").tasks
}

/// The lines of the audit log, in order.
pub async fn audit_lines(store: &MemoryStore) -> Vec<Value> {
    let batches = store.pending(10_000).await.expect("answers");
    let lines = batches.iter().flat_map(|batch| &batch.lines);
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Waits until a task of this caller is so, and returns it.
pub async fn until(
    dispatch: &Dispatch,
    caller: &Caller,
    id: &str,
    what: &str,
    holds: impl Fn(&Task) -> bool,
) -> Task {
    let seen = Mutex::new(None);
    eventually(what, || {
        let read = async { dispatch.tasks().await?.task(caller, id).await };
        let now = read.now_or_never().and_then(Result::ok);
        let fits = now.as_ref().is_some_and(&holds);
        *seen.lock().expect("no panic") = now;
        fits
    })
    .await;
    seen.into_inner().expect("no panic").expect("just seen")
}

/// The result of a task, which must have one.
pub async fn result_of(dispatch: &Dispatch, caller: &Caller, id: &str) -> String {
    let result = tasks_of(dispatch).await.task_result(caller, id, Arc::new(NoClientChannel));
    let result = tokio::time::timeout(Duration::from_secs(30), result).await.expect("ends");
    result.expect("a task").expect("a result").as_str().to_owned()
}

/// Does what is due on this host until the guard is dropped.
pub fn keep_time(dispatch: &Arc<Dispatch>) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(dispatch.clone().keep_time(stop.clone()));
    stop.drop_guard()
}

/// The same, and keeps the lease.
pub fn serve(dispatch: &Arc<Dispatch>) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(dispatch.clone().keep_time(stop.clone()));
    tokio::spawn(dispatch.clone().keep_lease(stop.clone()));
    stop.drop_guard()
}
