//! Promises to hosts whose keys are added and removed, and to readers of journals that others have changed; for each
//! store that encrypts.

use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use toolyard_store::{Backend, ReencryptionReport, SealWith};
use toolyard_store_contract::journal::{FENCE, append, chunk, recorded};
use toolyard_store_contract::timeline::kinds;
use toolyard_store_contract::{created, finish, owner, read, result, task};
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush};
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::timeline::EventKind;
use toolyard_task::{StoreError, Task, TaskId};

pub const OLD: [u8; 32] = [1; 32];
pub const NEW: [u8; 32] = [2; 32];
/// More tasks than one transaction writes.
pub const MANY: usize = 80;

/// The place of a store, which can be opened with other keys.
pub trait Place {
    /// Whether a body is plain, in SQL.
    const IS_PLAIN: &'static str;

    /// Opens it for a host with these keys, the newest first. Returns the message if it is refused.
    async fn try_open(&self, keys: &[[u8; 32]]) -> Result<Arc<dyn Backend>, String>;

    /// Runs a statement beside the hosts.
    async fn run(&self, sql: &str);

    /// The number that a query beside the hosts returns.
    async fn count(&self, sql: &str) -> i64;

    /// The name of a task in the tables of journals, in SQL.
    fn named(&self, id: TaskId) -> String;

    async fn open(&self, keys: &[[u8; 32]]) -> Arc<dyn Backend> {
        self.try_open(keys).await.expect("opens")
    }

    async fn refuses(&self, keys: &[[u8; 32]]) {
        let error = self.try_open(keys).await.err().expect("is refused");
        assert!(error.contains("encrypted with the key"), "{error}");
    }

    /// The number of keys that the store lists as needed.
    async fn needed(&self) -> i64 {
        self.count("SELECT count(*) FROM seal").await
    }
}

/// Makes one test of each promise. Takes an expression that gives a new [`Place`], or `None` without a server.
macro_rules! keys_tests {
    ($place:expr) => {
        $crate::keys::keys_tests! { $place;
            a_rotation_writes_all_anew_and_then_the_old_key_may_go
            a_key_that_somebody_still_seals_with_is_not_taken_out
            what_nobody_here_has_the_key_of_is_named_and_left_and_its_key_stays
            a_mark_that_was_left_on_the_key_that_is_to_stay_does_not_take_it_out
            damage_in_a_chunk_is_noticed_and_never_passed_on
            chunks_are_encrypted_again
        }
    };
    ($place:expr; $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let Some(place) = $place else { return };
                $crate::keys::$promise(place).await;
            }
        )*
    };
}
pub(crate) use keys_tests;

pub async fn all_read(store: &dyn Backend, tasks: &[Task]) {
    for task in tasks {
        assert_eq!(read(store, task.id).await, *task);
        assert_eq!(kinds(store, task.id).await[0], EventKind::Created);
    }
}

pub async fn reseal(store: &dyn Backend, with: SealWith) -> ReencryptionReport {
    store.reseal(with, &mut |_| {}).await.expect("is encrypted again")
}

/// This many tasks, every other one with an outcome.
pub async fn make(store: &dyn Backend, count: usize) -> Vec<Task> {
    let mut made = Vec::new();
    for number in 0..count {
        let new = created(store, task(&owner("a"))).await;
        made.push(if number % 2 == 0 { new } else { finish(store, &new, result()).await });
    }
    made
}

/// A host whose newest key is this one created these tasks and has ended.
pub async fn left(place: &impl Place, keys: &[[u8; 32]], count: usize) -> Vec<Task> {
    let store = place.open(keys).await;
    let made = make(&*store, count).await;
    store.shut_down().await;
    made
}

/// Its next version, which differs from the last only in the message.
pub fn next(task: &Task, message: &str) -> Task {
    Task { version: task.version + 1, status_message: Some(message.into()), ..task.clone() }
}

/// A task with this many chunks.
pub async fn journal(store: &dyn Backend, chunks: u32) -> (TaskId, Vec<Chunk>) {
    let made = created(store, recorded(&owner("a"), FENCE)).await;
    let chunks: Vec<Chunk> = (0..chunks).map(|number| chunk(number, 300)).collect();
    assert_eq!(append(store, made.id, FENCE, 0, &chunks).await, Appended::Done);
    (made.id, chunks)
}

