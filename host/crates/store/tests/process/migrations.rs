//! A file of every older schema is upgraded with its whole content. `schemas/` contains the content
//! of such files, as the release of each schema wrote it.

use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{
    AMPLE, ManualClock, START, applied, finish, owner, read, remove, result, task,
};
use toolyard_task::audit::AuditStore;
use toolyard_task::grant::{GrantStore, Verdict};
use toolyard_task::journal::JournalStore;
use toolyard_task::keys::{KeyStore, KeyUse};
use toolyard_task::node::NodeStore;
use toolyard_task::search::{Direction, OrderBy, Search, SortOrder};
use toolyard_task::session::SessionStore;
use toolyard_task::store::{Records, TaskQuestion, Total};
use toolyard_task::timeline::{EventKind, TimelineStore};
use toolyard_task::wire::{RawJson, TaskStatus, Timestamp};
use toolyard_task::{
    AccessRequest, Digest, Event, Incarnation, Outcome, Owner, SessionId, Task, TaskId, TaskStore,
};
use uuid::Uuid;

const FOLDER: &str = "TOOLYARD_STORE_MIGRATION_FOLDER";
const FILE: &str = "toolyard.sqlite";
const SESSION: &str = "0123456789abcdef0123456789abcdef";

macro_rules! samples {
    ($($schema:literal)*) => { [$(include_str!(concat!("../schemas/schema-", $schema, ".sql"))),*] };
}

const SAMPLES: [&str; 10] = samples!(1 2 3 4 5 6 7 8 9 10);

/// A folder with a file of this schema.
fn sample(schema: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let file = Connection::open(folder.path().join(FILE)).expect("opens");
    file.execute_batch(SAMPLES[schema - 1]).expect("is SQL");
    let version: i64 = file.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("answers");
    assert_eq!(version, schema as i64);
    folder
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(folder, SqliteOptions { audit: true, ..SqliteOptions::new(ManualClock::at(START)) })
        .expect("opens")
}

fn id(number: u128) -> TaskId {
    let digits = u128::from_str_radix(&number.to_string(), 16).expect("digits");
    TaskId(Uuid::from_u128((0x4000_8000 << 48) | digits))
}

