//! The store in PostgreSQL when the server crashes during commits: acknowledged changes survive.

#[path = "../../../../tests/src/postgres.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod server;

use server::{Flushing, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{Backend, PostgresOptions, PostgresStore};
use toolyard_store_contract::{AMPLE, owner, task};
use toolyard_task::store::{CreateError, Records, TaskStore as _};
use toolyard_task::{StoreError, Task};

/// Crashes, each with one commit under way.
const CRASHES: usize = 8;
/// Transactions of another host after each crash.
const AFTER: usize = 8;
/// Whether a transaction is at its commit.
const COMMITTING: &str = "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'";
/// A pause in which no client writes.
const QUIET: Duration = Duration::from_millis(200);
/// However slow the machine, the server is back within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// After a crash, the server reuses the numbers of transactions that had left no trace on the disk.
/// The outcome of the later transaction must not be mistaken for that of the earlier one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_the_commit_makes_nobody_take_the_commit_of_another_for_its_own() {
    let Some((server, place)) = slow_server().await else { return };
    let options = PostgresOptions { patience: PATIENCE, ..PostgresOptions::default() };
    let open = || PostgresStore::open(place.clone(), options.clone());
    let (one, other) = (open().await.expect("opens"), open().await.expect("opens"));
    let me = owner("one");
    let mut undecided = 0;
    for crash in 0..CRASHES {
        // By then, the hints about earlier changes have reached the disk.
        tokio::time::sleep(QUIET).await;
        let new = task(&me);
        let id = new.id;
        let creating = crash_at_commit(&server, &one, new).await;
        undecided += usize::from(!creating.is_finished());
        begin(&server).await;
        for _ in 0..AFTER {
            other.create(task(&me), AMPLE, Records::default()).await.expect("it is back");
        }
        let acknowledged = creating.await.expect("no panic").is_ok();
        let there = other.read(id, None).await.expect("reads").is_some();
        assert_eq!(acknowledged, there, "crash {crash}: acknowledged, and there");
    }
    assert!(undecided > 0, "no crash came in the midst of a commit");
    one.shut_down().await;
    other.shut_down().await;
}

/// If the server does not come back after a request to commit, the outcome is unknown: the caller
/// must not be told that nothing was written. A transaction that did not begin was not written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_nobody_can_be_asked_about_is_undecided() {
    let Some((server, place)) = slow_server().await else { return };
    let options = PostgresOptions { patience: Duration::from_secs(1), ..PostgresOptions::default() };
    let store = PostgresStore::open(place, options).await.expect("opens");
    let me = owner("one");
    let mut undecided = false;
    for _ in 0..CRASHES {
        let created = crash_at_commit(&server, &store, task(&me)).await.await.expect("no panic");
        undecided |= matches!(created, Err(CreateError::Store(StoreError::Undecided(_))));
        let refused = store.create(task(&me), AMPLE, Records::default()).await;
        assert!(matches!(refused, Err(CreateError::Store(StoreError::Unavailable(_)))), "{refused:?}");
        begin(&server).await;
        if undecided {
            break;
        }
    }
    assert!(undecided, "no crash came in the midst of a commit");
    store.shut_down().await;
}

/// Kills the server when the creation of this task is at its commit, or has ended before.
async fn crash_at_commit(
    server: &Arc<Server>,
    store: &Arc<PostgresStore>,
    new: Task,
) -> JoinHandle<Result<Task, CreateError>> {
    let watch = connect(server).await;
    let store = store.clone();
    let creating = tokio::spawn(async move { store.create(new, AMPLE, Records::default()).await });
    while !creating.is_finished() && watch.query(COMMITTING, &[]).await.expect("answers").is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let crashed = server.clone();
    tokio::task::spawn_blocking(move || crashed.kill()).await.expect("it ends");
    creating
}

async fn begin(server: &Arc<Server>) {
    let crashed = server.clone();
    tokio::task::spawn_blocking(move || crashed.begin()).await.expect("it begins again");
}

/// A server that delays each commit before its flush and prevents other flushes meanwhile, with a place in it.
async fn slow_server() -> Option<(Arc<Server>, PostgresLocation)> {
    let server = Arc::new(Server::start(Flushing::On)?);
    let client = connect(&server).await;
    for setting in ["commit_delay = 100000", "commit_siblings = 0", "wal_writer_delay = '10s'"] {
        client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("is set");
    }
    client.batch_execute("SELECT pg_reload_conf()").await.expect("is read");
    let place = PostgresLocation::parse(&server.address(), &server.schema()).expect("an address");
    Some((server, place))
}

async fn connect(server: &Server) -> Client {
    let (client, driver) = tokio_postgres::connect(&server.address(), NoTls).await.expect("connects");
    // It ends when its client is dropped or the server ends.
    tokio::spawn(async move { drop(driver.await) });
    client
}
