//! Values from the columns of rows.

use super::error::{corrupt, failed};
use crate::codec::{self, CodecError, Columns};
use crate::encryption::Sealing;
use rusqlite::Row;
use rusqlite::types::Type;
use toolyard_task::StoreError;
use toolyard_task::TaskId;
use toolyard_task::task::{Summary, Task};
use uuid::Uuid;

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let uuid = Uuid::from_slice(bytes).map_err(|_| {
        let error = CodecError::Length(bytes.len());
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
    })?;
    Ok(TaskId(uuid))
}

/// SQLite's integers are signed. Counters never come near their limit.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
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
