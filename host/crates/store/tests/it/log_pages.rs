//! How much a change of tasks writes to the log of the SQLite file. `benches/commit.rs` measures the seconds.

use futures_util::future::join_all;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{ManualClock, START, created, finish, owner, result, task};

/// Creates so many tasks together, and ends them together.
async fn create_and_end(store: &SqliteStore, tasks: usize) {
    let made = join_all((0..tasks).map(|_| created(store, task(&owner("a"))))).await;
    join_all(made.iter().map(|made| finish(store, made, result()))).await;
}

/// A store with so many ended tasks, whose log is empty.
async fn filled(clock: &Arc<ManualClock>, tasks: usize) -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(clock.clone())).expect("opens");
    for _ in 0..tasks / 500 {
        create_and_end(&store, 500).await;
        clock.advance(60_000);
    }
    let on = rusqlite::Connection::open(folder.path().join("toolyard.sqlite")).expect("opens");
    on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("copies the log back");
    (folder, store)
}

fn log_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("toolyard.sqlite-wal")).expect("is there").len()
}

#[tokio::test]
async fn a_burst_writes_little_more_beside_many_tasks_than_in_an_empty_store() {
    let clock = ManualClock::at(START);
    let mut written = Vec::new();
    for stored in [0, 4_000] {
        let (folder, store) = filled(&clock, stored).await;
        create_and_end(&store, 100).await;
        written.push(log_bytes(folder.path()));
        store.clone().shut_down().await;
    }
    // Ids are random, so each new one is on a page of its own in the two indexes of ids.
    assert!(written[1] < written[0] * 3, "bytes of log in an empty store and beside tasks: {written:?}");
}
