//! The erasure of a principal's data: the rule that both databases share.

use crate::reencryption::MAX_BYTES;
use async_trait::async_trait;
use toolyard_task::audit::By;
use toolyard_task::erasure::{DataOwner, Holdings};
use toolyard_task::session::SessionStore;
use toolyard_task::{SessionId, StoreError, TaskId};

/// The maximum number of small rows in one transaction.
pub(crate) const MAX_SMALL_ROWS: i64 = 500;

/// Rows of a principal that one transaction removes.
pub(crate) enum ErasedRows {
    Tasks(Vec<TaskId>),
    /// Some records of runs whose tasks are gone.
    Runs,
    /// Some permissions.
    Permissions,
    Sessions(Vec<SessionId>),
}

/// A database with data of principals.
#[async_trait]
pub(crate) trait ErasureDatabase: SessionStore {
    /// Ended tasks of the principal with the bytes of each, at most [`MAX_TASKS`](crate::reencryption::MAX_TASKS).
    async fn ended_tasks(&self, of: &DataOwner) -> Result<Vec<(TaskId, i64)>, StoreError>;

    /// Removes these rows in one transaction, with an audit entry if there were any. Returns how many.
    async fn remove_rows(&self, of: &DataOwner, by: &By, rows: ErasedRows) -> Result<Holdings, StoreError>;
}

/// Removes rows of the first kind that there is: few, and of bounded length. Records of runs follow their tasks, and
/// sessions are last, because all of them are read to find those of a principal.
pub(crate) async fn erase(
    database: &impl ErasureDatabase,
    of: &DataOwner,
    by: &By,
) -> Result<Holdings, StoreError> {
    let (mut tasks, mut bytes) = (Vec::new(), 0);
    for (task, length) in database.ended_tasks(of).await? {
        if bytes >= MAX_BYTES as i64 {
            break;
        }
        tasks.push(task);
        bytes += length;
    }
    let tasks = (!tasks.is_empty()).then_some(ErasedRows::Tasks(tasks));
    for rows in tasks.into_iter().chain([ErasedRows::Runs, ErasedRows::Permissions]) {
        let erased = database.remove_rows(of, by, rows).await?;
        if erased.total() > 0 {
            return Ok(erased);
        }
    }
    let mut sessions = sessions_of(database, of).await?;
    sessions.truncate(MAX_SMALL_ROWS as usize);
    database.remove_rows(of, by, ErasedRows::Sessions(sessions)).await
}

/// The sessions of a principal.
pub(crate) async fn sessions_of(
    store: &impl SessionStore,
    of: &DataOwner,
) -> Result<Vec<SessionId>, StoreError> {
    let all = store.sessions(u32::MAX).await?;
    Ok(all.into_iter().filter(|session| of.has(&session.owner)).map(|session| session.id).collect())
}
