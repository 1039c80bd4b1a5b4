//! Keys in PostgreSQL are added and removed while hosts write.

use super::Schema;
use crate::keys::{MANY, NEW, OLD, Place, all_read, keys_tests, left, make, next, reseal};
use std::sync::Arc;
use std::time::Duration;
use toolyard_store::{Backend, Keyring, PostgresOptions, PostgresStore, ReencryptionReport, SealWith};
use toolyard_store_contract::eventually;
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::{StoreError, TaskId};

/// The statement that a host's writer runs in each transaction that seals a value.
const SEALS: &str = "
    INSERT INTO seal (key, leaving) SELECT $1, false WHERE NOT EXISTS (SELECT 1 FROM seal WHERE key = $1 AND NOT leaving)
    ON CONFLICT (key) DO UPDATE SET leaving = false";

impl Place for Schema {
    const IS_PLAIN: &'static str = "get_byte(body, 0) <> 1";

    async fn try_open(&self, keys: &[[u8; 32]]) -> Result<Arc<dyn Backend>, String> {
        let keys = Keyring::new(keys.iter().copied());
        let options = PostgresOptions { readers: 2, keys, ..PostgresOptions::default() };
        let opened = PostgresStore::open(self.place.clone(), options).await;
        opened.map(|store| store as Arc<dyn Backend>).map_err(|error| error.to_string())
    }

    async fn run(&self, sql: &str) {
        self.beside().await.batch_execute(sql).await.expect("is done");
    }

    async fn count(&self, sql: &str) -> i64 {
        self.beside().await.query_one(sql, &[]).await.expect("counts").get(0)
    }

    fn named(&self, id: TaskId) -> String {
        format!("'{id}'")
    }
}

keys_tests!(Schema::new());

/// It is ended while it waits for a row, in the middle of a transaction that has written other
/// rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_interrupted_goes_on_with_the_rest_and_the_old_key_stays_until_then() {
    let Some(schema) = Schema::new() else { return };
    let made = left(&schema, &[OLD], MANY).await;
    let store = schema.open(&[NEW, OLD]).await;
    let busy = schema.beside().await;
    let last = "BEGIN; SELECT FROM task WHERE id = (SELECT max(id::text)::uuid FROM task) FOR UPDATE";
    busy.batch_execute(last).await.expect("locks");
    let resealing = store.clone();
    let interrupted = tokio::spawn(async move { resealing.reseal(SealWith::Newest, &mut |_| {}).await });
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND query LIKE '%FOR UPDATE%' AND query LIKE '%ANY($1)%'";
    eventually("it waits for the row", async || schema.count(waits).await > 0).await;
    interrupted.abort();
    assert!(interrupted.await.expect_err("is ended").is_cancelled());
    busy.batch_execute("ROLLBACK").await.expect("lets go");
    assert_eq!(schema.needed().await, 2);
    schema.refuses(&[NEW]).await;
    all_read(&*store, &made).await;
    let done = reseal(&*store, SealWith::Newest).await;
    assert_eq!((done.seen, done.written), (MANY as u64, MANY as u64 - 64), "the first transaction stands");
    assert_eq!((done.unreadable, done.needed), (Vec::new(), Vec::new()));
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &made).await;
}

/// Hosts that have both keys keep running; none of their changes is refused because of the
/// re-encryption.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_change_and_create_tasks_meanwhile_and_find_nothing_stale() {
    let Some(schema) = Schema::new() else { return };
    let made = left(&schema, &[OLD], MANY).await;
    let (store, host) = (schema.open(&[NEW, OLD]).await, schema.open(&[NEW, OLD]).await);
    let writing = tokio::spawn(async move {
        let mut now = Vec::new();
        for task in made {
            let mut task = task;
            for message in ["one", "two"] {
                task = next(&task, message);
                let committed = host.commit(&task, Records::default()).await.expect("commits");
                assert_eq!(committed, CommitStatus::Done);
            }
            now.push(task);
            now.extend(make(&*host, 1).await);
        }
        host.shut_down().await;
        now
    });
    while !writing.is_finished() {
        assert_eq!(reseal(&*store, SealWith::Newest).await.unreadable, Vec::new());
    }
    let now = writing.await.expect("no panic");
    assert_eq!(reseal(&*store, SealWith::Newest).await.needed, Vec::new());
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &now).await;
}

/// A transaction that found the old key unmarked commits a task late: the walk does not miss it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_begins_when_all_who_seal_with_an_unmarked_key_are_done() {
    let Some(schema) = Schema::new() else { return };
    let made = left(&schema, &[OLD], 2).await;
    let store = schema.open(&[NEW, OLD]).await;
    let slow = schema.beside().await;
    let away = "CREATE TEMPORARY TABLE away AS SELECT * FROM task; DELETE FROM task; BEGIN";
    slow.batch_execute(away).await.expect("are put away");
    let old: Vec<u8> = slow.query_one("SELECT key FROM seal", &[]).await.expect("reads").get(0);
    slow.execute(SEALS, &[&old]).await.expect("has nothing to do");
    slow.batch_execute("INSERT INTO task SELECT * FROM away").await.expect("are put back");
    let other = store.clone();
    let resealing = tokio::spawn(async move { reseal(&*other, SealWith::Newest).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'seal'::regclass";
    eventually("it waits", async || schema.count(waits).await > 0).await;
    slow.batch_execute("COMMIT").await.expect("commits");
    let done = resealing.await.expect("no panic");
    assert_eq!(done, ReencryptionReport { seen: 2, written: 2, ..ReencryptionReport::default() });
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &made).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_do_it_at_a_time() {
    let Some(schema) = Schema::new() else { return };
    let made = left(&schema, &[OLD], 1).await;
    let store = schema.open(&[NEW, OLD]).await;
    let other = schema.beside().await;
    let turn = "BEGIN; LOCK TABLE turn_reseal IN SHARE UPDATE EXCLUSIVE MODE";
    other.batch_execute(turn).await.expect("takes its turn");
    let error = store.reseal(SealWith::Newest, &mut |_| {}).await.expect_err("is refused");
    let StoreError::Unavailable(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("another process"), "{source}");
    drop(other);
    // The test waits, because the server notices this a moment later.
    let resealing = reseal(&*store, SealWith::Newest);
    let done = tokio::time::timeout(Duration::from_secs(30), resealing).await.expect("has its turn");
    assert_eq!((done.written, done.needed.len()), (1, 0));
    all_read(&*store, &made).await;
}
