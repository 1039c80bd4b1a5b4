//! What the disk gives: the bound of everything that is durable.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a second 4 KiB can be appended to a file of this folder and be on
/// the disk.
pub fn syncs(folder: &Path, span: Duration) -> anyhow::Result<f64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let block = [0x5a_u8; 4096];
    rate(span, || {
        file.write_all(&block)?;
        Ok(file.sync_data()?)
    })
}

/// How often a second SQLite commits one row there, as durably as the host's
/// store does, one commit after the other.
pub fn commits(folder: &Path, span: Duration) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = rusqlite::Connection::open(folder.path().join("plain.sqlite"))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE task (id INTEGER PRIMARY KEY, record TEXT NOT NULL);",
    )?;
    let mut insert = database.prepare("INSERT INTO task (record) VALUES (?1)")?;
    // About as long as the record of a task.
    let record = "x".repeat(600);
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
