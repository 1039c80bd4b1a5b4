//! The view of an attacker who has the file and not the key, and the promises while keys are added
//! and removed.

use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{
    Backend, Keyring, ReencryptionReport, SealWith, SqliteOpenError, SqliteOptions, SqliteStore,
};
use toolyard_store_contract::timeline::{kinds, log};
use toolyard_store_contract::{AMPLE, ManualClock, START, created, finish, owner, result, task};
use toolyard_task::store::{CommitStatus, ListQuery, Records};
use toolyard_task::task::Question;
use toolyard_task::timeline::{EventKind, TimelineStore as _};
use toolyard_task::wire::{QuestionKind, RawJson, Timestamp};
use toolyard_task::{Outcome, StoreError, Task, TaskId, TaskStore};

const FILE: &str = "toolyard.sqlite";
const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn try_open(folder: &Path, keys: &[[u8; 32]]) -> Result<Arc<SqliteStore>, SqliteOpenError> {
    let keys = Keyring::new(keys.iter().copied());
    SqliteStore::open(folder, SqliteOptions { keys, ..SqliteOptions::new(ManualClock::at(START)) })
}

fn open(folder: &Path, keys: &[[u8; 32]]) -> Arc<SqliteStore> {
    try_open(folder, keys).expect("opens")
}

/// Words that occur only in the data of users and tools.
const WORDS: [&str; 7] =
    ["argwort", "langwort", "ergebniswort", "antwortwort", "fragewort", "meldungswort", "logwort"];

