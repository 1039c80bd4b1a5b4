//! Erasure of a principal's data in SQLite. Removed rows are overwritten, but older copies of them
//! remain in unused parts of the file until [`SqliteStore::vacuum`] rewrites it.

use super::SqliteStore;
use super::error::{corrupt, failed};
use super::rows::{id, ids};
use super::transaction::SqliteTransaction;
use crate::audit_lines;
use crate::reencryption::{MAX_BYTES, MAX_TASKS};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use toolyard_task::audit::{By, Entry};
use toolyard_task::erasure::{DataOwner, Erasure, Holdings, OwnerKeys};
use toolyard_task::session::SessionStore as _;
use toolyard_task::{SessionId, StoreError, TaskId};

/// The maximum number of small rows in one transaction.
const MAX_SMALL_ROWS: usize = 500;

/// Run records may hold a shortened owner name, so while the task exists its own owner counts.
const HELD: &str = "
    SELECT (SELECT count(*) FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status <= 2),
           (SELECT count(*) FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status > 2),
           (SELECT count(*) FROM run WHERE owner = ?4 AND NOT EXISTS (
                SELECT 1 FROM task WHERE id = run.task AND NOT (owner = ?1 OR (owner >= ?2 AND owner < ?3)))),
           (SELECT count(*) FROM permission WHERE owner = ?1 OR (owner >= ?2 AND owner < ?3))";
const LIVE: &str = "
    SELECT id FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status <= 2 LIMIT ?4";
const ENDED: &str = "
    SELECT id, bytes + coalesce((SELECT journal.bytes FROM journal WHERE journal.task = task.seq), 0)
    FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status > 2 LIMIT ?4";

const TASK: &str = "DELETE FROM task WHERE id = ?1 AND status > 2";
const RUNS: &str = "
    DELETE FROM run WHERE seq IN (
        SELECT seq FROM run
        WHERE owner = ?1 AND NOT EXISTS (SELECT 1 FROM task WHERE id = run.task) LIMIT ?2)";
const PERMISSIONS: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = ?1 OR (owner >= ?2 AND owner < ?3) LIMIT ?4)";
const SESSION: &str = "DELETE FROM session WHERE id = ?1";

#[async_trait]
impl Erasure for SqliteStore {
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError> {
        let (OwnerKeys { one, from, until }, name) = (of.keys(), of.short_name());
        let operation = move |on: &Connection| {
            let mut held = on.prepare_cached(HELD).map_err(failed)?;
            let counts = held.query_row(params![one, from, until, name], |row| {
                let count = |column| row.get(column).map(i64::unsigned_abs);
                let (live_tasks, tasks) = (count(0)?, count(1)?);
                Ok(Holdings { live_tasks, tasks, runs: count(2)?, permissions: count(3)?, sessions: 0 })
            });
            counts.map_err(failed)
        };
        let held = self.readers.read(operation).await?;
        Ok(Holdings { sessions: own_sessions(self, of).await?.len() as u64, ..held })
    }

    async fn live_tasks(&self, of: &DataOwner, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let OwnerKeys { one, from, until } = of.keys();
        self.readers.read(move |on| ids(on, LIVE, params![one, from, until, limit])).await
    }

    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError> {
        let tasks = ended(self, of).await?;
        // All sessions are read to find those of a principal, so only once nothing else is left.
        let mut sessions = if tasks.is_empty() { own_sessions(self, of).await? } else { Vec::new() };
        sessions.truncate(MAX_SMALL_ROWS);
        let (of, by, audited) = (of.clone(), by.clone(), self.state.audit.on);
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            writing.on.pragma_update(None, "secure_delete", "ON")?;
            let erased = erase(writing, &of, &tasks, &sessions)?;
            if erased.total() > 0 {
                let entries = [Entry::erased(&of, &erased, &by)];
                let bodies = match audit_lines::bodies(audited, &entries) {
                    Ok(bodies) => bodies,
                    Err(error) => return Ok(Err(corrupt(error))),
                };
                let now = writing.clock.now();
                bodies.iter().for_each(|body| writing.lines.push(now, body));
            }
            Ok(Ok(erased))
        };
        self.writer.write(operation).await?
    }
}

async fn own_sessions(store: &SqliteStore, of: &DataOwner) -> Result<Vec<SessionId>, StoreError> {
    let all = store.sessions(u32::MAX).await?;
    Ok(all.into_iter().filter(|session| of.has(&session.owner)).map(|session| session.id).collect())
}

/// The tasks of the next transaction: few, and of bounded length.
async fn ended(store: &SqliteStore, of: &DataOwner) -> Result<Vec<TaskId>, StoreError> {
    let OwnerKeys { one, from, until } = of.keys();
    let operation = move |on: &Connection| {
        let mut ended = on.prepare_cached(ENDED).map_err(failed)?;
        let mut rows = ended.query(params![one, from, until, MAX_TASKS as i64]).map_err(failed)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < MAX_BYTES as i64
            && let Some(row) = rows.next().map_err(failed)?
        {
            found.push(id(row, 0).map_err(failed)?);
            bytes += row.get::<_, i64>(1).map_err(failed)?;
        }
        Ok(found)
    };
    store.readers.read(operation).await
}

/// Removes rows of the first kind that there is.
fn erase(
    writing: &mut SqliteTransaction<'_>,
    of: &DataOwner,
    tasks: &[TaskId],
    sessions: &[SessionId],
) -> rusqlite::Result<Holdings> {
    let mut erased = Holdings::default();
    let mut task = writing.on.prepare_cached(TASK)?;
    for id in tasks {
        erased.tasks += task.execute(params![id.0.as_bytes()])? as u64;
    }
    if erased.total() > 0 {
        return Ok(erased);
    }
    let limit = MAX_SMALL_ROWS as i64;
    erased.runs = writing.on.prepare_cached(RUNS)?.execute(params![of.short_name(), limit])? as u64;
    if erased.total() > 0 {
        return Ok(erased);
    }
    let OwnerKeys { one, from, until } = of.keys();
    let mut permissions = writing.on.prepare_cached(PERMISSIONS)?;
    erased.permissions = permissions.execute(params![one, from, until, limit])? as u64;
    if erased.permissions < MAX_SMALL_ROWS as u64 {
        let mut session = writing.on.prepare_cached(SESSION)?;
        for id in sessions {
            erased.sessions += session.execute(params![id.as_str()])? as u64;
        }
        writing.counts.sessions_changed(-i32::try_from(erased.sessions).unwrap_or(i32::MAX));
    }
    Ok(erased)
}
