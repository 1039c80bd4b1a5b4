//! Keys in PostgreSQL are added and removed while hosts write.

use super::server::{self, Server};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls};
use toolyard_store::postgres::{PostgresLocation, PostgresOpenError};
use toolyard_store::{Backend, Keyring, PostgresOptions, PostgresStore, ReencryptionReport, SealWith};
use toolyard_store_contract::timeline::kinds;
use toolyard_store_contract::{created, eventually, finish, owner, result, task};
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::timeline::EventKind;
use toolyard_task::{StoreError, Task, TaskId, TaskStore as _};

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];
/// More tasks than one transaction writes.
const MANY: usize = 80;

/// The statement that a host's writer runs in each transaction that seals a value.
const SEALS: &str = "
    INSERT INTO seal (key, leaving) SELECT $1, false WHERE NOT EXISTS (SELECT 1 FROM seal WHERE key = $1 AND NOT leaving)
    ON CONFLICT (key) DO UPDATE SET leaving = false";

/// A separate schema.
struct Schema {
    server: &'static Server,
    name: String,
}

impl Schema {
    fn new() -> Option<Self> {
        let server = server::shared()?;
        Some(Self { server, name: server.schema() })
    }

    async fn try_open(&self, keys: &[[u8; 32]]) -> Result<Arc<PostgresStore>, PostgresOpenError> {
        let place = PostgresLocation::parse(&self.server.address(), &self.name)?;
        let keys = Keyring::new(keys.iter().copied());
        PostgresStore::open(place, PostgresOptions { readers: 2, keys, ..PostgresOptions::default() }).await
    }

    async fn open(&self, keys: &[[u8; 32]]) -> Arc<PostgresStore> {
        self.try_open(keys).await.expect("opens")
    }

    /// A start with these keys is refused; returns the missing key.
    async fn refuses(&self, keys: &[[u8; 32]]) {
        let error = self.try_open(keys).await.err().expect("is refused");
        assert!(matches!(error, PostgresOpenError::Sealed { .. }), "{error:?}");
        assert!(error.to_string().contains("encrypted with the key"), "{error}");
    }

    /// A connection that belongs to no host.
    async fn beside(&self) -> Client {
        let (client, driver) =
            tokio_postgres::connect(&self.server.address(), NoTls).await.expect("connects");
        // It ends when its client is dropped.
        tokio::spawn(async move { drop(driver.await) });
        client.batch_execute(&format!("SET search_path = {}", self.name)).await.expect("is set");
        client
    }

    async fn count(&self, sql: &str) -> i64 {
        self.beside().await.query_one(sql, &[]).await.expect("counts").get(0)
    }

    /// The keys that the schema lists as needed.
    async fn needed(&self) -> i64 {
        self.count("SELECT count(*) FROM seal").await
    }
}

async fn read(store: &PostgresStore, id: TaskId) -> Task {
    store.read(id, None).await.expect("reads").expect("is there").task
}

async fn all_read(store: &PostgresStore, tasks: &[Task]) {
    for task in tasks {
        assert_eq!(read(store, task.id).await, *task);
        assert_eq!(kinds(store, task.id).await[0], EventKind::Created);
    }
}

async fn reseal(store: &PostgresStore) -> ReencryptionReport {
    store.reseal(SealWith::Newest, &mut |_| {}).await.expect("is encrypted again")
}

/// This many tasks, every other one with an outcome.
async fn make(store: &PostgresStore, count: usize) -> Vec<Task> {
    let mut made = Vec::new();
    for number in 0..count {
        let new = created(store, task(&owner("a"))).await;
        made.push(if number % 2 == 0 { new } else { finish(store, &new, result()).await });
    }
    made
}

/// A host whose newest key is this one created these tasks and has ended.
async fn left(schema: &Schema, keys: &[[u8; 32]], count: usize) -> Vec<Task> {
    let store = schema.open(keys).await;
    let made = make(&store, count).await;
    store.shut_down().await;
    made
}

/// Its next version, which differs from the last only in the message.
fn next(task: &Task, message: &str) -> Task {
    Task { version: task.version + 1, status_message: Some(message.into()), ..task.clone() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_writes_all_anew_and_then_the_old_key_may_go() {
    let Some(schema) = Schema::new() else { return };
    let mut made = left(&schema, &[], 1).await;
    made.extend(left(&schema, &[OLD], MANY).await);
    let store = schema.open(&[NEW, OLD]).await;
    made.extend(make(&store, 1).await);
    assert_eq!(schema.needed().await, 2);
    let (all, anew) = (MANY as u64 + 2, MANY as u64 + 1);
    let mut seen = Vec::new();
    let done =
        store.reseal(SealWith::Newest, &mut |so_far| seen.push(so_far)).await.expect("is encrypted again");
    assert_eq!(done, ReencryptionReport { seen: all, written: anew, ..ReencryptionReport::default() });
    assert!(seen.is_sorted() && seen.last() == Some(&all), "{seen:?}");
    assert_eq!(schema.needed().await, 1);
    assert_eq!(schema.count("SELECT count(*) FROM task WHERE record LIKE '{%'").await, 0, "plain ones");
    assert_eq!(schema.count("SELECT count(*) FROM run_event WHERE get_byte(body, 0) <> 1").await, 0);
    all_read(&store, &made).await;
    assert_eq!(reseal(&store).await, ReencryptionReport { seen: all, ..ReencryptionReport::default() });
    store.shut_down().await;
    schema.refuses(&[OLD]).await;
    let store = schema.open(&[NEW]).await;
    all_read(&store, &made).await;
    let done = store.reseal(SealWith::Nothing, &mut |_| {}).await.expect("opens all");
    assert_eq!((done.written, done.needed.len()), (all, 0));
    store.shut_down().await;
    all_read(&*schema.open(&[]).await, &made).await;
}

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
    let interrupted = tokio::spawn({
        let store = store.clone();
        async move { store.reseal(SealWith::Newest, &mut |_| {}).await }
    });
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND query LIKE '%FOR UPDATE%' AND query LIKE '%ANY($1)%'";
    eventually("it waits for the row", async || schema.count(waits).await > 0).await;
    interrupted.abort();
    assert!(interrupted.await.expect_err("is ended").is_cancelled());
    busy.batch_execute("ROLLBACK").await.expect("lets go");
    assert_eq!(schema.needed().await, 2);
    schema.refuses(&[NEW]).await;
    all_read(&store, &made).await;
    let done = reseal(&store).await;
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
            now.extend(make(&host, 1).await);
        }
        host.shut_down().await;
        now
    });
    while !writing.is_finished() {
        assert_eq!(reseal(&store).await.unreadable, Vec::new());
    }
    let now = writing.await.expect("no panic");
    assert_eq!(reseal(&store).await.needed, Vec::new());
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &now).await;
}

