//! The number of durable transitions a second in the SQLite store: tasks created and finished by 1,
//! 16 and 64 clients, with and without group commit, compared with a bare 4 KiB write and flush on
//! the same disk; and the cost of audit entries. The speed of a disk drifts, so the cases take
//! turns in several rounds, and the ratios within a round are the result.
//!
//! With `STORED=250000`, instead: tasks with their timelines in an empty store, and beside so many ended ones, on
//! SQLite and on PostgreSQL (or on the one that the argument `sqlite` or `postgres` names), beside what the plain
//! database commits.
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
use toolyard_store::postgres::{PostgresLocation, PostgresOptions, PostgresStore};
use toolyard_store::{Backend, SqliteOptions, SqliteStore};
use toolyard_store_contract::{AMPLE, ManualClock, START, owner, result, task};
use toolyard_task::audit::{AuditStore as _, By, Entry};
use toolyard_task::store::Records;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Clock, Event, TaskStore, apply};

#[path = "../../../../tests/src/postgres.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod postgres;

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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
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
    store: Arc<dyn Backend>,
    log: Log,
}

/// What the database writes ahead of its tables.
enum Log {
    Sqlite(tempfile::TempDir),
    Postgres(tokio_postgres::Client),
}

/// The figures of one store in one round.
struct Beside {
    tasks_a_second: f64,
    /// Tasks for each second of a processor, whichever process used it.
    tasks_a_core: f64,
    /// From the creation of the first of 200 tasks until the last has ended.
    burst_ms: f64,
    /// KiB of the log that the burst wrote, for each of its tasks.
    log_kib: f64,
}

/// Creates and ends tasks in an empty store and beside stored ones, in turns, in each database.
async fn beside_stored(stored: u32) {
    let one = std::env::args().find(|argument| ["sqlite", "postgres"].contains(&argument.as_str()));
    let asked = |name| one.as_ref().is_none_or(|one| one == name);
    if asked("sqlite") {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = plain_sqlite(folder.path());
        let (empty, full) = (in_sqlite(0).await, in_sqlite(stored).await);
        let name = format!("SQLite; it commits {plain:.0} plain rows a second, one by one");
        compare(&name, stored, empty, full).await;
    }
    if asked("postgres")
        && let Some(server) = postgres::Server::start(postgres::Flushing::On)
    {
        let plain = plain_postgres(&server).await;
        let (empty, full) = (in_postgres(&server, 0).await, in_postgres(&server, stored).await);
        let name =
            format!("PostgreSQL; it commits {plain:.0} plain rows a second for {PLAIN_CLIENTS} clients");
        compare(&name, stored, empty, full).await;
    }
}

