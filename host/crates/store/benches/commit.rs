//! How many durable transitions a second the SQLite store makes: tasks created
//! and finished by 1, 16 and 64 clients, with group commit and without, beside
//! what the same disk does with a bare 4 KiB write and flush, in the same run; and
//! what audit entries cost.
//!
//! `cargo bench -p toolyard-store`; `TMPDIR` says which disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use toolyard_store::contract::{AMPLE, ManualClock, START, owner, result, task};
use toolyard_store::{SqliteOptions, SqliteStore};
use toolyard_task::audit::{AuditStore as _, By, Entry};
use toolyard_task::{Event, TaskStore, apply};

const EACH: Duration = Duration::from_secs(2);
const PAGES: usize = 1024;

fn main() {
    // The harness asks for a list of tests, or for one round of each.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    // Before and after, since a disk's pace drifts.
    let before = flushes();
    let mut rows = Vec::new();
    for clients in [1, 16, 64] {
        for (batch, audit) in [(1, false), (512, false), (512, true)] {
            rows.push((clients, batch, audit, runtime.block_on(transitions(clients, batch, audit))));
        }
    }
    let raw = f64::midpoint(before, flushes());
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").expect("stdout takes it");
    print(format!("4 KiB write + fdatasync: {raw:.0} a second"));
    print(format!(
        "{:>8} {:>14} {:>15} {:>9} {:>9} {:>10}",
        "clients", "commit", "transitions/s", "p50 ms", "p99 ms", "x flushes"
    ));
    for (clients, batch, audit, mut taken) in rows {
        let rate = taken.len() as f64 / EACH.as_secs_f64();
        taken.sort_unstable();
        let at = |part: f64| {
            let place = ((taken.len() - 1) as f64 * part) as usize;
            taken[place].as_secs_f64() * 1e3
        };
        let commit = match (batch, audit) {
            (1, _) => "one by one",
            (_, false) => "group",
            (_, true) => "group, audit",
        };
        print(format!(
            "{clients:>8} {commit:>14} {rate:>15.0} {:>9.2} {:>9.2} {:>10.2}",
            at(0.5),
            at(0.99),
            rate / raw
        ));
    }
}

/// How long each transition took, of those that were acknowledged in time.
async fn transitions(clients: usize, batch: usize, audit: bool) -> Vec<Duration> {
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
    // Its handle to the store goes with it.
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
        let made = store.create(new, AMPLE, vec![entry]).await.expect("creates");
        let created = note(begun);
        let event = Event::Finished { fence: made.fence, outcome: result(), message: None };
        let ended = apply(&made, event.clone(), made.updated_at).expect("is live");
        let entries = Entry::changed(&event, &ended, &By::host());
        store.commit(&ended, entries).await.expect("commits");
        note(created);
    }
    taken
}

/// What the host does about audit entries, but for the file they go to.
async fn export(store: &SqliteStore) {
    loop {
        store.written().await;
        while let Some(last) = store.pending(64).await.expect("answers").last() {
            store.exported(last.number).await.expect("forgets");
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// As a log that has been through once: within a file that has its size already,
/// so that a flush writes no more than the page.
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