/// A host that does not have the new key keeps running, and none of its values is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_somebody_still_seals_with_is_not_taken_out() {
    let Some(schema) = Schema::new() else { return };
    let (old, new) = (schema.open(&[OLD]).await, schema.open(&[NEW, OLD]).await);
    let before = created(&*old, task(&owner("a"))).await;
    let late = Mutex::new(None);
    let runtime = Handle::current();
    let mut meanwhile = |_| {
        if late.lock().expect("no section panics").is_some() {
            return;
        }
        // Behind the walk, which runs on this thread and has already passed this task.
        let changed = next(&before, "late");
        let commit = || runtime.block_on(old.commit(&changed, Records::default())).expect("commits");
        assert_eq!(
            std::thread::scope(|scope| scope.spawn(commit).join().expect("is done")),
            CommitStatus::Done
        );
        *late.lock().expect("no section panics") = Some(changed);
    };
    let done = tokio::task::block_in_place(|| runtime.block_on(new.reseal(SealWith::Newest, &mut meanwhile)));
    assert_eq!(done.expect("is encrypted again").needed.len(), 1, "the old key is needed still");
    let late = late.lock().expect("no section panics").take().expect("was made meanwhile");
    assert_eq!(schema.needed().await, 2);
    assert_eq!(read(&new, late.id).await, late);
    old.shut_down().await;
    let done = reseal(&new).await;
    assert_eq!((done.written, done.needed.len()), (1, 0));
    new.shut_down().await;
    assert_eq!(read(&*schema.open(&[NEW]).await, late.id).await, late);
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
    let resealing = tokio::spawn({
        let store = store.clone();
        async move { reseal(&store).await }
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'seal'::regclass";
    eventually("it waits", async || schema.count(waits).await > 0).await;
    slow.batch_execute("COMMIT").await.expect("commits");
    let done = resealing.await.expect("no panic");
    assert_eq!(done, ReencryptionReport { seen: 2, written: 2, ..ReencryptionReport::default() });
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &made).await;
}

/// The host started before anything was sealed with a key that it lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_here_has_the_key_of_is_named_and_left_and_its_key_stays() {
    let Some(schema) = Schema::new() else { return };
    let without = schema.open(&[NEW]).await;
    let (foreign, plain) = (left(&schema, &[OLD], 1).await, make(&without, 1).await);
    let error = without.read(foreign[0].id, None).await.expect_err("cannot be read");
    let StoreError::Corrupt(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("is not among those of this process"), "{source}");
    for with in [SealWith::Newest, SealWith::Nothing] {
        let done = without.reseal(with, &mut |_| {}).await.expect("goes on");
        assert_eq!((done.seen, &done.unreadable), (2, &vec![foreign[0].id]), "{with:?}");
        // When values are decrypted, the host's own key stays as well.
        assert_eq!(done.needed.len(), if with == SealWith::Newest { 1 } else { 2 });
    }
    without.shut_down().await;
    schema.refuses(&[NEW]).await;
    let store = schema.open(&[NEW, OLD]).await;
    all_read(&store, &[&foreign[..], &plain[..]].concat()).await;
    assert_eq!(reseal(&store).await.needed, Vec::new());
    store.shut_down().await;
    all_read(&*schema.open(&[NEW]).await, &foreign).await;
}

/// An interrupted removal of this key, which the operator has since abandoned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_was_left_on_the_key_that_is_to_stay_does_not_take_it_out() {
    let Some(schema) = Schema::new() else { return };
    left(&schema, &[OLD], 1).await;
    schema.beside().await.batch_execute("UPDATE seal SET leaving = true").await.expect("marks");
    let store = schema.open(&[OLD]).await;
    assert_eq!(reseal(&store).await, ReencryptionReport { seen: 1, ..ReencryptionReport::default() });
    assert_eq!(schema.needed().await, 1);
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
    let done = tokio::time::timeout(Duration::from_secs(30), reseal(&store)).await.expect("has its turn");
    assert_eq!((done.written, done.needed.len()), (1, 0));
    all_read(&store, &made).await;
}
