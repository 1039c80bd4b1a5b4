//! Faults of the disk and of the file: the error for the caller, the state afterwards, and the
//! recovery without help once the fault is gone.

use crate::whole;
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use toolyard_store::{Backend, SqliteOpenError, SqliteOptions, SqliteStore};
use toolyard_store_contract::searching::found;
use toolyard_store_contract::{AMPLE, ManualClock, START, created, eventually, finish, owner, result, task};
use toolyard_task::search::Search;
use toolyard_task::store::{CreateError, Records};
use toolyard_task::wire::RawJson;
use toolyard_task::{StoreError, Task, TaskId, TaskStore};

const FILE: &str = "toolyard.sqlite";
const LOG: &str = "toolyard.sqlite-wal";
const DISK: &str = "TOOLYARD_STORE_FAULT_DISK";
const FOLDER: &str = "TOOLYARD_STORE_FAULT_FOLDER";

fn options() -> SqliteOptions {
    SqliteOptions { busy: Duration::from_millis(50), ..SqliteOptions::new(ManualClock::at(START)) }
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(folder, options()).expect("opens")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Bypasses the output capture of the test harness.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("a reader");
}

/// A separate file system, which can be full or read-only. The test runs itself in a namespace with
/// such a mount, which does not require root.
struct Disk(PathBuf);

impl Disk {
    /// A file system of this size, in the process that has it; `None` in the process that starts
    /// that process. Prints a message if there are no namespaces.
    fn of(size: &str, test: &str) -> Option<Self> {
        if let Some(place) = std::env::var_os(DISK) {
            return Some(Self(place.into()));
        }
        let place = folder();
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$2\" || exit 77; exec \"$0\" --exact \"faults::$3\" --nocapture";
        let mut process = Command::new("unshare");
        process.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        process.arg(std::env::current_exe().expect("is known")).arg(size).arg(place.path()).arg(test);
        match process.env(DISK, place.path()).output() {
            Ok(done) if done.status.success() => {
                let said = String::from_utf8_lossy(&done.stdout);
                assert!(said.contains("1 passed"), "no test is called {test}: {said}");
            }
            // The exit codes of `unshare` without the right to create a namespace, and of the
            // script without the right to mount.
            Ok(done) if matches!(done.status.code(), Some(1 | 77)) && done.stdout.is_empty() => {
                say(&format!("skipped, no disk of our own: {}", String::from_utf8_lossy(&done.stderr)));
            }
            Err(error) => say(&format!("skipped, no disk of our own: {error}")),
            Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
        }
        None
    }

    fn folder(&self) -> PathBuf {
        self.0.join("data")
    }

    fn remount(&self, how: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.0).status();
        assert!(done.expect("starts").success(), "remounts {how}");
    }
}

fn unavailable(refused: &Result<Task, CreateError>) -> bool {
    matches!(refused, Err(CreateError::Store(StoreError::Unavailable(_))))
}

