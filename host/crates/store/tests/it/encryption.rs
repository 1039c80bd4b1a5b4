//! The view of an attacker who has the file and not the key, and the promises while keys are added
//! and removed.

use crate::keys::{NEW, OLD, Place, keys_tests, reseal};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{Backend, Keyring, SealWith, SqliteOpenError, SqliteOptions, SqliteStore};
use toolyard_store_contract::timeline::log;
use toolyard_store_contract::{AMPLE, ManualClock, START, created, finish, owner, question, read, task};
use toolyard_task::search::Search;
use toolyard_task::store::Records;
use toolyard_task::task::Question;
use toolyard_task::timeline::TimelineStore as _;
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Outcome, StoreError, Task, TaskId, TaskStore};

const FILE: &str = "toolyard.sqlite";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

impl Place for TempDir {
    const IS_PLAIN: &'static str = "hex(substr(body, 1, 1)) <> '01'";

    async fn try_open(&self, keys: &[[u8; 32]]) -> Result<Arc<dyn Backend>, String> {
        try_open(self.path(), keys).map(|store| store as Arc<dyn Backend>).map_err(|error| error.to_string())
    }

    async fn run(&self, sql: &str) {
        Connection::open(self.path().join(FILE)).expect("opens").execute_batch(sql).expect("is done");
    }

    async fn count(&self, sql: &str) -> i64 {
        let file = Connection::open(self.path().join(FILE)).expect("opens");
        file.query_row(sql, [], |row| row.get(0)).expect("counts")
    }

    fn named(&self, id: TaskId) -> String {
        format!("(SELECT seq FROM task WHERE id = x'{}')", id.0.simple())
    }
}

keys_tests!(Some(folder()));

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
        params: RawJson::trusted(r#"{"message":"fragewort"}"#),
        answer: Some(Ok(RawJson::trusted(r#"{"content":{"name":"antwortwort"}}"#))),
        ..question("name", Timestamp(START))
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

#[tokio::test]
async fn nothing_that_users_and_tools_say_stands_in_the_file_its_log_or_its_shared_memory() {
    let folder = folder();
    let plain = open(folder.path(), &[]);
    told(&plain).await;
    assert_eq!(found(folder.path()), WORDS, "the search finds what is plain");
    plain.shut_down().await;
    let store = open(folder.path(), &[NEW]);
    reseal(&*store, SealWith::Newest).await;
    store.vacuum().await.expect("has room");
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "what was plain is gone");

    let folder = self::folder();
    let store = open(folder.path(), &[NEW]);
    let ended = told(&store).await;
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "in the log");
    assert_eq!(read(&*store, ended.id).await, ended);
    let listed = store.search(&Search::all(None, 9)).await.expect("lists");
    assert_eq!(listed.tasks[0].tool, ended.tool);
    store.shut_down().await;
    assert_eq!(found(folder.path()), Vec::<&str>::new(), "in the file");
    assert_eq!(read(&*open(folder.path(), &[NEW]), ended.id).await, ended);
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
    assert_eq!(read(&*open(folder.path(), &[NEW, OLD]), made.id).await, made);
}

#[tokio::test]
async fn values_that_were_moved_or_changed_are_refused() {
    let folder = folder();
    let store = open(folder.path(), &[NEW]);
    let (one, two) = (told(&store).await, told(&store).await);
    let keep = "CREATE TABLE kept AS SELECT * FROM task; CREATE TABLE long AS SELECT * FROM arguments";
    folder.run(keep).await;
    let undo =
        "UPDATE task SET (record, outcome) = (SELECT record, outcome FROM kept WHERE kept.id = task.id);
        UPDATE arguments SET body = (SELECT body FROM long WHERE long.task = arguments.task)";
    for (what, change) in [
        ("the record of another", "task SET record = (SELECT record FROM kept WHERE kept.id <> task.id)"),
        ("another's outcome", "task SET outcome = (SELECT outcome FROM kept WHERE kept.id <> task.id)"),
        ("a shortened outcome", "task SET outcome = substr(outcome, 1, length(outcome) - 1)"),
        ("another kind", "task SET outcome = (SELECT body FROM long WHERE long.task = seq)"),
        ("moved arguments", "arguments SET body = (SELECT body FROM long WHERE long.task <> arguments.task)"),
    ] {
        folder.run(&format!("UPDATE {change} WHERE rowid = {}", folder.named(one.id))).await;
        let refused = store.read(one.id, None).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{what}: {refused:?}");
        assert_eq!(read(&*store, two.id).await, two, "{what}: it harms no other task");
        folder.run(undo).await;
        assert_eq!(read(&*store, one.id).await, one);
    }
}

#[tokio::test]
async fn a_task_that_was_not_created_leaves_no_key_behind() {
    let folder = folder();
    let store = open(folder.path(), &[NEW]);
    let none = toolyard_task::store::Quota { per_owner: 0, parked_per_owner: 0, in_all: 0 };
    store.create(task(&owner("a")), none, Records::default()).await.expect_err("there is no room");
    assert_eq!(folder.needed().await, 0);
    store.create(task(&owner("a")), AMPLE, Records::default()).await.expect("there is room");
    assert_eq!(folder.needed().await, 1);
}