async fn compare(database: &str, stored: u32, empty: Filled, full: Filled) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push((beside(&empty).await, beside(&full).await));
    }
    let median = |figure: &dyn Fn(&(Beside, Beside)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").expect("stdout takes it");
    print(database.to_owned());
    print(format!("{:>24} {:>10} {stored:>10} {:>8}", "tasks stored before", 0, "times"));
    for (name, figure) in [
        ("tasks a second", (|it| it.tasks_a_second) as fn(&Beside) -> f64),
        ("tasks a core's second", |it| it.tasks_a_core),
        ("KiB of log a task", |it| it.log_kib),
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

async fn in_sqlite(stored: u32) -> Filled {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(Arc::new(SystemClock))).expect("opens");
    fill(store, stored, Log::Sqlite(folder)).await
}

async fn in_postgres(server: &postgres::Server, stored: u32) -> Filled {
    let url = server.address();
    let place = PostgresLocation::parse(&url, &format!("stored{stored}")).expect("an address");
    let store = PostgresStore::open(place, PostgresOptions::default()).await.expect("opens");
    let on = client(&url).await;
    let Filled { store, log } = fill(store, stored, Log::Postgres(on)).await;
    for sql in ["VACUUM ANALYZE", "CHECKPOINT"] {
        client(&url).await.batch_execute(sql).await.expect("tidies");
    }
    Filled { store, log }
}

async fn fill(store: Arc<dyn Backend>, stored: u32, log: Log) -> Filled {
    let left = Arc::new(AtomicU32::new(stored));
    in_lanes(&store, 64, move || {
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    })
    .await;
    Filled { store, log }
}

async fn beside(Filled { store, log }: &Filled) -> Beside {
    let (busy, until) = (cpu_seconds(), Instant::now() + EACH);
    let done = Arc::new(AtomicU32::new(0));
    let counted = done.clone();
    in_lanes(store, 64, move || {
        let goes_on = Instant::now() < until;
        counted.fetch_add(u32::from(goes_on), Ordering::Relaxed);
        goes_on
    })
    .await;
    let (tasks, busy) = (f64::from(done.load(Ordering::Relaxed)), cpu_seconds() - busy);
    log.checkpoint().await;
    let before = log.written().await;
    let (begun, left) = (Instant::now(), Arc::new(AtomicU32::new(200)));
    in_lanes(store, 200, move || {
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    })
    .await;
    let burst_ms = begun.elapsed().as_secs_f64() * 1e3;
    let log_kib = (log.written().await - before) / 1024.0 / 200.0;
    Beside { tasks_a_second: tasks / EACH.as_secs_f64(), tasks_a_core: tasks / busy, burst_ms, log_kib }
}

/// The seconds that all processors of the machine have worked.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/stat").expect("Linux");
    let fields: Vec<f64> = times
        .lines()
        .next()
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|it| it.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq: in hundredths.
    (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / 100.0
}

impl Log {
    /// Empties it, to see what is written.
    async fn checkpoint(&self) {
        match self {
            Self::Sqlite(folder) => {
                let on = rusqlite::Connection::open(folder.path().join("toolyard.sqlite")).expect("opens");
                on.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("copies");
            }
            // It tells how much it has written; and what it does after a checkpoint is seldom.
            Self::Postgres(_) => {}
        }
    }

    /// The bytes written to it.
    async fn written(&self) -> f64 {
        match self {
            Self::Sqlite(folder) => {
                std::fs::metadata(folder.path().join("toolyard.sqlite-wal")).expect("is there").len() as f64
            }
            Self::Postgres(on) => {
                let sql = "SELECT (pg_current_wal_lsn() - '0/0')::float8";
                on.query_one(sql, &[]).await.expect("answers").get(0)
            }
        }
    }
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// A row like a small task, in the plainest table.
const PLAIN: &str = "CREATE TABLE plain (id INTEGER PRIMARY KEY, body TEXT NOT NULL)";

/// Rows that plain SQLite commits a second, with the settings of the store.
fn plain_sqlite(folder: &Path) -> f64 {
    let on = rusqlite::Connection::open(folder.join("plain")).expect("opens");
    on.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {PLAIN}"))
        .expect("makes");
    let (begun, body, mut rows) = (Instant::now(), "x".repeat(600), 0.0);
    while begun.elapsed() < EACH {
        on.execute("INSERT INTO plain (body) VALUES (?1)", [&body]).expect("writes");
        rows += 1.0;
    }
    rows / begun.elapsed().as_secs_f64()
}

const PLAIN_CLIENTS: i32 = 64;

/// Rows that plain PostgreSQL commits a second, one in each transaction.
async fn plain_postgres(server: &postgres::Server) -> f64 {
    let url = server.address();
    client(&url).await.batch_execute(PLAIN).await.expect("makes");
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..PLAIN_CLIENTS {
        let on = client(&url).await;
        clients.spawn(async move {
            let (insert, body) = (on.prepare("INSERT INTO plain VALUES ($1, $2)").await, "x".repeat(600));
            let (insert, mut rows) = (insert.expect("prepares"), 0);
            while begun.elapsed() < EACH {
                on.execute(&insert, &[&(rows * PLAIN_CLIENTS + number), &body]).await.expect("writes");
                rows += 1;
            }
            f64::from(rows)
        });
    }
    clients.join_all().await.into_iter().sum::<f64>() / begun.elapsed().as_secs_f64()
}

/// Creates and ends tasks with their timelines, each lane while `goes_on`.
async fn in_lanes(
    store: &Arc<dyn Backend>,
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
