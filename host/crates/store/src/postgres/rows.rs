//! Values from the columns of rows.

pub(super) use crate::task_encoding::number;

use super::error::{corrupt, unreadable};
use crate::codec::{self, Columns};
use crate::encryption::Sealing;
use tokio_postgres::Row;
use toolyard_task::task::{Summary, Task};
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{StoreError, TaskId};

/// The count or sum in the only row of an answer. The server's integers are signed.
pub(super) fn count(rows: &[Row]) -> Result<u64, StoreError> {
    rows.first().map_or(Ok(0), |row| row.try_get(0)).map(i64::unsigned_abs).map_err(unreadable)
}

pub(super) fn ids(rows: &[Row]) -> Result<Vec<TaskId>, StoreError> {
    rows.iter().map(|row| row.try_get(0).map(TaskId).map_err(unreadable)).collect()
}

pub(super) fn number_of(status: TaskStatus) -> i16 {
    i16::try_from(codec::status(status)).unwrap_or(i16::MAX)
}

/// A summary, from the columns id, status, created, updated and record.
pub(super) fn summary(row: &Row, sealing: &Sealing) -> Result<Summary, StoreError> {
    let columns = |row: &Row| {
        Ok(Columns {
            id: TaskId(row.try_get(0)?),
            status: row.try_get::<_, i16>(1)?.into(),
            created: row.try_get(2)?,
            updated: row.try_get(3)?,
        })
    };
    let columns = columns(row).map_err(unreadable)?;
    let record = sealing.open_record(columns.id, row.try_get(4).map_err(unreadable)?).map_err(corrupt)?;
    codec::summary(&columns, &record).map_err(corrupt)
}

/// A task, from the columns record, arguments, outcome, created and updated.
pub(super) fn task(id: TaskId, row: &Row, sealing: &Sealing) -> Result<Task, StoreError> {
    let (record, arguments) = (row.try_get(0).map_err(unreadable)?, row.try_get(1).map_err(unreadable)?);
    let outcome = row.try_get(2).map_err(unreadable)?;
    let task = sealing.task(id, record, arguments, outcome).map_err(corrupt)?;
    let times = (row.try_get(3).map_err(unreadable)?, row.try_get(4).map_err(unreadable)?);
    Ok(timed(task, Timestamp(times.0), Timestamp(times.1)))
}

/// A task with the times of its columns. The record of the first version was written before the
/// server provided the time.
pub(super) fn timed(task: Task, created_at: Timestamp, updated_at: Timestamp) -> Task {
    let started_at = if task.version == 1 { task.started_at.map(|_| created_at) } else { task.started_at };
    Task { created_at, updated_at, started_at, ..task }
}