/// A task with each of these words in its place.
async fn told(store: &SqliteStore) -> Task {
    let arguments = format!(r#"{{"a":"argwort","more":"{}"}}"#, "langwort".repeat(600));
    let given = Task { arguments: RawJson::trusted(arguments), ..task(&owner("a")) };
    let mut made = created(store, given).await;
    store.append(made.id, log("logwort"));
    made.version += 1;
    made.status_message = Some("meldungswort".into());
    made.questions = vec![Question {
        key: "name".into(),
        kind: QuestionKind::Form,
        params: RawJson::trusted(r#"{"message":"fragewort"}"#),
        attempt: 1,
        deadline: Timestamp(START),
        sent: Vec::new(),
        client_task: None,
        answer: Some(Ok(RawJson::trusted(r#"{"content":{"name":"antwortwort"}}"#))),
        asked_again: 0,
    }];
    store.commit(&made, Records::default()).await.expect("commits");
    let text = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "ergebniswort ".repeat(600));
    let end = Outcome::Result { is_error: false, result: RawJson::trusted(text) };
    finish(store, &made, end).await
}

/// The words that occur in the file, its log or its shared memory.
fn found(folder: &Path) -> Vec<&'static str> {
    let bytes: Vec<u8> = ["", "-wal", "-shm"]
        .iter()
        .filter_map(|end| std::fs::read(folder.join(format!("{FILE}{end}"))).ok())
        .flatten()
        .collect();
    let stands = |word: &&&str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    WORDS.iter().filter(stands).copied().collect()
}

/// The events of such a task.
const KINDS: [EventKind; 4] = [EventKind::Created, EventKind::Queued, EventKind::Log, EventKind::Ended];

async fn read(store: &SqliteStore, id: TaskId) -> Task {
    store.read(id, None).await.expect("reads").expect("is there").task
}

#[tokio::test]
async fn nothing_that_users_and_tools_say_stands_in_the_file_its_log_or_its_shared_memory() {
    let folder = folder();
    let plain = open(folder.path(), &[]);
    told(&plain).await;
    assert_eq!(found(folder.path()), WORDS, "the search finds what is plain");
    drop(plain);

    let folder = self::folder();
    let store = open(folder.path(), &[NEW]);
    let ended = told(&store).await;
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "in the log");
    assert_eq!(read(&store, ended.id).await, ended);
    let all = ListQuery { owner: None, after: None, limit: 9 };
    let listed = store.list(&all).await.expect("lists");
    assert_eq!(listed[0].tool, ended.tool);
    store.shut_down().await;
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "in the file");
    assert_eq!(read(&open(folder.path(), &[NEW]), ended.id).await, ended);
}

/// A refused start changes nothing in the folder.
fn refused(folder: &Path, keys: &[[u8; 32]]) {
    let before = std::fs::read(folder.join(FILE)).expect("reads");
    let error = try_open(folder, keys).err().expect("is refused");
    assert!(matches!(error, SqliteOpenError::Sealed { .. }), "{error:?}");
    assert!(error.to_string().contains("encrypted with the key"), "{error}");
    assert!(std::fs::read(folder.join(FILE)).expect("reads") == before, "it was changed");
}

#[tokio::test]
async fn without_its_key_a_file_is_refused_at_the_start_and_not_changed() {
    let folder = folder();
    let store = open(folder.path(), &[OLD]);
    // A key that has sealed nothing is not needed.
    drop(store);
    drop(open(folder.path(), &[]));
    let store = open(folder.path(), &[OLD]);
    let made = told(&store).await;
    store.shut_down().await;
    refused(folder.path(), &[]);
    refused(folder.path(), &[NEW]);
    assert_eq!(read(&open(folder.path(), &[NEW, OLD]), made.id).await, made);
}

#[tokio::test]
async fn a_plain_file_stays_readable_and_what_is_new_is_encrypted() {
    let folder = folder();
    let plain = open(folder.path(), &[]);
    let before = created(&*plain, task(&owner("a"))).await;
    plain.shut_down().await;
    let store = open(folder.path(), &[NEW]);
    let after = told(&store).await;
    assert_eq!(read(&store, before.id).await, before);
    assert_eq!(read(&store, after.id).await, after);
    // A change of an old task encrypts all of it except its arguments, which are written once.
    let end = Outcome::Result { is_error: false, result: RawJson::trusted(r#"{"a":"ergebniswort"}"#) };
    let ended = finish(&*store, &before, end).await;
    assert_eq!(read(&store, before.id).await, ended);
    store.shut_down().await;
    assert_eq!(found(folder.path()), Vec::<&str>::new());
    refused(folder.path(), &[]);
}

/// A process that was started without the key, beside one that has it, reports an error for values
/// that need the key and serves the rest.
#[tokio::test]
async fn a_process_without_the_key_names_what_it_cannot_read() {
    let folder = folder();
    let (without, with) = (open(folder.path(), &[]), open(folder.path(), &[NEW]));
    let (plain, sealed) = (created(&*without, task(&owner("a"))).await, told(&with).await);
    assert_eq!(read(&with, plain.id).await, plain);
    assert_eq!(read(&without, plain.id).await, plain);
    let error = without.read(sealed.id, None).await.expect_err("cannot be read");
    let StoreError::Corrupt(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("is not among those of this process"), "{source}");
}

#[tokio::test]
async fn values_that_were_moved_or_changed_are_refused() {
    let folder = folder();
    let store = open(folder.path(), &[NEW]);
    let (one, two) = (told(&store).await, told(&store).await);
    let file = Connection::open(folder.path().join(FILE)).expect("opens");
    let before: Vec<(String, Vec<u8>)> = [one.id, two.id]
        .map(|id| {
            file.query_row("SELECT record, outcome FROM task WHERE id = ?1", [id.0.as_bytes()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .expect("reads")
        })
        .to_vec();
    let body = "SELECT body FROM arguments WHERE task = (SELECT seq FROM task WHERE id = ?1)";
    let long: Vec<u8> = file.query_row(body, [two.id.0.as_bytes()], |row| row.get(0)).expect("reads");
    let mut flipped = before[0].1.clone();
    *flipped.last_mut().expect("is not empty") ^= 1;
    let of_one = one.id.0.as_bytes();
    let undo = "UPDATE task SET record = ?2, outcome = ?3 WHERE id = ?1";
    for (what, record, outcome) in [
        ("the record of another", &before[1].0, &before[0].1),
        ("the outcome of another", &before[0].0, &before[1].1),
        ("a changed outcome", &before[0].0, &flipped),
        ("arguments as an outcome", &before[0].0, &long),
    ] {
        file.execute(undo, (of_one, record, outcome)).expect("writes");
        let refused = store.read(one.id, None).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{what}: {refused:?}");
    }
    file.execute(undo, (of_one, &before[0].0, &before[0].1)).expect("writes");
    assert_eq!(read(&store, one.id).await, one);
    let swap = "UPDATE arguments SET body = ?2 WHERE task = (SELECT seq FROM task WHERE id = ?1)";
    file.execute(swap, (of_one, &long)).expect("writes");
    assert!(matches!(store.read(one.id, None).await, Err(StoreError::Corrupt(_))));
    assert_eq!(read(&store, two.id).await, two, "it harms no other task");
}

/// The keys that the file lists as needed.
fn needed(folder: &Path) -> i64 {
    let file = Connection::open(folder.join(FILE)).expect("opens");
    file.query_row("SELECT count(*) FROM seal", [], |row| row.get(0)).expect("counts")
}

#[tokio::test]
async fn a_rotation_writes_all_anew_and_then_the_old_key_may_go() {
    let folder = folder();
    let plain = open(folder.path(), &[]);
    let mut made = vec![told(&plain).await];
    plain.clone().shut_down().await;
    let old = open(folder.path(), &[OLD]);
    for _ in 0..150 {
        made.push(told(&old).await);
    }
    old.shut_down().await;
    let store = open(folder.path(), &[NEW, OLD]);
    made.push(told(&store).await);
    assert_eq!(needed(folder.path()), 2);
    let mut seen = Vec::new();
    let done =
        store.reseal(SealWith::Newest, &mut |so_far| seen.push(so_far)).await.expect("is encrypted again");
    assert_eq!(done, ReencryptionReport { seen: 152, written: 151, ..ReencryptionReport::default() });
    assert!(seen.is_sorted() && seen.last() == Some(&152), "{seen:?}");
    assert_eq!(needed(folder.path()), 1);
    let again = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("has nothing to do");
    assert_eq!(again, ReencryptionReport { seen: 152, ..ReencryptionReport::default() });
    store.vacuum().await.expect("has room");
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "what was plain is gone from the file");
    store.shut_down().await;
    refused(folder.path(), &[OLD]);
    let store = open(folder.path(), &[NEW]);
    for task in &made {
        assert_eq!(read(&store, task.id).await, *task);
        assert_eq!(kinds(&*store, task.id).await, KINDS);
    }
    let done = store.reseal(SealWith::Nothing, &mut |_| {}).await.expect("opens all");
    assert_eq!((done.written, done.needed.len()), (152, 0));
    store.shut_down().await;
    let store = open(folder.path(), &[]);
    for task in &made {
        assert_eq!(read(&store, task.id).await, *task);
        assert_eq!(kinds(&*store, task.id).await, KINDS);
    }
}

/// A host that does not have the new key keeps running, and none of its values is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_somebody_still_seals_with_is_not_taken_out() {
    let folder = folder();
    let (old, new) = (open(folder.path(), &[OLD]), open(folder.path(), &[NEW, OLD]));
    let before = created(&*old, task(&owner("a"))).await;
    let late = std::sync::Mutex::new(None);
    let runtime = tokio::runtime::Handle::current();
    let mut meanwhile = |_| {
        let mut late = late.lock().expect("no section panics");
        if late.is_none() {
            // Behind the walk, which runs on this thread and has already passed this task.
            let ended = Task { version: before.version + 1, outcome: Some(result()), ..before.clone() };
            let end = || runtime.block_on(old.commit(&ended, Records::default())).expect("commits");
            assert_eq!(
                std::thread::scope(|scope| scope.spawn(end).join().expect("is ended")),
                CommitStatus::Done
            );
            *late = Some(ended);
        }
    };
    let done = tokio::task::block_in_place(|| runtime.block_on(new.reseal(SealWith::Newest, &mut meanwhile)));
    let done = done.expect("is encrypted again");
    assert_eq!(done.needed.len(), 1, "the old key is needed still");
    let late = late.lock().expect("no section panics").take().expect("was made meanwhile");
    assert_eq!(needed(folder.path()), 2);
    assert_eq!(read(&new, late.id).await, late);
    old.shut_down().await;
    let done = new.reseal(SealWith::Newest, &mut |_| {}).await.expect("is encrypted again");
    assert_eq!((done.written, done.needed.len()), (1, 0));
    new.shut_down().await;
    assert_eq!(read(&open(folder.path(), &[NEW]), late.id).await, late);
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_left_and_its_key_stays() {
    let folder = folder();
    let store = open(folder.path(), &[NEW, OLD]);
    store.shut_down().await;
    let old = open(folder.path(), &[OLD]);
    let (bad, good) = (told(&old).await, told(&old).await);
    old.shut_down().await;
    let file = Connection::open(folder.path().join(FILE)).expect("opens");
    let spoil = "UPDATE task SET outcome = substr(outcome, 1, length(outcome) - 1) WHERE id = ?1";
    assert_eq!(file.execute(spoil, [bad.id.0.as_bytes()]).expect("writes"), 1);
    drop(file);
    let store = open(folder.path(), &[NEW, OLD]);
    let done = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("goes on");
    assert_eq!((done.written, done.unreadable), (1, vec![bad.id]));
    assert_eq!(done.needed.len(), 1);
    assert_eq!(read(&store, good.id).await, good);
    store.shut_down().await;
    refused(folder.path(), &[NEW]);
}

/// An interrupted removal of this key, which the operator has since abandoned.
#[tokio::test]
async fn a_mark_that_was_left_on_the_key_that_is_to_stay_does_not_take_it_out() {
    let folder = folder();
    let store = open(folder.path(), &[OLD]);
    created(&*store, task(&owner("a"))).await;
    store.shut_down().await;
    let file = Connection::open(folder.path().join(FILE)).expect("opens");
    assert_eq!(file.execute("UPDATE seal SET leaving = 1", []).expect("marks"), 1);
    drop(file);
    let store = open(folder.path(), &[OLD]);
    let done = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("has nothing to do");
    assert_eq!(done, ReencryptionReport { seen: 1, ..ReencryptionReport::default() });
    assert_eq!(needed(folder.path()), 1);
}

#[tokio::test]
async fn a_task_that_was_not_created_leaves_no_key_behind() {
    let folder = folder();
    let store = open(folder.path(), &[NEW]);
    let none = toolyard_task::store::Quota { per_owner: 0, parked_per_owner: 0, in_all: 0 };
    store.create(task(&owner("a")), none, Records::default()).await.expect_err("there is no room");
    assert_eq!(needed(folder.path()), 0);
    store.create(task(&owner("a")), AMPLE, Records::default()).await.expect("there is room");
    assert_eq!(needed(folder.path()), 1);
}