/// All statements that create the tables and indexes.
fn made_of(folder: &Path) -> BTreeSet<String> {
    let file = Connection::open(folder.join(FILE)).expect("opens");
    let mut read = file.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").expect("prepares");
    let rows = read.query_map([], |row| row.get::<_, String>(0)).expect("reads");
    rows.map(|sql| sql.expect("reads").split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn every_older_file_is_brought_forward_with_all_that_is_in_it() {
    let new = tempfile::tempdir().expect("a folder");
    drop(open(new.path()));
    for schema in 1..=SAMPLES.len() {
        let folder = sample(schema);
        let store = open(folder.path());
        tasks_are_as_they_were(&store).await;
        the_rest_is_as_it_was(&store, schema).await;
        let file = Connection::open(folder.path().join(FILE)).expect("opens");
        let longest = file.query_row("SELECT longest FROM span", [], |row| row.get::<_, i64>(0));
        assert_eq!(longest, Ok(60_000), "schema {schema}: the longest time from a creation to a change");
        what_is_there_goes_on(&store).await;
        store.shut_down().await;
        assert_eq!(made_of(folder.path()), made_of(new.path()), "schema {schema}");
        crate::whole(folder.path());
    }
}

async fn tasks_are_as_they_were(store: &SqliteStore) {
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    let statuses = [Working, InputRequired, Completed, Failed, Failed, Failed, Cancelled];
    for (number, status) in (1..).zip(statuses) {
        let found = read(store, id(number)).await;
        assert_eq!((found.status(), found.id), (status, id(number)));
        match number {
            2 | 4 => assert_eq!(found.arguments.as_str().len(), r#"{"long":""}"#.len() + 10_000),
            _ => assert_eq!(found.arguments.as_str(), r#"{ "seconds" : 1.50 }"#),
        }
        assert_eq!(found.client_capabilities.as_str(), r#"{"elicitation" : {}}"#);
    }
    let asked = read(store, id(2)).await;
    assert_eq!(asked.owner, Owner::Session(SessionId(SESSION.into())));
    assert!(asked.effects && asked.started_at == Some(Timestamp(START + 1)));
    let answer = asked.questions[0].answer.as_ref().expect("was answered").as_ref().expect("with a form");
    assert_eq!(answer.as_str(), r#"{"action":"accept", "content":{"name":"Ann"}}"#);
    assert_eq!(asked.open_questions().map(|question| question.key.as_str()).collect::<Vec<_>>(), ["sure"]);
    let ended = |task: Task| task.outcome.expect("has ended");
    let outcome = Outcome::Result { is_error: false, result: RawJson::trusted(r#"{ "content" : [] }"#) };
    assert_eq!(ended(read(store, id(3)).await), outcome);
    assert!(matches!(ended(read(store, id(4)).await), Outcome::Result { is_error: true, .. }));
    assert!(matches!(ended(read(store, id(5)).await), Outcome::Error(error) if error.message == "broke"));
    assert_eq!(ended(read(store, id(6)).await), Outcome::Expired);
    assert_eq!(ended(read(store, id(7)).await), Outcome::Cancelled);
    // The number of bytes kept for them, long arguments included.
    let kept = store.total(Total::Bytes(Some(&owner("a")))).await.expect("answers");
    assert!((10_000..20_000).contains(&kept), "{kept} bytes");
    let first = store.ended_first(&owner("a"), 9).await.expect("answers");
    let first: Vec<_> = first.into_iter().map(|(summary, bytes)| (summary.id, bytes > 10_000)).collect();
    assert_eq!(first, [(id(4), true), (id(7), false), (id(3), false)]);
    // The values by which they are searched, listed and maintained.
    let mut found: Vec<_> = store.select(TaskQuestion::HeldBy(Incarnation(3)), 1_000).await.expect("answers");
    found.sort_unstable();
    assert_eq!(found, [id(1), id(2)]);
    assert!(store.dead().await.expect("answers").contains(&Incarnation(3)));
    let order = SortOrder { by: OrderBy::Updated, direction: Direction::Descending };
    let search = Search { order, ..Search::all(Some(owner("a")), 9) };
    let page = store.search(&search).await.expect("searches");
    let found: Vec<_> = page.tasks.into_iter().map(|summary| summary.id).collect();
    assert_eq!(found, [id(3), id(7), id(4), id(1)]);
    assert_eq!(store.select(TaskQuestion::Due, 9).await.expect("answers"), [id(6)]);
}

async fn the_rest_is_as_it_was(store: &SqliteStore, schema: usize) {
    let session = SessionStore::session(store, &SessionId(SESSION.into())).await.expect("reads");
    let session = session.expect("is there");
    assert_eq!((session.client.as_str(), session.seen_at.0), ("suite 1.0", START + 77));
    assert_eq!(session.subscriptions.len(), usize::from(schema >= 2));
    let keys = store.keys(KeyUse::Cursor).await.expect("reads");
    assert_eq!(keys.iter().map(|key| (key.id, key.secret[0])).collect::<Vec<_>>(), [(2, 0x22), (1, 0x11)]);
    if schema >= 3 {
        let lines = store.pending(9).await.expect("answers").remove(0).lines;
        assert!(lines[0].contains("cafe0001-5-0") && lines[0].contains("task.created"), "{lines:?}");
    }
    if schema >= 4 {
        let (digest, wanted) = (Digest("ab".repeat(32)), AccessRequest::host("https", "example.com", 443));
        let grant = store.standing(&Owner::Local, "p.wasm", &digest, &wanted).await.expect("answers");
        assert_eq!(grant.expect("was given").verdict, Verdict::Allow);
    }
    if schema >= 8 {
        let timeline = store.timeline(id(1), None, 9).await.expect("reads");
        let events: Vec<_> = timeline.events.iter().map(|event| (event.seq, event.kind)).collect();
        assert_eq!(events, [(1, EventKind::Created), (2, EventKind::Started)]);
        assert_eq!(timeline.runs.iter().map(|run| (run.attempt, run.bytes)).collect::<Vec<_>>(), [(1, 4)]);
    }
    if schema >= 9 {
        let journal = store.journal(id(1)).await.expect("reads").expect("has one");
        assert_eq!((journal.next, journal.component), (0, Digest("ab".repeat(32))));
    }
    if schema >= 10 {
        let left = store.timeline(id(8), None, 9).await.expect("reads").runs;
        assert_eq!(left.iter().map(|run| run.outcome.as_deref()).collect::<Vec<_>>(), [Some("completed")]);
    }
    let used = id(80).0;
    let first = store.use_up(used, Timestamp(START + 3_600_000)).await.expect("answers");
    assert_eq!(first, schema < 5, "what was used up stays used");
}

async fn what_is_there_goes_on(store: &SqliteStore) {
    let cancelled = Event::Cancelled { message: "by the test".into() };
    applied(store, id(1), cancelled).await;
    finish(store, &read(store, id(2)).await, result()).await;
    let new = store.create(task(&owner("a")), AMPLE, Records::default()).await.expect("creates");
    assert!(store.read(new.id, None).await.expect("reads").is_some());
    assert_eq!(remove(store, &[id(6), id(7)]).await, 1, "one is gone, one is not");
    assert!(store.register().await.expect("registers").incarnation > Incarnation(3));
}

/// The part of another process; without a folder, this does nothing.
#[test]
fn process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = open(Path::new(&folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        store.create(task(&owner("new")), AMPLE, Records::default()).await.expect("creates")
    });
}

#[tokio::test]
async fn several_processes_may_bring_one_file_forward_at_a_time() {
    for schema in [1, SAMPLES.len()] {
        let folder = sample(schema);
        let start = |_| {
            let mut process = Command::new(std::env::current_exe().expect("is known"));
            process.args(["--exact", "migrations::process", "--nocapture"]).env(FOLDER, folder.path());
            process.stdout(Stdio::null()).spawn().expect("starts")
        };
        let processes: Vec<_> = (0..4).map(start).collect();
        for mut process in processes {
            assert!(process.wait().expect("ends").success(), "schema {schema}");
        }
        let store = open(folder.path());
        tasks_are_as_they_were(&store).await;
        let created = store.search(&Search::all(Some(owner("new")), 9)).await.expect("lists");
        assert_eq!(created.tasks.len(), 4);
    }
}
