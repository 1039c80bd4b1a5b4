//! Values from the columns of rows.

pub(super) use crate::task_encoding::number;

use super::error::{corrupt, failed};
use crate::codec::{self, CodecError, Columns};
use crate::encryption::Sealing;
use rusqlite::types::{FromSql, Type};
use rusqlite::{Connection, Params, Row};
use toolyard_task::task::{Summary, Task};
use toolyard_task::{StoreError, TaskId};
use uuid::Uuid;

/// Passes each row of an answer to `read`, and returns the values.
pub(super) fn all<T>(
    on: &Connection,
    sql: &str,
    given: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = on.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(given).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Passes the first row of an answer to `read`, if there is one.
pub(super) fn first<T>(
    on: &Connection,
    sql: &str,
    given: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = on.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(given).map_err(failed)?;
    rows.next().map_err(failed)?.map(read).transpose()
}

/// The value of an answer that has one row with one column.
pub(super) fn only<T: FromSql>(on: &Connection, sql: &str, given: impl Params) -> Result<T, StoreError> {
    let value = on.prepare_cached(sql).and_then(|mut one| one.query_row(given, |row| row.get(0)));
    value.map_err(failed)
}

/// As [`only`], for a count or sum. SQLite's integers are signed.
pub(super) fn count(on: &Connection, sql: &str, given: impl Params) -> Result<u64, StoreError> {
    only(on, sql, given).map(i64::unsigned_abs)
}

/// The ids in the first column of an answer.
pub(super) fn ids(on: &Connection, sql: &str, given: impl Params) -> Result<Vec<TaskId>, StoreError> {
    all(on, sql, given, |row| id(row, 0).map_err(failed))
}

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let uuid = Uuid::from_slice(bytes).map_err(|_| {
        let error = CodecError::Length(bytes.len());
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
    })?;
    Ok(TaskId(uuid))
}

/// A summary, from the columns id, status, created, updated and record.
pub(super) fn summary(row: &Row<'_>, sealing: &Sealing) -> Result<Summary, StoreError> {
    let columns = |row: &Row<'_>| {
        Ok(Columns { id: id(row, 0)?, status: row.get(1)?, created: row.get(2)?, updated: row.get(3)? })
    };
    let columns = columns(row).map_err(failed)?;
    let record = row.get_ref(4).map_err(failed)?.as_str().map_err(|error| failed(error.into()))?;
    let record = sealing.open_record(columns.id, record).map_err(corrupt)?;
    codec::summary(&columns, &record).map_err(corrupt)
}

/// A task, from the columns record, arguments and outcome.
pub(super) fn task(id: TaskId, row: &Row<'_>, sealing: &Sealing) -> Result<Task, StoreError> {
    let record = row.get_ref(0).map_err(failed)?.as_str().map_err(|error| failed(error.into()))?;
    let (arguments, outcome) = (row.get(1).map_err(failed)?, row.get(2).map_err(failed)?);
    sealing.task(id, record, arguments, outcome).map_err(corrupt)
}
