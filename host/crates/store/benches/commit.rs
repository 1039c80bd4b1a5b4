//! The number of durable transitions a second in the SQLite store: tasks created and finished by 1,
//! 16 and 64 clients, with and without group commit, compared with a bare 4 KiB write and flush on
//! the same disk; and the cost of audit entries. The speed of a disk drifts, so the cases take
//! turns in several rounds, and the ratios within a round are the result.
//!
//! With `STORED=250000`, instead: the same beside an empty store, and beside so many ended tasks with their timelines.
//!
//! `cargo bench -p toolyard-store --bench commit`; `TMPDIR` names the disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinSet;
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{AMPLE, ManualClock, START, owner, result, task};
use toolyard_task::audit::{AuditStore as _, By, Entry};
use toolyard_task::store::Records;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Clock, Event, TaskStore, apply};

/// How often each case is measured; the result is the median.
const ROUNDS: usize = 5;
/// The duration of each measurement.
const EACH: Duration = Duration::from_secs(2);
const PAGES: usize = 1024;
const CLIENTS: [usize; 3] = [1, 16, 64];
const WAYS: [Way; 3] = [
    Way { shown: "one by one", batch: 1, audit: false },
    Way { shown: "group", batch: 512, audit: false },
    Way { shown: "group, audit", batch: 512, audit: true },
];

/// The ways of committing transitions.
#[derive(Clone, Copy)]
struct Way {
    shown: &'static str,
    batch: usize,
    audit: bool,
}

/// The measurements of one round.
struct Round {
    flushes: f64,
    /// In the order of `CLIENTS` and `WAYS`.
    taken: Vec<Vec<Duration>>,
}

impl Round {
    fn rate(&self, row: usize) -> f64 {
        self.taken[row].len() as f64 / EACH.as_secs_f64()
    }