pub async fn a_rotation_writes_all_anew_and_then_the_old_key_may_go<P: Place>(place: P) {
    let mut made = left(&place, &[], 1).await;
    made.extend(left(&place, &[OLD], MANY).await);
    let store = place.open(&[NEW, OLD]).await;
    all_read(&*store, &made).await;
    made.extend(make(&*store, 1).await);
    assert_eq!(place.needed().await, 2);
    let (all, anew) = (MANY as u64 + 2, MANY as u64 + 1);
    let mut seen = Vec::new();
    let done = store.reseal(SealWith::Newest, &mut |so_far| seen.push(so_far)).await.expect("is done");
    assert_eq!(done, ReencryptionReport { seen: all, written: anew, ..ReencryptionReport::default() });
    assert!(seen.is_sorted() && seen.last() == Some(&all), "{seen:?}");
    assert_eq!(place.needed().await, 1);
    assert_eq!(place.count("SELECT count(*) FROM task WHERE record LIKE '{%'").await, 0, "plain ones");
    assert_eq!(place.count(&format!("SELECT count(*) FROM run_event WHERE {}", P::IS_PLAIN)).await, 0);
    all_read(&*store, &made).await;
    let again = reseal(&*store, SealWith::Newest).await;
    assert_eq!(again, ReencryptionReport { seen: all, ..ReencryptionReport::default() });
    store.shut_down().await;
    place.refuses(&[OLD]).await;
    let store = place.open(&[NEW]).await;
    all_read(&*store, &made).await;
    let done = reseal(&*store, SealWith::Nothing).await;
    assert_eq!((done.written, done.needed.len()), (all, 0));
    store.shut_down().await;
    all_read(&*place.open(&[]).await, &made).await;
}

/// A host that does not have the new key keeps running, and none of its values is lost.
pub async fn a_key_that_somebody_still_seals_with_is_not_taken_out(place: impl Place) {
    let (old, new) = (place.open(&[OLD]).await, place.open(&[NEW, OLD]).await);
    let before = created(&*old, task(&owner("a"))).await;
    let late = Mutex::new(None);
    let runtime = Handle::current();
    let mut meanwhile = |_| {
        let mut late = late.lock().expect("no section panics");
        if late.is_some() {
            return;
        }
        // Behind the walk, which runs on this thread and has already passed this task.
        let changed = next(&before, "late");
        let commit = || runtime.block_on(old.commit(&changed, Records::default())).expect("commits");
        let committed = std::thread::scope(|scope| scope.spawn(commit).join().expect("is done"));
        assert_eq!(committed, CommitStatus::Done);
        *late = Some(changed);
    };
    let done = tokio::task::block_in_place(|| runtime.block_on(new.reseal(SealWith::Newest, &mut meanwhile)));
    assert_eq!(done.expect("is encrypted again").needed.len(), 1, "the old key is needed still");
    let late = late.lock().expect("no section panics").take().expect("was made meanwhile");
    assert_eq!(place.needed().await, 2);
    assert_eq!(read(&*new, late.id).await, late);
    old.shut_down().await;
    let done = reseal(&*new, SealWith::Newest).await;
    assert_eq!((done.written, done.needed.len()), (1, 0));
    new.shut_down().await;
    assert_eq!(read(&*place.open(&[NEW]).await, late.id).await, late);
}

/// The host started before anything was sealed with a key that it lacks. It serves the rest.
pub async fn what_nobody_here_has_the_key_of_is_named_and_left_and_its_key_stays(place: impl Place) {
    let without = place.open(&[NEW]).await;
    let (foreign, own) = (left(&place, &[OLD], 1).await, make(&*without, 1).await);
    let error = without.read(foreign[0].id, None).await.expect_err("cannot be read");
    let StoreError::Corrupt(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("is not among those of this process"), "{source}");
    all_read(&*without, &own).await;
    for with in [SealWith::Newest, SealWith::Nothing] {
        let done = reseal(&*without, with).await;
        assert_eq!((done.seen, &done.unreadable), (2, &vec![foreign[0].id]), "{with:?}");
        // When values are decrypted, the host's own key stays as well.
        assert_eq!(done.needed.len(), if with == SealWith::Newest { 1 } else { 2 });
    }
    without.shut_down().await;
    place.refuses(&[NEW]).await;
    let store = place.open(&[NEW, OLD]).await;
    all_read(&*store, &[&foreign[..], &own[..]].concat()).await;
    assert_eq!(reseal(&*store, SealWith::Newest).await.needed, Vec::new());
    store.shut_down().await;
    all_read(&*place.open(&[NEW]).await, &foreign).await;
}

/// An interrupted removal of this key, which the operator has since abandoned.
pub async fn a_mark_that_was_left_on_the_key_that_is_to_stay_does_not_take_it_out(place: impl Place) {
    left(&place, &[OLD], 1).await;
    place.run("UPDATE seal SET leaving = NOT leaving").await;
    let store = place.open(&[OLD]).await;
    let done = reseal(&*store, SealWith::Newest).await;
    assert_eq!(done, ReencryptionReport { seen: 1, ..ReencryptionReport::default() });
    assert_eq!(place.needed().await, 1);
}

