//! The speed of the disk, which limits everything durable.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: [u8; 4096] = [0x5a; 4096];
/// The length at which SQLite restarts its log from the beginning.
const BLOCKS: u64 = 1_000;

/// Rates per second.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Overwrites of 4 KiB, flushed, as in a log that is reused.
    pub overwrites: f64,
    /// Commits of one row by SQLite, as durable as in the host's store, one after the other.
    pub commits: f64,
}

/// Measures the disk of this folder, for `span` per rate.
pub fn measure(folder: &Path, span: Duration) -> anyhow::Result<Disk> {
    Ok(Disk { overwrites: overwrites(folder, span)?, commits: commits(folder, span)? })
}

fn overwrites(folder: &Path, span: Duration) -> anyhow::Result<f64> {
    let mut file = tempfile::tempfile_in(folder)?;
    for _ in 0..BLOCKS {
        file.write_all(&BLOCK)?;
    }
    file.sync_all()?;
    let mut next = (0..BLOCKS).cycle();
    rate(span, || {
        let block = next.next().unwrap_or_default();
        file.write_all_at(&BLOCK, block * BLOCK.len() as u64)?;
        Ok(file.sync_data()?)
    })
}

fn commits(folder: &Path, span: Duration) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = rusqlite::Connection::open(folder.path().join("plain.sqlite"))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE task (id INTEGER PRIMARY KEY, record TEXT NOT NULL);",
    )?;
    let mut insert = database.prepare("INSERT INTO task (record) VALUES (?1)")?;
    // About as long as the record of a task.
    let record = "x".repeat(600);
    // One round first, so that the log has its full length.
    for _ in 0..BLOCKS {
        insert.execute([&record])?;
    }
    database.execute_batch("PRAGMA synchronous = FULL;")?;
    rate(span, || {
        insert.execute([&record])?;
        Ok(())
    })
}

fn rate(span: Duration, mut act: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut count = 0_u32;
    while began.elapsed() < span {
        act()?;
        count += 1;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}
