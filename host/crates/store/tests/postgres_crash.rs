//! The store in PostgreSQL, whose server crashes in the midst of commits: what was
//! acknowledged is there.

#[path = "../../../../tests/src/postgres.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod server;

use server::{Flushing, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};
use toolyard_store::contract::{AMPLE, owner, task};
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{PostgresOptions, PostgresStore};
use toolyard_task::store::{CreateError, StoreError, TaskStore as _};

/// Crashes, each with one commit under way.
const CRASHES: usize = 8;
/// Transactions of another host after each.
const AFTER: usize = 8;
/// A transaction is at its commit.
const COMMITTING: &str = "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'";
/// No client writes for so long.
const QUIET: Duration = Duration::from_millis(200);
/// However slow the machine, the server is back within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A crash forgets the numbers of transactions of which nothing had reached the disk, and gives
/// them to others. The fate of those must not be mistaken for the fate of one's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_the_commit_makes_nobody_take_the_commit_of_another_for_its_own() {
    let Some(server) = Server::start(Flushing::On) else { return };
    let server = Arc::new(server);
    slow_down(&server).await;
    let place = PostgresLocation::parse(&server.address(), &server.schema()).expect("an address");
    let options = PostgresOptions { patience: PATIENCE, ..PostgresOptions::default() };
    let open = || PostgresStore::open(place.clone(), options.clone());
    let (one, other) = (open().await.expect("opens"), open().await.expect("opens"));
    let me = owner("one");
    let mut undecided = 0;
    for crash in 0..CRASHES {
        // The hints about earlier changes have reached the disk by then.
        tokio::time::sleep(QUIET).await;
        let watch = connect(&server).await;
        let new = task(&me);
        let id = new.id;
        let creating = tokio::spawn({
            let one = one.clone();
            async move { one.create(new, AMPLE, Vec::new()).await }
        });
        while !creating.is_finished() && watch.query(COMMITTING, &[]).await.expect("answers").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let crashed = server.clone();
        tokio::task::spawn_blocking(move || crashed.kill()).await.expect("it ends");
        undecided += usize::from(!creating.is_finished());
        let crashed = server.clone();
        tokio::task::spawn_blocking(move || crashed.begin()).await.expect("it begins again");
        for _ in 0..AFTER {
            other.create(task(&me), AMPLE, Vec::new()).await.expect("it is back");
        }
        let acknowledged = creating.await.expect("no panic").is_ok();
        let there = other.read(id, None).await.expect("reads").is_some();
        assert_eq!(acknowledged, there, "crash {crash}: acknowledged, and there");
    }
    assert!(undecided > 0, "no crash came in the midst of a commit");
    one.shut_down().await;
    other.shut_down().await;
}

/// A server that stays away after a request to commit has said nothing: its caller must not hear
/// that nothing was written. A transaction that did not begin was not written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_nobody_can_be_asked_about_is_undecided() {
    let Some(server) = Server::start(Flushing::On) else { return };
    let server = Arc::new(server);
    slow_down(&server).await;
    let place = PostgresLocation::parse(&server.address(), &server.schema()).expect("an address");
    let options = PostgresOptions { patience: Duration::from_secs(1), ..PostgresOptions::default() };
    let store = PostgresStore::open(place, options).await.expect("opens");
    let me = owner("one");
    let mut undecided = false;
    for _ in 0..CRASHES {
        let watch = connect(&server).await;
        let creating = tokio::spawn({
            let (store, new) = (store.clone(), task(&me));
            async move { store.create(new, AMPLE, Vec::new()).await }
        });
        while !creating.is_finished() && watch.query(COMMITTING, &[]).await.expect("answers").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let crashed = server.clone();
        tokio::task::spawn_blocking(move || crashed.kill()).await.expect("it ends");
        let created = creating.await.expect("no panic");
        undecided |= matches!(created, Err(CreateError::Store(StoreError::Undecided(_))));
        let refused = store.create(task(&me), AMPLE, Vec::new()).await;
        assert!(matches!(refused, Err(CreateError::Store(StoreError::Unavailable(_)))), "{refused:?}");
        let crashed = server.clone();
        tokio::task::spawn_blocking(move || crashed.begin()).await.expect("it begins again");
        if undecided {
            break;
        }
    }
    assert!(undecided, "no crash came in the midst of a commit");
    store.shut_down().await;
}

/// Delays each commit before its flush, and keeps other flushes away meanwhile.
async fn slow_down(server: &Server) {
    let client = connect(server).await;
    for setting in ["commit_delay = 100000", "commit_siblings = 0", "wal_writer_delay = '10s'"] {
        client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("is set");
    }
    client.batch_execute("SELECT pg_reload_conf()").await.expect("is read");
}

async fn connect(server: &Server) -> Client {
    let (client, driver) = tokio_postgres::connect(&server.address(), NoTls).await.expect("connects");
    // It ends when its client is gone, or the server.
    tokio::spawn(async move { drop(driver.await) });
    client
}
