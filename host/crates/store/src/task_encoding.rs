//! A change of a task, as the columns of a database.

use crate::codec::{self, CodecError};
use crate::encryption::Sealing;
use crate::journal_encoding::fence_columns;
use crate::key_id::KeyId;
use toolyard_task::TaskId;
use toolyard_task::task::Task;

/// The integers of a database are signed. Counters never come near their limit.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The bytes kept for a task with these values.
pub(crate) fn bytes_of(record: &str, arguments: &[u8], outcome: Option<&[u8]>) -> i64 {
    (record.len() + arguments.len() + outcome.map_or(0, <[u8]>::len)) as i64
}

/// A change, encoded by its caller, so that the writer only writes.
pub(crate) struct EncodedTask {
    pub(crate) id: TaskId,
    pub(crate) status: i64,
    pub(crate) updated: i64,
    /// How long after its creation the task changed.
    pub(crate) span: i64,
    pub(crate) due: i64,
    pub(crate) incarnation: i64,
    pub(crate) wake: Option<i64>,
    /// The fence of its journal, if it has one.
    pub(crate) journal: Option<(i64, i64)>,
    pub(crate) version: i64,
    pub(crate) digest: String,
    pub(crate) waits: bool,
    pub(crate) record: String,
    pub(crate) outcome: Option<Vec<u8>>,
    pub(crate) bytes: i64,
    pub(crate) key: Option<KeyId>,
}

impl EncodedTask {
    pub(crate) fn of(task: &Task, sealing: &Sealing) -> Result<Self, CodecError> {
        let (record, outcome) = (sealing.record_of(task)?, sealing.outcome_of(task)?);
        Ok(Self {
            bytes: bytes_of(&record, task.arguments.as_bytes(), outcome.as_deref()),
            id: task.id,
            status: codec::status(task.status()),
            updated: task.updated_at.0,
            span: task.updated_at.0.saturating_sub(task.created_at.0),
            due: task.due_at().0,
            incarnation: number(task.fence.incarnation.0),
            wake: codec::wake(task),
            journal: task.resume.map(|_| fence_columns(task.journal_fence())),
            version: number(task.version),
            digest: task.digest.0.clone(),
            waits: task.waits(),
            record,
            outcome,
            key: sealing.key(),
        })
    }
}