    fn quantile_ms(&self, row: usize, part: f64) -> f64 {
        let taken = &self.taken[row];
        taken[((taken.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3
    }
}

fn main() {
    // The harness asks for a list of tests, or for one round of each.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    if let Ok(stored) = std::env::var("STORED") {
        return runtime.block_on(beside_stored(stored.parse().expect("a number")));
    }
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| round(&runtime)).collect();
    let median = |figure: &dyn Fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").expect("stdout takes it");
    let flushes = median(&|round| round.flushes);
    print(format!("medians of {ROUNDS} rounds; 4 KiB write + fdatasync: {flushes:.0} a second"));
    print(format!(
        "{:>8} {:>14} {:>15} {:>9} {:>9} {:>10} {:>12}",
        "clients", "commit", "transitions/s", "p50 ms", "p99 ms", "x flushes", "x one by one"
    ));
    for (at, clients) in CLIENTS.into_iter().enumerate() {
        let alone = at * WAYS.len();
        for (way, row) in WAYS.into_iter().zip(alone..) {
            print(format!(
                "{clients:>8} {:>14} {:>15.0} {:>9.2} {:>9.2} {:>10.2} {:>12.2}",
                way.shown,
                median(&|round| round.rate(row)),
                median(&|round| round.quantile_ms(row, 0.5)),
                median(&|round| round.quantile_ms(row, 0.99)),
                median(&|round| round.rate(row) / round.flushes),
                median(&|round| round.rate(row) / round.rate(alone)),
            ));
        }
    }
}

fn round(runtime: &tokio::runtime::Runtime) -> Round {
    let before = flushes();
    let mut taken = Vec::new();
    for clients in CLIENTS {
        for way in WAYS {
            let mut each = runtime.block_on(transitions(clients, way));
            each.sort_unstable();
            taken.push(each);
        }
    }
    Round { flushes: f64::midpoint(before, flushes()), taken }
}

/// The duration of each transition that was acknowledged in time.
async fn transitions(clients: usize, Way { batch, audit, .. }: Way) -> Vec<Duration> {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { batch, audit, ..SqliteOptions::new(ManualClock::at(START)) };
    let store = SqliteStore::open(folder.path(), options).expect("opens");
    let until = Instant::now() + EACH;
    let mut lanes = JoinSet::new();
    for client in 0..clients {
        let store = store.clone();
        lanes.spawn(async move { lane(&store, client, until).await });
    }
    let exporting = store.clone();
    let exporter = tokio::spawn(async move { export(&exporting).await });
    let taken = lanes.join_all().await.concat();
    exporter.abort();
    // This drops its handle to the store.
    assert!(exporter.await.is_err(), "it never ends by itself");
    store.shut_down().await;
    taken
}

async fn lane(store: &Arc<SqliteStore>, client: usize, until: Instant) -> Vec<Duration> {
    let owner = owner(&format!("client {client}"));
    let mut taken = Vec::new();
    let mut note = |since: Instant| {
        let now = Instant::now();
        if now <= until {
            taken.push(now - since);
        }
        now
    };
    while Instant::now() < until {
        let begun = Instant::now();
        let new = task(&owner);
        let entry = Entry::created(&new, &By::client());
        let made = store.create(new, AMPLE, vec![entry].into()).await.expect("creates");
        let created = note(begun);
        let event = Event::Finished { fence: made.fence, outcome: result(), message: None };
        let ended = apply(&made, event.clone(), made.updated_at).expect("is live").task;
        let entries = Entry::changed(&event, &ended, &By::host());
        store.commit(&ended, entries.into()).await.expect("commits");
        note(created);
    }
    taken
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A store with so many ended tasks.
struct Filled {
    store: Arc<SqliteStore>,
    folder: tempfile::TempDir,
}

/// The figures of one store in one round.
struct Beside {
    tasks_a_second: f64,
    /// From the creation of the first of 200 tasks until the last has ended.
    burst_ms: f64,
    /// Pages of the log that the burst wrote, for each of its tasks.
    pages: f64,
}

/// Creates and ends tasks in an empty store and beside stored ones, in turns.
async fn beside_stored(stored: u32) {
    let begun = Instant::now();
    let (empty, full) = (filled(0).await, filled(stored).await);
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").expect("stdout takes it");
    print(format!("{stored} tasks were stored in {:.0} s", begun.elapsed().as_secs_f64()));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push((beside(&empty).await, beside(&full).await));
    }
    let median = |figure: &dyn Fn(&(Beside, Beside)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    print(format!("{:>24} {:>10} {:>10} {:>8}", "medians", "empty", "beside", "times"));
    for (name, figure) in [
        ("tasks a second", (|it| it.tasks_a_second) as fn(&Beside) -> f64),
        ("pages of log a task", |it| it.pages),
        ("burst of 200 tasks, ms", |it| it.burst_ms),
    ] {
        print(format!(
            "{name:>24} {:>10.1} {:>10.1} {:>8.2}",
            median(&|(empty, _)| figure(empty)),
            median(&|(_, full)| figure(full)),
            median(&|(empty, full)| figure(full) / figure(empty)),
        ));
    }
    for Filled { store, .. } in [empty, full] {
        store.shut_down().await;
    }
}

async fn filled(stored: u32) -> Filled {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(Arc::new(SystemClock))).expect("opens");
    let left = Arc::new(AtomicU32::new(stored));
    in_lanes(&store, 64, move || {
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    })
    .await;
    Filled { store, folder }
}

async fn beside(Filled { store, folder }: &Filled) -> Beside {
    let until = Instant::now() + EACH;
    let done = Arc::new(AtomicU32::new(0));
    let counted = done.clone();
    in_lanes(store, 64, move || {
        let goes_on = Instant::now() < until;
        counted.fetch_add(u32::from(goes_on), Ordering::Relaxed);
        goes_on
    })
    .await;
    let tasks_a_second = f64::from(done.load(Ordering::Relaxed)) / EACH.as_secs_f64();
    checkpoint(folder.path());
    let (begun, left) = (Instant::now(), Arc::new(AtomicU32::new(200)));
    in_lanes(store, 200, move || {
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    })
    .await;
    let burst_ms = begun.elapsed().as_secs_f64() * 1e3;
    Beside { tasks_a_second, pages: pages_of_log(folder.path()) / 200.0, burst_ms }
}

/// Creates and ends tasks with their timelines, each lane while `goes_on`.
async fn in_lanes(
    store: &Arc<SqliteStore>,
    lanes: usize,
    goes_on: impl Fn() -> bool + Clone + Send + 'static,
) {
    let mut running = JoinSet::new();
    for client in 0..lanes {
        let (store, goes_on) = (store.clone(), goes_on.clone());
        running.spawn(async move {
            let owner = owner(&format!("client {}", client % 8));
            while goes_on() {
                let new = task(&owner);
                let records = Records::created(&new, &By::client());
                let made = store.create(new, AMPLE, records).await.expect("creates");
                let event = Event::Finished { fence: made.fence, outcome: result(), message: None };
                let ended = apply(&made, event.clone(), made.updated_at).expect("is live").task;
                let records = Records::changed(&event, &ended, &By::host());
                store.commit(&ended, records).await.expect("commits");
            }
        });
    }
    running.join_all().await;
}

/// Copies the log back and empties it.
fn checkpoint(folder: &Path) {
    let on = rusqlite::Connection::open(folder.join("toolyard.sqlite")).expect("opens");
    on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("copies");
}

fn pages_of_log(folder: &Path) -> f64 {
    let log = std::fs::metadata(folder.join("toolyard.sqlite-wal")).expect("is there").len();
    // A page has a header of 24 bytes.
    (log / (4096 + 24)) as f64
}

/// The host's export of audit entries, without writing them to a file.
async fn export(store: &SqliteStore) {
    loop {
        store.written().await;
        while let Some(last) = store.pending(64).await.expect("answers").last() {
            store.exported(last.number).await.expect("forgets");
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Like a log that has wrapped around once: the file already has its full size, so a flush writes
/// only the page.
fn flushes() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let file = File::create(folder.path().join("raw")).expect("a file");
    file.write_all_at(&vec![0; 4096 * PAGES], 0).expect("writes");
    file.sync_all().expect("flushes");
    let (page, begun) = ([0x5a; 4096], Instant::now());
    let mut count = 0;
    while begun.elapsed() < EACH / 2 {
        file.write_all_at(&page, 4096 * (count % PAGES) as u64).expect("writes");
        file.sync_data().expect("flushes");
        count += 1;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}