fn large() -> Task {
    Task { arguments: RawJson::trusted(format!(r#"{{"a":"{}"}}"#, "x".repeat(9_000))), ..task(&owner("a")) }
}

/// Creates and ends tasks until neither is possible, and checks that the store contains all
/// acknowledged changes and none that were refused.
async fn fill(store: &SqliteStore) -> HashMap<TaskId, Task> {
    let mut kept = HashMap::new();
    let mut refused = Vec::new();
    while refused.len() < 5 {
        assert!(kept.len() < 100_000, "the disk never gets full");
        let new = large();
        match store.create(new.clone(), AMPLE, Records::default()).await {
            Ok(made) => drop(kept.insert(made.id, made)),
            Err(error) => {
                assert!(unavailable(&Err(error)), "a full disk is no other fault");
                refused.push(new.id);
            }
        }
    }
    assert!(kept.len() > 10, "{} fit", kept.len());
    holds(store, &kept).await;
    for id in refused {
        assert_eq!(store.read(id, None).await.expect("reading goes on"), None, "it was refused");
    }
    kept
}

async fn holds(store: &SqliteStore, kept: &HashMap<TaskId, Task>) {
    for (id, expected) in kept {
        let read = store.read(*id, None).await.expect("reading goes on").expect("was acknowledged");
        assert_eq!(read.task, *expected);
    }
    assert_eq!(found(store, Search::all(None, 1_000)).await.len(), kept.len());
}

/// Everything works again without a restart, and the file is intact.
async fn works_again(store: &Arc<SqliteStore>, mut kept: HashMap<TaskId, Task>, folder: &Path) {
    eventually("it is ready again", async || store.check().await.is_ok()).await;
    let made = created(&**store, large()).await;
    kept.insert(made.id, made.clone());
    holds(store, &kept).await;
    kept.insert(made.id, finish(&**store, &made, result()).await);
    store.clone().shut_down().await;
    whole(folder);
    holds(&open(folder), &kept).await;
}

#[tokio::test]
async fn a_disk_that_fills_up_keeps_all_that_was_acknowledged_and_goes_on_when_there_is_space() {
    let test = "a_disk_that_fills_up_keeps_all_that_was_acknowledged_and_goes_on_when_there_is_space";
    let Some(disk) = Disk::of("3m", test) else { return };
    let store = open(&disk.folder());
    let number = || fs::metadata(disk.folder().join(FILE)).expect("is there").ino();
    let before = number();
    let kept = fill(&store).await;
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).expect_err("there is less space");
    assert!(unavailable(&store.create(large(), AMPLE, Records::default()).await));
    assert!(store.check().await.is_err(), "it is not ready");
    fs::remove_file(&ballast).expect("removes");
    disk.remount("size=9m");
    works_again(&store, kept, &disk.folder()).await;
    assert_eq!(number(), before, "the same file");
}

#[tokio::test]
async fn a_start_on_a_full_disk_is_refused() {
    let Some(disk) = Disk::of("1m", "a_start_on_a_full_disk_is_refused") else { return };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).expect_err("there is less space");
    let error = SqliteStore::open(&disk.folder(), options()).err().expect("is refused");
    let is_right = matches!(error, SqliteOpenError::Unavailable { .. } | SqliteOpenError::NotWritable { .. });
    assert!(is_right, "{error:?}");
    assert!(error.to_string().contains(FILE), "{error}");
    fs::remove_file(&ballast).expect("removes");
    created(&*open(&disk.folder()), task(&owner("a"))).await;
}

#[tokio::test]
async fn a_read_only_disk_is_refused_and_not_changed() {
    let Some(disk) = Disk::of("2m", "a_read_only_disk_is_refused_and_not_changed") else { return };
    let store = open(&disk.folder());
    let made = created(&*store, task(&owner("a"))).await;
    store.shut_down().await;
    let before = fs::read(disk.folder().join(FILE)).expect("reads");
    disk.remount("ro");
    let error = SqliteStore::open(&disk.folder(), options()).err().expect("is refused");
    assert!(matches!(error, SqliteOpenError::NotWritable { .. }), "{error:?}");
    assert!(error.to_string().contains("mounted read-only"), "{error}");
    assert!(fs::read(disk.folder().join(FILE)).expect("reads") == before);
    disk.remount("rw");
    let found = open(&disk.folder()).read(made.id, None).await.expect("reads").expect("is there");
    assert_eq!(found.task, made);
}

/// The part of the process below; without a folder, this does nothing.
#[tokio::test]
async fn process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let store = open(&folder);
    let kept = fill(&store).await;
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("raises");
    works_again(&store, kept, &folder).await;
}

/// This runs everywhere, since it needs no separate file system: the kernel refuses every write
/// beyond a limit, like a file system that became read-only while the file was open.
#[test]
fn writes_that_the_system_refuses_lose_nothing_and_work_again_when_it_does_not() {
    let folder = folder();
    let script = "trap '' XFSZ; ulimit -S -f 2048; exec \"$0\" --exact faults::process --nocapture";
    let mut process = Command::new("sh");
    process.args(["-c", script]).arg(std::env::current_exe().expect("is known"));
    let done = process.env(FOLDER, folder.path()).output().expect("starts");
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(done.status.success() && said[0].contains("1 passed"), "{said:?}");
    whole(folder.path());
}

