//! Erasure of a principal's data in PostgreSQL. The server's VACUUM removes the deleted rows from
//! its files.

use super::error::PostgresError;
use super::rows::{get, keys};
use super::transaction::PostgresTransaction;
use super::{PostgresStore, tasks};
use crate::audit_lines;
use crate::erasure::{ErasedRows, ErasureDatabase, MAX_SMALL_ROWS, erase, sessions_of};
use crate::group_commit::closed;
use crate::reencryption::MAX_TASKS;
use async_trait::async_trait;
use tokio_postgres::types::ToSql;
use toolyard_task::audit::{By, Entry};
use toolyard_task::erasure::{DataOwner, Erasure, Holdings};
use toolyard_task::store::Removable;
use toolyard_task::{SessionId, StoreError, TaskId};
use uuid::Uuid;

/// Run records may hold a shortened owner name, so while the task exists its own owner counts.
const HELD: &str = "
    SELECT (SELECT count(*) FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status <= 2),
           (SELECT count(*) FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status > 2),
           (SELECT count(*) FROM run WHERE owner = $4 AND NOT EXISTS (
                SELECT 1 FROM task WHERE id = run.task AND NOT (owner = $1 OR (owner >= $2 AND owner < $3)))),
           (SELECT count(*) FROM permission WHERE owner = $1 OR (owner >= $2 AND owner < $3))";
const ENDED: &str = "
    SELECT id, bytes + coalesce((SELECT journal.bytes FROM journal WHERE journal.task = task.id), 0)
    FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status > 2 LIMIT $4";

const RUNS: &str = "
    DELETE FROM run WHERE task_seq IS NULL AND (task, attempt) IN (
        SELECT task, attempt FROM run WHERE task_seq IS NULL AND owner = $1
        ORDER BY task, attempt LIMIT $2 FOR UPDATE)";
const PERMISSIONS: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = $1 OR (owner >= $2 AND owner < $3)
        ORDER BY id LIMIT $4 FOR UPDATE)";
const SESSIONS: &str = "
    DELETE FROM session WHERE id IN (SELECT id FROM session WHERE id = ANY($1) ORDER BY id FOR UPDATE)";

#[async_trait]
impl Erasure for PostgresStore {
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError> {
        let ([one, from, until], name) = (keys(of), of.short_name().into_bytes());
        let rows = self.readers.rows(HELD, &[&one, &from, &until, &name]).await?;
        let row = rows.first().ok_or_else(closed)?;
        let count = |column| get(row, column).map(i64::unsigned_abs);
        Ok(Holdings {
            live_tasks: count(0)?,
            tasks: count(1)?,
            runs: count(2)?,
            sessions: sessions_of(self, of).await?.len() as u64,
            permissions: count(3)?,
        })
    }

    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError> {
        erase(self, of, by).await
    }
}

#[async_trait]
impl ErasureDatabase for PostgresStore {
    async fn ended_tasks(&self, of: &DataOwner) -> Result<Vec<(TaskId, i64)>, StoreError> {
        let [one, from, until] = keys(of);
        let rows = self.readers.rows(ENDED, &[&one, &from, &until, &(MAX_TASKS as i64)]).await?;
        rows.iter().map(|row| Ok((TaskId(get(row, 0)?), get(row, 1)?))).collect()
    }

    async fn remove_rows(&self, of: &DataOwner, by: &By, rows: ErasedRows) -> Result<Holdings, StoreError> {
        let (given, audited) = ((of.clone(), by.clone(), rows), self.state.audit.on);
        let removed = self.writer.write(given, move |writing, (of, by, rows)| {
            Box::pin(async move {
                let erased = remove(writing, of, rows).await?;
                if erased.total() > 0 {
                    let bodies = audit_lines::bodies(audited, &[Entry::erased(of, &erased, by)])?;
                    writing.log_all(writing.time().await?, &bodies);
                }
                Ok(erased)
            })
        });
        removed.await
    }
}

async fn remove(
    writing: &PostgresTransaction<'_>,
    of: &DataOwner,
    rows: &ErasedRows,
) -> Result<Holdings, PostgresError> {
    let mut erased = Holdings::default();
    match rows {
        ErasedRows::Tasks(ids) => {
            let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
            erased.tasks = tasks::remove(writing, &ids, Removable::Ended).await?.len() as u64;
        }
        ErasedRows::Runs => {
            let name = of.short_name().into_bytes();
            erased.runs = writing.execute(RUNS, &[&name, &MAX_SMALL_ROWS]).await?;
        }
        ErasedRows::Permissions => {
            let [one, from, until] = keys(of);
            let given: [&(dyn ToSql + Sync); 4] = [&one, &from, &until, &MAX_SMALL_ROWS];
            erased.permissions = writing.execute(PERMISSIONS, &given).await?;
        }
        ErasedRows::Sessions(ids) => {
            let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
            erased.sessions = writing.execute(SESSIONS, &[&ids]).await?;
        }
    }
    Ok(erased)
}
