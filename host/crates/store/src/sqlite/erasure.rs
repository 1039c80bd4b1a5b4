//! Erasure of a principal's data in SQLite. Removed rows are overwritten, but older copies of them
//! remain in unused parts of the file until [`SqliteStore::vacuum`] rewrites it.

use super::error::SqliteError;
use super::rows::{self, id};
use super::transaction::SqliteTransaction;
use super::{SqliteStore, tasks};
use crate::audit_lines;
use crate::erasure::{ErasedRows, ErasureDatabase, MAX_SMALL_ROWS, erase, sessions_of};
use crate::reencryption::MAX_TASKS;
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolyard_task::audit::{By, Entry};
use toolyard_task::erasure::{DataOwner, Erasure, Holdings};
use toolyard_task::store::Removable;
use toolyard_task::{StoreError, TaskId};

/// Run records may hold a shortened owner name, so while the task exists its own owner counts.
const HELD: &str = "
    SELECT (SELECT count(*) FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status <= 2),
           (SELECT count(*) FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status > 2),
           (SELECT count(*) FROM run WHERE owner = ?4 AND NOT EXISTS (
                SELECT 1 FROM task WHERE seq = run.task_seq AND NOT (owner = ?1 OR (owner >= ?2 AND owner < ?3)))),
           (SELECT count(*) FROM permission WHERE owner = ?1 OR (owner >= ?2 AND owner < ?3))";
const ENDED: &str = "
    SELECT id, bytes + coalesce((SELECT journal.bytes FROM journal WHERE journal.task = task.seq), 0)
    FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status > 2 LIMIT ?4";

const RUNS: &str = "
    DELETE FROM run WHERE seq IN (
        SELECT seq FROM run WHERE owner = ?1 AND task_seq IS NULL LIMIT ?2)";
const PERMISSIONS: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = ?1 OR (owner >= ?2 AND owner < ?3) LIMIT ?4)";
const SESSION: &str = "DELETE FROM session WHERE id = ?1";

#[async_trait]
impl Erasure for SqliteStore {
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError> {
        let ([one, from, until], name) = (of.keys(), of.short_name());
        let operation = move |on: &Connection| {
            let held = rows::first(on, HELD, params![one, from, until, name], |row| {
                let count = |column| row.get(column).map(i64::unsigned_abs);
                let (live_tasks, tasks) = (count(0)?, count(1)?);
                Ok(Holdings { live_tasks, tasks, runs: count(2)?, permissions: count(3)?, sessions: 0 })
            });
            Ok(held?.unwrap_or_default())
        };
        let held = self.readers.read(operation).await?;
        Ok(Holdings { sessions: sessions_of(self, of).await?.len() as u64, ..held })
    }

    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError> {
        erase(self, of, by).await
    }
}

#[async_trait]
impl ErasureDatabase for SqliteStore {
    async fn ended_tasks(&self, of: &DataOwner) -> Result<Vec<(TaskId, i64)>, StoreError> {
        let [one, from, until] = of.keys();
        let ended = |row: &Row<'_>| Ok((id(row, 0)?, row.get(1)?));
        let operation =
            move |on: &Connection| rows::all(on, ENDED, params![one, from, until, MAX_TASKS as i64], ended);
        self.readers.read(operation).await
    }

    async fn remove_rows(&self, of: &DataOwner, by: &By, rows: ErasedRows) -> Result<Holdings, StoreError> {
        let (of, by, audited) = (of.clone(), by.clone(), self.state.audit.on);
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            writing.on.pragma_update(None, "secure_delete", "ON")?;
            let erased = remove(writing, &of, &rows)?;
            if erased.total() > 0 {
                let bodies = audit_lines::bodies(audited, &[Entry::erased(&of, &erased, &by)])?;
                writing.log(writing.clock.now(), &bodies);
            }
            Ok(erased)
        };
        self.writer.write(operation).await
    }
}

fn remove(
    writing: &mut SqliteTransaction<'_>,
    of: &DataOwner,
    rows: &ErasedRows,
) -> Result<Holdings, SqliteError> {
    let [one, from, until] = of.keys();
    let mut erased = Holdings::default();
    match rows {
        ErasedRows::Tasks(ids) => {
            for id in ids {
                erased.tasks += u64::from(tasks::remove(writing, *id, Removable::Ended)?);
            }
        }
        ErasedRows::Runs => {
            erased.runs = writing.execute(RUNS, params![of.short_name(), MAX_SMALL_ROWS])? as u64;
        }
        ErasedRows::Permissions => {
            let given = params![one, from, until, MAX_SMALL_ROWS];
            erased.permissions = writing.execute(PERMISSIONS, given)? as u64;
        }
        ErasedRows::Sessions(ids) => {
            for id in ids {
                erased.sessions += writing.execute(SESSION, params![id.as_str()])? as u64;
            }
            writing.counts.sessions_changed(-i32::try_from(erased.sessions).unwrap_or(i32::MAX));
        }
    }
    Ok(erased)
}
