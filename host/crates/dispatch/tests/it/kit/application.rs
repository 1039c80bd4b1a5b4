//! An application over a store in memory, with tools written in Rust.

use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_dispatch::{Dispatch, Settings, Stores, Tasks};
use toolyard_kit::{SETTINGS, TickingClock, application, stores};
use toolyard_store::MemoryStore;
use toolyard_task::{TaskStore, Tool};

/// An application that keeps its tasks in `tasks` and everything else in `store`.
pub fn dispatch(
    store: &Arc<MemoryStore>,
    tasks: Arc<dyn TaskStore>,
    tools: Vec<Arc<dyn Tool>>,
) -> Arc<Dispatch> {
    application(SETTINGS, Stores { tasks, ..stores(store) }, TickingClock::at(1), tools)
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
