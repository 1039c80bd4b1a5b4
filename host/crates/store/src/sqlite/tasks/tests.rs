use super::*;
use crate::encryption::Sealing;
use crate::sqlite::{SqliteOptions, schema};
use std::time::Duration;
use toolyard_store_contract::{ManualClock, START};

/// The plan of a statement, in SQLite's words.
pub(in crate::sqlite) fn plan(on: &Connection, sql: &str) -> String {
    let mut statement = on.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("prepares");
    let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3));
    rows.expect("explains").collect::<Result<Vec<_>, _>>().expect("explains").join("; ")
}

#[test]
fn every_statement_finds_its_rows_through_an_index_and_none_sorts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, on) = schema::prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
    for (sql, expected) in [
        (READ, "task USING INDEX sqlite_autoindex_task_1 (id=?)"),
        (FIND, "task USING INDEX sqlite_autoindex_task_1 (id=?)"),
        (REMOVE, "task USING INDEX sqlite_autoindex_task_1 (id=?)"),
        (UPDATE, "task USING INTEGER PRIMARY KEY (rowid=?)"),
        (DUE, "task USING COVERING INDEX task_by_due (due<?)"),
        (HELD, "task USING COVERING INDEX live_task_by_incarnation (incarnation=?)"),
    ] {
        let plan = plan(&on, sql);
        assert!(plan.contains(expected), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{sql}: {plan}");
    }
}

#[test]
fn a_file_of_this_schema_is_not_written_to_when_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = || {
        drop(SqliteStore::open(folder.path(), SqliteOptions::new(ManualClock::at(START))).expect("opens"));
        std::fs::read(folder.path().join("toolyard.sqlite")).expect("is there")
    };
    let before = opened();
    assert!(opened() == before);
}
