//! Values from the columns of rows.

pub(super) use crate::task_encoding::number;

use super::error::SqliteError;
use crate::codec::{self, CodecError, Columns};
use crate::encryption::Sealing;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};
use toolyard_task::TaskId;
use toolyard_task::task::{Summary, Task};
use uuid::Uuid;

/// Passes each row of an answer to `read`, and returns the values.
pub(super) fn all<T>(
    on: &Connection,
    sql: &str,
    given: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, SqliteError>,
) -> Result<Vec<T>, SqliteError> {
    let mut statement = on.prepare_cached(sql)?;
    let mut rows = statement.query(given)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Passes the first row of an answer to `read`, if there is one.
pub(super) fn first<T>(
    on: &Connection,
    sql: &str,
    given: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, SqliteError>,
) -> Result<Option<T>, SqliteError> {
    on.prepare_cached(sql)?.query(given)?.next()?.map(read).transpose()
}

/// The value of an answer that has one row with one column.
pub(super) fn only<T: FromSql>(on: &Connection, sql: &str, given: impl Params) -> Result<T, SqliteError> {
    Ok(on.prepare_cached(sql)?.query_row(given, |row| row.get(0))?)
}

/// As [`only`], for a count or sum. SQLite's integers are signed.
pub(super) fn count(on: &Connection, sql: &str, given: impl Params) -> Result<u64, SqliteError> {
    only(on, sql, given).map(i64::unsigned_abs)
}

/// Runs a statement and returns the number of affected rows.
pub(super) fn execute(on: &Connection, sql: &str, given: impl Params) -> Result<usize, SqliteError> {
    Ok(on.prepare_cached(sql)?.execute(given)?)
}

/// The ids in the first column of an answer.
pub(super) fn ids(on: &Connection, sql: &str, given: impl Params) -> Result<Vec<TaskId>, SqliteError> {
    all(on, sql, given, |row| id(row, 0))
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Result<TaskId, SqliteError> {
    let bytes = blob(row, column)?;
    Ok(TaskId(Uuid::from_slice(bytes).map_err(|_| CodecError::Length(bytes.len()))?))
}

/// A text that is not copied.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// Bytes that are not copied.
pub(super) fn blob<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

/// A summary, from the columns id, status, created, updated and record.
pub(super) fn summary(row: &Row<'_>, sealing: &Sealing) -> Result<Summary, SqliteError> {
    let id = id(row, 0)?;
    let columns = Columns { id, status: row.get(1)?, created: row.get(2)?, updated: row.get(3)? };
    let record = sealing.open_record(id, text(row, 4)?)?;
    Ok(codec::summary(&columns, &record)?)
}

/// A task, from the columns record, arguments and outcome.
pub(super) fn task(id: TaskId, row: &Row<'_>, sealing: &Sealing) -> Result<Task, SqliteError> {
    Ok(sealing.task(id, text(row, 0)?, row.get(1)?, row.get(2)?)?)
}