#[tokio::test]
async fn a_file_that_is_locked_for_too_long_refuses_changes_and_is_ready_again_after_it() {
    let folder = folder();
    let store = open(folder.path());
    let made = created(&*store, task(&owner("a"))).await;
    let other = Connection::open(folder.path().join(FILE)).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    assert!(store.check().await.is_ok(), "nothing was written yet");
    let new = task(&owner("a"));
    assert!(unavailable(&store.create(new.clone(), AMPLE, Records::default()).await));
    assert!(store.check().await.is_err(), "it is not ready");
    assert_eq!(store.read(made.id, None).await.expect("reads").expect("is there").task, made);
    assert_eq!(store.read(new.id, None).await.expect("reads"), None);
    other.execute_batch("ROLLBACK").expect("unlocks");
    assert!(store.check().await.is_ok(), "it is ready");
    finish(&*store, &made, result()).await;
}

/// Copies what a crash at this moment leaves behind.
fn crashed(folder: &Path) -> TempDir {
    let copy = self::folder();
    for name in [FILE, LOG] {
        if folder.join(name).exists() {
            fs::copy(folder.join(name), copy.path().join(name)).expect("copies");
        }
    }
    copy
}

/// Reads every task: each is either returned as it was written or reported as damaged, never as
/// unknown.
async fn right_or_refused(store: &SqliteStore, made: &[Task], damage: &str) -> usize {
    let mut refused = 0;
    for expected in made {
        match store.read(expected.id, None).await {
            Ok(Some(read)) => assert_eq!(read.task, *expected, "{damage}"),
            Ok(None) => panic!("{damage}: a task reads as unknown"),
            Err(StoreError::Corrupt(_) | StoreError::Unavailable(_)) => refused += 1,
            Err(StoreError::Undecided(_)) => panic!("it only reads"),
        }
    }
    refused
}

/// So many tasks, every ninth with long arguments and every other one ended.
async fn many(store: &SqliteStore, count: usize) -> Vec<Task> {
    let mut made = Vec::new();
    for number in 0..count {
        let new = if number % 9 == 0 { large() } else { task(&owner("a")) };
        let new = created(store, new).await;
        made.push(if number % 2 == 0 { finish(store, &new, result()).await } else { new });
    }
    made
}

async fn many_created(store: &SqliteStore, count: usize) -> Vec<Task> {
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(created(store, task(&owner("a"))).await);
    }
    made
}

#[tokio::test]
async fn a_damaged_page_is_named_and_harms_no_more_than_what_is_in_it() {
    let folder = folder();
    let store = open(folder.path());
    let made = many(&store, 300).await;
    store.clone().shut_down().await;
    let whole = fs::read(folder.path().join(FILE)).expect("reads");
    let pages = whole.len() / 4096;
    assert!(pages > 60, "{pages} pages");
    let (mut opened, mut refused, mut served) = (0, 0, 0);
    // The page with the schema has its own tests.
    for page in (1..pages).step_by(pages / 50) {
        for fill in [Some(0x00), Some(0xff), None] {
            let damage = format!("page {page} of {pages} with {fill:?}");
            let mut bytes = whole.clone();
            let place = &mut bytes[page * 4096..(page + 1) * 4096];
            match fill {
                Some(byte) => place.fill(byte),
                None => place.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 131 + 7) as u8),
            }
            let copy = self::folder();
            let path = copy.path().join(FILE);
            fs::write(&path, &bytes).expect("writes");
            let number = fs::metadata(&path).expect("is there").ino();
            match SqliteStore::open(copy.path(), options()) {
                Ok(store) => {
                    opened += 1;
                    let bad = right_or_refused(&store, &made, &damage).await;
                    refused += bad;
                    served += made.len() - bad;
                    // Every write that succeeds can be read; the rest is refused.
                    if let Ok(new) = store.create(task(&owner("b")), AMPLE, Records::default()).await {
                        let read = store.read(new.id, None).await;
                        assert!(!matches!(read, Ok(None)), "{damage}: an acknowledged task is lost");
                    }
                    store.shut_down().await;
                }
                Err(SqliteOpenError::Damaged { .. } | SqliteOpenError::NotADatabase { .. }) => {
                    assert!(fs::read(&path).expect("reads") == bytes, "{damage}: it was changed");
                }
                Err(other) => panic!("{damage}: {other:?}"),
            }
            let after = fs::metadata(&path).expect("was removed");
            assert_eq!(after.ino(), number, "{damage}: it was replaced");
            assert!(after.len() >= bytes.len() as u64, "{damage}: it was cut");
        }
    }
    say(&format!("damaged pages: {opened} opened, {refused} reads refused, {served} served"));
    assert!(refused > 100, "{refused} reads were refused: most pages matter to some read");
    assert!(served > 10 * refused, "{served} were served, {refused} refused");
}

