//! Values from the columns of rows.

pub(super) use crate::task_encoding::number;

use super::error::unreadable;
use crate::codec::{self, Columns};
use crate::encryption::Sealing;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use toolyard_task::erasure::DataOwner;
use toolyard_task::task::{Summary, Task};
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{StoreError, TaskId};

/// The value of a column. An unexpected one is corrupt.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(unreadable)
}

/// The count or sum in the only row of an answer. The server's integers are signed.
pub(super) fn count(rows: &[Row]) -> Result<u64, StoreError> {
    rows.first().map_or(Ok(0), |row| get(row, 0)).map(i64::unsigned_abs)
}

pub(super) fn ids(rows: &[Row]) -> Result<Vec<TaskId>, StoreError> {
    rows.iter().map(|row| get(row, 0).map(TaskId)).collect()
}

pub(super) fn number_of(status: TaskStatus) -> i16 {
    i16::try_from(codec::status(status)).unwrap_or(i16::MAX)
}

/// The keys of owners as the tables have them.
pub(super) fn keys(of: &DataOwner) -> [Vec<u8>; 3] {
    of.keys().map(String::into_bytes)
}

/// A summary, from the columns id, status, created, updated and record.
pub(super) fn summary(row: &Row, sealing: &Sealing) -> Result<Summary, StoreError> {
    let (id, status) = (TaskId(get(row, 0)?), get::<i16>(row, 1)?.into());
    let columns = Columns { id, status, created: get(row, 2)?, updated: get(row, 3)? };
    let record = sealing.open_record(id, get(row, 4)?)?;
    Ok(codec::summary(&columns, &record)?)
}

/// A task, from the columns record, arguments, outcome, created and updated.
pub(super) fn task(id: TaskId, row: &Row, sealing: &Sealing) -> Result<Task, StoreError> {
    let task = sealing.task(id, get(row, 0)?, get(row, 1)?, get(row, 2)?)?;
    Ok(timed(task, Timestamp(get(row, 3)?), Timestamp(get(row, 4)?)))
}

/// A task with the times of its columns. The record of the first version was written before the
/// server provided the time.
pub(super) fn timed(task: Task, created_at: Timestamp, updated_at: Timestamp) -> Task {
    let started_at = if task.version == 1 { task.started_at.map(|_| created_at) } else { task.started_at };
    Task { created_at, updated_at, started_at, ..task }
}
