use super::*;
use crate::memory::MemoryStore;
use futures_util::FutureExt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use toolyard_store_contract::audit::waiting;
use toolyard_store_contract::journal::{FENCE, chunk, recorded};
use toolyard_store_contract::timeline::{self, log, narrow, timeline};
use toolyard_store_contract::{
    AMPLE, BOUND, ManualClock, START, Store, applied, created, eventually, finish, owner, read, result,
    session, task,
};
use toolyard_task::audit::{AuditStore, By, Entry};
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush, JournalStore as _, LastChunks};
use toolyard_task::node::NodeStore;
use toolyard_task::search::Search;
use toolyard_task::store::{CommitStatus, CreateError, Hint, Quota, Records};
use toolyard_task::timeline::TimelineStore as _;
use toolyard_task::{Event, Fence, Incarnation, StoreError, Task, TaskStore, apply};
use transaction::SqliteTransaction;

const FILE: &str = "toolyard.sqlite";

fn options() -> SqliteOptions {
    SqliteOptions { busy: Duration::from_millis(50), ..SqliteOptions::new(ManualClock::at(START)) }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(folder, options()).expect("opens")
}

fn opened() -> (TempDir, Arc<SqliteStore>) {
    opened_with(options())
}

fn opened_with(options: SqliteOptions) -> (TempDir, Arc<SqliteStore>) {
    let folder = folder();
    let store = SqliteStore::open(folder.path(), options).expect("opens");
    (folder, store)
}

#[tokio::test]
async fn a_file_that_is_of_no_use_is_refused_and_kept() {
    let (folder, store) = opened();
    store.shut_down().await;
    let ours = fs::read(folder.path().join(FILE)).expect("is there");
    let mut damaged = ours.clone();
    // The header stays intact; the schema after it is overwritten.
    damaged[100..4096].fill(0xff);
    // The place of `PRAGMA user_version`.
    let mut newer = ours;
    newer[60..64].copy_from_slice(&4_711_u32.to_be_bytes());
    let path = folder.path().join("foreign");
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("CREATE TABLE task (theirs)").expect("creates");
    drop(other);
    let foreign = fs::read(&path).expect("is there");
    let long = "long and still not a database ".repeat(1_000).into_bytes();
    for (file, kind, in_words) in [
        (b"not a database".to_vec(), "NotADatabase", "not a SQLite database"),
        (long, "NotADatabase", "not a SQLite database"),
        (foreign, "Foreign", "another program"),
        (damaged, "Damaged", "damaged"),
        (newer, "Newer", "has schema 4711"),
    ] {
        let folder = self::folder();
        let path = folder.path().join(FILE);
        fs::write(&path, &file).expect("writes");
        let error = SqliteStore::open(folder.path(), options()).err().expect("is refused");
        assert!(format!("{error:?}").starts_with(kind), "{error:?}");
        assert!(error.to_string().contains(in_words) && error.to_string().contains(FILE), "{error}");
        let way_back = "use the release that upgraded it";
        assert!(kind != "Newer" || error.to_string().contains(way_back), "{error}");
        assert!(fs::read(&path).expect("is there") == file, "the file was changed");
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "text").expect("writes");
    for path in [file.clone(), file.join("below")] {
        let error = SqliteStore::open(&path, options()).err().expect("is refused");
        assert!(matches!(error, SqliteOpenError::Folder { .. }), "{error:?}");
        assert!(error.to_string().contains("file"), "{error}");
    }
    // File permissions do not stop root, but a folder in place of the file does.
    fs::create_dir(folder.path().join(FILE)).expect("makes");
    let error = SqliteStore::open(folder.path(), options()).err().expect("is refused");
    assert!(matches!(error, SqliteOpenError::NotWritable { .. }), "{error:?}");
}

#[test]
fn a_new_folder_may_be_opened_by_several_at_a_time() {
    for _ in 0..5 {
        let folder = folder();
        let open = || SqliteStore::open(folder.path(), SqliteOptions::new(ManualClock::at(START)));
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            for store in opened {
                store.join().expect("does not panic").expect("opens");
            }
        });
    }
}