#[tokio::test]
async fn pages_that_are_damaged_while_the_file_is_open_are_refused_and_read_by_the_next_when_mended() {
    let folder = folder();
    let store = open(folder.path());
    let made = many(&store, 100).await;
    store.clone().shut_down().await;
    // The store is opened again, so that no page is in memory.
    let store = open(folder.path());
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).expect("reads");
    let file = fs::File::options().write(true).open(&path).expect("opens");
    file.write_all_at(&vec![0xff; whole.len() - 2 * 4096], 2 * 4096).expect("damages");
    let refused = right_or_refused(&store, &made, "all pages but two").await;
    assert!(refused > made.len() / 2, "{refused} were refused");
    assert!(store.check().await.is_err() || refused < made.len());
    file.write_all_at(&whole, 0).expect("mends");
    // A page that was read stays in the memory of its reader.
    let again = open(folder.path());
    assert_eq!(right_or_refused(&again, &made, "mended").await, 0);
    assert!(again.check().await.is_ok());
    created(&*again, task(&owner("a"))).await;
}

/// Of the tasks that were created one after another, a first part exists, and each of these is
/// intact.
async fn a_beginning_is_there(folder: &Path, made: &[Task], damage: &str) -> usize {
    let store = open(folder);
    let mut there = 0;
    for (number, expected) in made.iter().enumerate() {
        let read = store.read(expected.id, None).await.expect(damage);
        if let Some(read) = read {
            assert_eq!(there, number, "{damage}: one is missing before it");
            assert_eq!(read.task, *expected, "{damage}");
            there += 1;
        }
    }
    created(&*store, task(&owner("b"))).await;
    store.shut_down().await;
    whole(folder);
    there
}

/// Truncating the log removes acknowledged changes. The rest is an earlier state, never a mixture.
#[tokio::test]
async fn a_log_that_was_cut_short_or_damaged_is_followed_up_to_there() {
    let folder = folder();
    let store = open(folder.path());
    let made = many_created(&store, 120).await;
    let length = fs::metadata(folder.path().join(LOG)).expect("is there").len();
    let all = crashed(folder.path());
    assert_eq!(a_beginning_is_there(all.path(), &made, "all of the log").await, made.len());
    let (mut last, mut partly) = (0, 0);
    for part in 0..=24_u64 {
        let at = length * part / 24;
        let damage = format!("cut at {at} of {length}");
        let copy = crashed(folder.path());
        let log = fs::File::options().write(true).open(copy.path().join(LOG)).expect("opens");
        log.set_len(at).expect("cuts");
        // An empty log of an empty file is a new store.
        let there = a_beginning_is_there(copy.path(), &made, &damage).await;
        assert!(there >= last, "{damage}");
        partly += usize::from(there > 0 && there < made.len());
        last = there;
        if at < length {
            let copy = crashed(folder.path());
            let log = fs::File::options().write(true).open(copy.path().join(LOG)).expect("opens");
            log.write_all_at(&[0xff; 16], at).expect("damages");
            a_beginning_is_there(copy.path(), &made, &format!("damaged at {at} of {length}")).await;
        }
    }
    assert_eq!(last, made.len());
    assert!(partly > 12, "{partly} cuts left some");
}

#[tokio::test]
async fn a_log_that_is_cut_while_the_file_is_open_gives_no_wrong_answer() {
    let folder = folder();
    let store = open(folder.path());
    let made = many_created(&store, 60).await;
    let log = fs::File::options().write(true).open(folder.path().join(LOG)).expect("opens");
    let length = log.metadata().expect("is there").len();
    log.set_len(length / 2).expect("cuts");
    right_or_refused(&store, &made, "cut").await;
    // Connections that have no page in memory yet.
    match SqliteStore::open(folder.path(), options()) {
        Ok(other) => {
            right_or_refused(&other, &made, "cut").await;
            other.shut_down().await;
        }
        Err(error) => assert!(matches!(error, SqliteOpenError::Unavailable { .. }), "{error:?}"),
    }
    store.shut_down().await;
    let there = a_beginning_is_there(folder.path(), &made, "cut while open").await;
    assert!(there > 0, "what was before the cut is there");
}
