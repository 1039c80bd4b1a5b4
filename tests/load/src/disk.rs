//! The speed of plain SQLite on the disk, which limits everything durable.

use std::path::Path;
use std::time::{Duration, Instant};

/// Commits before the measurement, so that the log has its full length: SQLite restarts it from the beginning then.
const FIRST: u32 = 1_000;

/// Measures for this time how many commits of one row SQLite makes in this folder in a second, as durable as in the
/// host's store, one after the other.
pub fn commits(folder: &Path, span: Duration) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = rusqlite::Connection::open(folder.path().join("plain.sqlite"))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE task (id INTEGER PRIMARY KEY, record TEXT NOT NULL);",
    )?;
    let mut insert = database.prepare("INSERT INTO task (record) VALUES (?1)")?;
    // About as long as the record of a task.
    let record = "x".repeat(600);
    for _ in 0..FIRST {
        insert.execute([&record])?;
    }
    database.execute_batch("PRAGMA synchronous = FULL;")?;
    let began = Instant::now();
    let mut count = 0_u32;
    while began.elapsed() < span {
        insert.execute([&record])?;
        count += 1;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}