#[tokio::test]
async fn nobody_else_can_read_the_files_and_nothing_is_locked_before_it_must() {
    let outer = folder();
    let folder = outer.path().join("a/b");
    let store = open(&folder);
    assert!(!folder.join("nodes").exists());
    let incarnation = store.register().await.expect("registers").incarnation;
    let rights = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!(rights(&folder), 0o700);
    assert_eq!(rights(&folder.join("nodes")), 0o700);
    for file in [FILE, "toolyard.sqlite-wal", "toolyard.sqlite-shm", &format!("nodes/{incarnation}.lock")] {
        assert_eq!(rights(&folder.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_store_that_is_shut_down_leaves_nothing_but_tasks() {
    let (folder, store) = opened();
    let made = created(&*store, task(&owner("a"))).await;
    let made = finish(&*store, &made, result()).await;
    let incarnation = store.register().await.expect("registers").incarnation;
    store.clone().shut_down().await;
    store.clone().shut_down().await;
    let closed = store.read(made.id, None).await;
    assert!(matches!(closed, Err(StoreError::Unavailable(_))), "{closed:?}");
    assert!(store.register().await.is_err(), "a store that is closed takes part in nothing");
    assert!(!folder.path().join(format!("nodes/{incarnation}.lock")).exists());
    assert!(!folder.path().join("toolyard.sqlite-wal").exists(), "the log was not tidied up");
    let again = open(folder.path());
    assert_eq!(again.dead().await.expect("answers"), []);
    assert_eq!(read(&*again, made.id).await, made);
}

#[tokio::test]
async fn lock_files_that_nobody_owns_are_swept_and_missing_ones_mean_dead() {
    let folder = folder();
    let (here, there) = (open(folder.path()), open(folder.path()));
    let other = there.register().await.expect("registers").incarnation;
    let left = folder.path().join("nodes/77.lock");
    fs::write(&left, "").expect("writes");
    here.register().await.expect("registers");
    assert!(!left.exists());
    assert_eq!(here.dead().await.expect("answers"), []);
    fs::remove_file(folder.path().join(format!("nodes/{other}.lock"))).expect("removes");
    assert_eq!(here.dead().await.expect("answers"), [other]);
    // It finds out without help and registers under another number.
    assert!(!there.renew(other, None).await.expect("answers"));
    let again = there.register().await.expect("registers").incarnation;
    assert!(again != other && there.renew(again, None).await.expect("renews"));
    assert_eq!(here.dead().await.expect("answers"), [other]);
    here.forget(other).await.expect("forgets");
    assert!(!there.renew(other, None).await.expect("answers"), "the row is gone as well");
}

/// Keeps the writer busy, so that all calls in the meantime share one transaction. The writer
/// continues when the sender is dropped.
async fn hold(store: &Arc<SqliteStore>) -> std::sync::mpsc::Sender<()> {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let held = std::sync::Mutex::new(held);
    let store = store.clone();
    tokio::spawn(async move {
        let operation = move |_: &mut SqliteTransaction<'_>| {
            begun.take().into_iter().for_each(|begun| begun.send(()).expect("a waiter"));
            let _ = held.lock().expect("no section panics").recv();
            Ok(())
        };
        store.writer.write(operation).await.expect("writes");
    });
    begins.await.expect("begins");
    release
}

#[tokio::test]
async fn one_operation_that_fails_leaves_its_neighbours_alone() {
    let (_folder, store) = opened_with(SqliteOptions { audit: true, ..options() });
    let release = hold(&store).await;
    let fails = || store.writer.write(|writing| writing.execute("INSERT INTO nowhere VALUES (1)", []));
    let make = || {
        let new = task(&owner("a"));
        let entries = vec![Entry::created(&new, &By::client())];
        store.create(new, Quota { per_owner: 3, parked_per_owner: 9, in_all: 9 }, entries.into())
    };
    let (one, bad, two, worse, three, four, ()) =
        tokio::join!(make(), fails(), make(), fails(), make(), make(), async { drop(release) });
    for failed in [bad, worse] {
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    }
    let mut kept = Vec::new();
    for made in [one, two, three] {
        let made = made.expect("is not harmed");
        kept.push(made.id.to_string());
        assert_eq!(read(&*store, made.id).await, made);
    }
    // Counts from a transaction that was rolled back are discarded.
    assert!(matches!(four, Err(CreateError::Full { .. })), "{four:?}");
    // T-43: its audit entries are missing too, and no other entries appear twice.
    let written = store.pending(100).await.expect("answers");
    let written: Vec<String> = written.into_iter().flat_map(|batch| batch.lines).collect();
    assert_eq!(written.len(), 3, "{written:?}");
    assert!(kept.iter().zip(&written).all(|(id, line)| line.contains(id.as_str())), "{written:?}");
}

#[tokio::test]
async fn t_43_notes_that_cannot_be_written_wait_and_those_that_do_not_fit_are_counted() {
    let options = SqliteOptions { audit: true, notes: 3, note: Duration::from_millis(10), ..options() };
    let (folder, store) = opened_with(options);
    let other = Connection::open(folder.path().join(FILE)).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    for number in 0..5 {
        store.note(Entry::lost(number, "test"));
    }
    assert!(store.exported(0).await.is_err(), "the file is locked");
    other.execute_batch("ROLLBACK").expect("unlocks");
    tokio::time::timeout(BOUND, store.written()).await.expect("in its time");
    let lines = waiting(&*store).await;
    let counts: Vec<_> = lines.iter().map(|(_, line)| line["count"].as_u64().expect("a count")).collect();
    assert_eq!(counts, [0, 1, 2, 2]);
    assert_eq!(lines[3].1["reason"], "too_many_at_once");
}

#[tokio::test]
async fn a_store_that_nobody_exports_keeps_no_entries() {
    let (folder, store) = opened();
    created(&*store, task(&owner("a"))).await;
    store.note(Entry::lost(1, "test"));
    store.shut_down().await;
    assert_eq!(open(folder.path()).pending(9).await.expect("answers"), []);
}

#[tokio::test]
async fn a_full_queue_is_waited_for_but_not_for_ever() {
    let options = SqliteOptions { queue: 1, patience: Duration::from_millis(20), ..options() };
    let (_folder, store) = opened_with(options);
    let release = hold(&store).await;
    let refused = store.create(task(&owner("a")), AMPLE, Records::default()).await;
    assert!(matches!(refused, Err(CreateError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    drop(release);
    let there_is_room = async || store.create(task(&owner("a")), AMPLE, Records::default()).await.is_ok();
    eventually("there is room again", there_is_room).await;
}

/// T-40: nothing of a foreign task is decoded.
#[tokio::test]
async fn t_40_a_record_that_makes_no_sense_is_named_so_to_its_owner_and_harms_no_other() {
    let (_folder, store) = opened();
    let bad = created(&*store, task(&owner("a"))).await;
    let good = created(&*store, task(&owner("b"))).await;
    let id = bad.id;
    let spoil = move |writing: &mut SqliteTransaction<'_>| {
        writing.execute("UPDATE task SET record = '{}' WHERE id = ?1", [id.0.as_bytes()])
    };
    assert_eq!(store.writer.write(spoil).await.expect("writes"), 1);
    assert!(matches!(store.read(bad.id, None).await, Err(StoreError::Corrupt(_))));
    assert_eq!(store.read(bad.id, Some(&owner("b"))).await.expect("reads as unknown"), None);
    assert!(matches!(store.search(&Search::all(None, 100)).await, Err(StoreError::Corrupt(_))));
    assert_eq!(read(&*store, good.id).await, good);
}

#[tokio::test]
async fn our_own_changes_wake_nobody() {
    let folder = folder();
    let (here, there) = (open(folder.path()), open(folder.path()));
    let mut hints = here.hints();
    // Every transaction checks, so after the second one the first would show.
    for _ in 0..3 {
        created(&*here, task(&owner("a"))).await;
    }
    assert_eq!(hints.next().now_or_never(), None);
    created(&*there, task(&owner("a"))).await;
    assert_eq!(hints.next().await, Some(Hint::Anything));
}

#[tokio::test]
async fn a_touch_is_written_in_its_time() {
    let folder = folder();
    let clock = ManualClock::at(START);
    let options = SqliteOptions { touch: Duration::from_millis(20), ..SqliteOptions::new(clock.clone()) };
    let store: Arc<dyn Store> = SqliteStore::open(folder.path(), options).expect("opens");
    let opened = store.open(session(), 9).await.expect("opens");
    clock.advance(5_000);
    store.touch(&opened.id).await.expect("touches");
    let seen = async || {
        store.session(&opened.id).await.expect("reads").expect("is there").seen_at.0 == START + 5_000
    };
    eventually("the touch is written though nothing else is", seen).await;
}

#[tokio::test]
async fn the_store_goes_on_where_its_time_was() {
    let folder = folder();
    let clock = ManualClock::at(START);
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(clock.clone())).expect("opens");
    let first = created(&*store, task(&owner("a"))).await;
    store.shut_down().await;
    clock.set(START - 60_000);
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(clock)).expect("opens");
    assert_eq!(created(&*store, task(&owner("a"))).await.created_at, first.created_at);
}

#[tokio::test]
async fn a_registration_whose_transaction_fails_is_made_again() {
    let (folder, store) = opened();
    let release = hold(&store).await;
    let fails = store.writer.write(|writing| writing.execute("INSERT INTO nowhere VALUES (1)", []));
    let (me, failed, ()) = tokio::join!(store.register(), fails, async { drop(release) });
    assert!(failed.is_err());
    let me = me.expect("registers alone").incarnation;
    let fence = Fence { incarnation: me, attempt: 1 };
    created(&*store, Task { fence, ..task(&owner("a")) }).await;
    let other = open(folder.path());
    assert_eq!(other.dead().await.expect("answers"), Vec::<Incarnation>::new());
}

/// A store, and the registry of its metrics.
fn measured() -> (TempDir, Arc<SqliteStore>, Registry) {
    let (folder, store) = opened();
    let mut registry = Registry::default();
    store.register_metrics(&mut registry);
    (folder, store, registry)
}

/// How many transactions were flushed to the disk.
fn flushed(registry: &Registry) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).expect("encodes");
    let count = |line: &str| line.strip_prefix("toolyard_store_commit_operations_count ")?.parse().ok();
    text.lines().find_map(count).expect("is counted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_a_hundred_log_lines_makes_no_more_commits_than_one_without() {
    let (_folder, store, registry) = measured();
    let mut commits = Vec::new();
    for lines in [0, 100] {
        let before = flushed(&registry);
        let made = created(&*store, task(&owner("a"))).await;
        for line in 0..lines {
            store.append(made.id, log(&format!("line {line}")));
            if line % 25 == 24 {
                // Some are written by a transaction of their own, and some with the end.
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        }
        finish(&*store, &made, result()).await;
        let events = timeline(&*store, made.id).await.events;
        assert_eq!(events.len(), lines + 3, "created, queued, ended");
        commits.push(flushed(&registry) - before);
    }
    assert_eq!(commits, [2, 2]);
}

/// The response of a request is stored although nothing waits for it. It costs no flush of its own, and neither does a
/// wake: if it is lost, the task is still due. The end of a task and of its journal share one flush.
#[tokio::test(flavor = "multi_thread")]
async fn appends_and_wakes_are_flushed_with_the_next_write_and_the_last_chunks_with_the_end() {
    let (_folder, store, registry) = measured();
    let made = created(&*store, recorded(&owner("a"), FENCE)).await;
    let before = flushed(&registry);
    let mut at = 0;
    for (new, flush, flushes) in
        [(1, Flush::Later, 0), (1, Flush::Later, 0), (0, Flush::Now, 1), (1, Flush::Now, 2)]
    {
        let chunks: Vec<Chunk> = (at..at + new).map(|number| chunk(number, 9)).collect();
        let appended = store.write_chunks(made.id, FENCE, at, chunks, ChunkWrite::Append(flush)).await;
        assert_eq!(appended.expect("answers"), Appended::Done);
        at += new;
        assert_eq!(flushed(&registry) - before, flushes);
        assert_eq!(store.journal(made.id).await.expect("answers").expect("is there").next, at);
    }

    let mut task = created(&*store, recorded(&owner("a"), FENCE)).await;
    let before = flushed(&registry);
    let parked = Event::Parked { fence: FENCE, wake: Some(Timestamp(START)), reached: 0 };
    for event in [parked, Event::Woken { by: Incarnation(2) }] {
        task = applied(&*store, task.id, event).await;
        assert_eq!(flushed(&registry) - before, 1, "the wake costs none");
    }
    let ended = Event::Finished { fence: task.fence, outcome: result(), message: None };
    let ended = apply(&task, ended, task.updated_at).expect("applies").task;
    let last = LastChunks { at: 0, chunks: vec![chunk(0, 9)] };
    let records = Records { journal: Some(last), ..Records::default() };
    assert_eq!(store.commit(&ended, records).await.expect("answers"), CommitStatus::Done);
    assert_eq!(flushed(&registry) - before, 2);
    assert_eq!(store.journal(ended.id).await.expect("answers").expect("is there").next, 1);
}

#[tokio::test]
async fn the_timelines_that_ended_first_give_way() {
    let clock = ManualClock::at(START);
    let memory = MemoryStore::new(clock.clone()).with_timelines(narrow());
    timeline::the_timelines_that_ended_first_give_way(&memory, &clock).await;
    let options = SqliteOptions { timeline: narrow(), ..SqliteOptions::new(clock.clone()) };
    let (_folder, sqlite) = opened_with(options);
    timeline::the_timelines_that_ended_first_give_way(&*sqlite, &clock).await;
}
