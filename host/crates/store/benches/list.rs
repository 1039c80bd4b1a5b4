//! How long a page of a listing or a search takes among a million tasks in SQLite.
//!
//! `cargo bench -p toolyard-store --bench list`. The file is made once and kept in
//! the target folder; `LIST_RECORDS` says how many tasks it has.

#[path = "kit/pages.rs"]
mod pages;

use pages::{DAY, DAYS, Record};
use rusqlite::{Connection, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use toolyard_store::contract::{ManualClock, START};
use toolyard_store::{SqliteOptions, SqliteStore};

/// Written to the name of the file; to be raised when what is in it changes.
const CONTENT: u32 = 1;

fn main() {
    let Some(records) = pages::wanted() else { return };
    let folder = file_of(records);
    // Into the memory of the operating system, where a file in use is; a disk would
    // be measured otherwise.
    let mut file = fs::File::open(folder.join("toolyard.sqlite")).expect("opens");
    std::io::copy(&mut file, &mut std::io::sink()).expect("reads");
    let store = SqliteStore::open(&folder, SqliteOptions::new(ManualClock::at(START))).expect("opens");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let file = Connection::open(folder.join("toolyard.sqlite")).expect("opens");
    let span = |longest: &str| {
        file.execute(&format!("UPDATE span SET longest = {longest}"), []).expect("updates");
    };
    // Set again, in case an earlier run was killed within its second part.
    span("(SELECT max(updated - created) FROM task INDEXED BY task_by_status_created)");
    let mut rows = runtime.block_on(pages::measure(&*store));
    // As if one task had taken all of the time, so that a window on one time says
    // nothing of the other, and the budget is all that bounds a walk.
    span(&(DAYS * DAY).to_string());
    rows.extend(runtime.block_on(pages::measure_without_span(&*store)));
    runtime.block_on(store.shut_down());
    pages::print(&format!("{records} tasks in SQLite"), &rows);
}

/// The folder of a store with so many tasks, which is made if it is not there.
fn file_of(records: i64) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("is within the target folder");
    let bench = target.join("bench");
    fs::create_dir_all(&bench).expect("makes");
    let made = bench.join("list-new");
    let _ = fs::remove_dir_all(&made);
    let store = SqliteStore::open(&made, SqliteOptions::new(ManualClock::at(START))).expect("opens");
    drop(store);
    let on = Connection::open(made.join("toolyard.sqlite")).expect("opens");
    let schema: i64 = on.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("reads");
    let kept = bench.join(format!("list-{records}-schema-{schema}-content-{CONTENT}"));
    if !kept.exists() {
        // Of another schema or size; each takes gigabytes.
        for entry in fs::read_dir(&bench).expect("is there").flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("list-") && entry.path() != made {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let begun = Instant::now();
        fill(&on, records);
        drop(on);
        fs::rename(&made, &kept).expect("renames");
        eprintln!("{records} tasks written in {:.0} s", begun.elapsed().as_secs_f64());
    }
    let _ = fs::remove_dir_all(&made);
    kept
}

/// Past the port, with the indexes made last: a million creations and ends
/// through it would take minutes.
fn fill(on: &Connection, records: i64) {
    on.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
        .expect("sets");
    let sql =
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'task' AND sql NOT NULL";
    let indexes: Vec<(String, String)> = on
        .prepare(sql)
        .and_then(|mut read| read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .expect("reads");
    on.execute_batch("BEGIN").expect("begins");
    for (name, _) in &indexes {
        on.execute_batch(&format!("DROP INDEX {name}")).expect("drops");
    }
    let mut insert = on
        .prepare(
            "INSERT INTO task (id, owner, status, created, updated, due, incarnation, version, record, arguments, outcome)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, 2, ?7, ?8, ?9)",
        )
        .expect("prepares");
    let (arguments, outcome) = (pages::arguments(), pages::outcome());
    for Record { task, status, created, updated, record } in pages::records(records) {
        insert
            .execute(params![
                task.id.0.as_bytes(),
                task.owner.key(),
                status,
                created,
                updated,
                task.due_at().0,
                record,
                arguments.as_bytes(),
                (status > 2).then_some(outcome.as_bytes()),
            ])
            .expect("inserts");
    }
    drop(insert);
    for (_, sql) in &indexes {
        on.execute_batch(sql).expect("makes the index");
    }
    on.execute_batch("COMMIT; PRAGMA journal_mode = WAL").expect("commits");
}