/// Changes of chunks that are made behind the store's back, each with the first number whose reader notices it.
const DAMAGE: [(u32, &str, &str); 7] = [
    (0, "a shortened chunk", "{set} substr(body, 1, 100) WHERE {mine} AND number = 2"),
    (0, "a chunk without its beginning", "{set} substr(body, 2) WHERE {mine} AND number = 1"),
    (0, "an empty chunk", "{set} substr(body, 1, 0) WHERE {mine} AND number = 0"),
    (0, "no chunk", "DELETE FROM journal_chunk WHERE {mine} AND number = 1"),
    // A reader that stops before it cannot notice.
    (3, "no last chunk", "DELETE FROM journal_chunk WHERE {mine} AND number = 3"),
    // Only the encryption notices these: each chunk is one that the store wrote.
    (
        0,
        "swapped chunks",
        "{set} (SELECT body FROM kept WHERE kept.task = journal_chunk.task AND kept.number = 1 - journal_chunk.number)
         WHERE {mine} AND number < 2",
    ),
    (
        0,
        "a chunk of another task",
        "{set} (SELECT body FROM kept WHERE kept.task <> journal_chunk.task AND kept.number = journal_chunk.number)
         WHERE {mine} AND number = 2",
    ),
];

pub async fn damage_in_a_chunk_is_noticed_and_never_passed_on(place: impl Place) {
    for (keys, damage) in [(&[][..], &DAMAGE[..5]), (&[NEW][..], &DAMAGE)] {
        let store = place.open(keys).await;
        let ((id, chunks), (other, others)) = (journal(&*store, 4).await, journal(&*store, 4).await);
        let of_both = format!("task IN ({}, {})", place.named(id), place.named(other));
        place.run(&format!("CREATE TABLE kept AS SELECT * FROM journal_chunk WHERE {of_both}")).await;
        for (from, what, sql) in damage {
            let sql = sql.replace("{set}", "UPDATE journal_chunk SET body =");
            place.run(&sql.replace("{mine}", &format!("task = {}", place.named(id)))).await;
            let found = store.chunks(id, *from, u64::MAX).await;
            assert!(matches!(found, Err(StoreError::Corrupt(_))), "{what}: {found:?}");
            let again = ChunkWrite::Append(Flush::Now);
            let repeated = store.write_chunks(id, FENCE, 0, chunks.clone(), again).await;
            assert!(!matches!(repeated, Ok(Appended::Done)), "{what}: {repeated:?}");
            assert_eq!(store.chunks(other, 0, u64::MAX).await.expect("reads"), others, "{what}");
            place.run(&format!("DELETE FROM journal_chunk WHERE {of_both}")).await;
            place.run("INSERT INTO journal_chunk SELECT * FROM kept").await;
            assert_eq!(store.chunks(id, 0, u64::MAX).await.expect("reads"), chunks, "{what}");
        }
        place.run("DROP TABLE kept").await;
        store.shut_down().await;
    }
}

pub async fn chunks_are_encrypted_again<P: Place>(place: P) {
    let plain = place.open(&[]).await;
    let first = journal(&*plain, 4).await;
    plain.shut_down().await;
    let old = place.open(&[OLD]).await;
    // More than one transaction writes.
    let second = journal(&*old, 600).await;
    old.shut_down().await;
    let store = place.open(&[NEW, OLD]).await;
    let done = reseal(&*store, SealWith::Newest).await;
    assert_eq!(done, ReencryptionReport { seen: 2, written: 2, ..ReencryptionReport::default() });
    assert_eq!(place.count(&format!("SELECT count(*) FROM journal_chunk WHERE {}", P::IS_PLAIN)).await, 0);
    store.shut_down().await;
    let store = place.open(&[NEW]).await;
    for (id, chunks) in [&first, &second] {
        assert!(store.chunks(*id, 0, u64::MAX).await.expect("reads") == *chunks);
        // A repetition of chunks that have another key now.
        assert_eq!(append(&*store, *id, FENCE, 0, chunks).await, Appended::Done);
    }
    let done = reseal(&*store, SealWith::Nothing).await;
    assert!(done.needed.is_empty() && done.unreadable.is_empty(), "{done:?}");
    store.shut_down().await;
    let (id, chunks) = &second;
    assert!(place.open(&[]).await.chunks(*id, 0, u64::MAX).await.expect("reads") == *chunks);
}
