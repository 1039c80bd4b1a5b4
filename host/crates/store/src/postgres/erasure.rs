//! Erasure of a principal's data in PostgreSQL. The server's VACUUM removes the deleted rows from
//! its files.

use super::error::{corrupt, unreadable};
use super::rows::ids;
use super::transaction::PostgresTransaction;
use super::{PostgresStore, timeline};
use crate::audit_lines;
use crate::reencryption::{MAX_BYTES, MAX_TASKS};
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use std::sync::Arc;
use tokio_postgres::Error;
use toolyard_task::audit::{By, Entry};
use toolyard_task::erasure::{DataOwner, Erasure, Holdings, OwnerKeys};
use toolyard_task::session::SessionStore as _;
use toolyard_task::{StoreError, TaskId};
use uuid::Uuid;

/// The maximum number of small rows in one transaction.
const MAX_SMALL_ROWS: usize = 500;

/// Run records may hold a shortened owner name, so while the task exists its own owner counts.
const HELD: &str = "
    SELECT (SELECT count(*) FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status <= 2),
           (SELECT count(*) FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status > 2),
           (SELECT count(*) FROM run WHERE owner = $4 AND NOT EXISTS (
                SELECT 1 FROM task WHERE id = run.task AND NOT (owner = $1 OR (owner >= $2 AND owner < $3)))),
           (SELECT count(*) FROM permission WHERE owner = $1 OR (owner >= $2 AND owner < $3))";
const LIVE: &str = "
    SELECT id FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status <= 2 LIMIT $4";
const ENDED: &str = "
    SELECT id, bytes + coalesce((SELECT journal.bytes FROM journal WHERE journal.task = task.id), 0)
    FROM task WHERE (owner = $1 OR (owner >= $2 AND owner < $3)) AND status > 2 LIMIT $4";

const TIME: &str = "SELECT store_time($1)";
/// In the order of their ids, like every statement that locks several.
const TASKS: &str = "
    DELETE FROM task WHERE id IN (
        SELECT id FROM task WHERE id = ANY($1) AND status > 2 ORDER BY id FOR UPDATE)
    RETURNING id";
const RUNS: &str = "
    DELETE FROM run WHERE (task, attempt) IN (
        SELECT task, attempt FROM run
        WHERE owner = $1 AND NOT EXISTS (SELECT 1 FROM task WHERE id = run.task)
        ORDER BY task, attempt LIMIT $2 FOR UPDATE)";
const PERMISSIONS: &str = "
    DELETE FROM permission WHERE id IN (
        SELECT id FROM permission WHERE owner = $1 OR (owner >= $2 AND owner < $3)
        ORDER BY id LIMIT $4 FOR UPDATE)";
const SESSIONS: &str = "
    DELETE FROM session WHERE id IN (SELECT id FROM session WHERE id = ANY($1) ORDER BY id FOR UPDATE)";

/// The keys of owners as the tables have them.
fn keys(of: &DataOwner) -> [Vec<u8>; 3] {
    let OwnerKeys { one, from, until } = of.keys();
    [one, from, until].map(String::into_bytes)
}

#[async_trait]
impl Erasure for PostgresStore {
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError> {
        let ([one, from, until], name) = (keys(of), of.short_name().into_bytes());
        let rows = self.readers.rows(HELD, &[&one, &from, &until, &name]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable(StoreRefusal::Closed.into()))?;
        let count = |column| row.try_get(column).map(i64::unsigned_abs).map_err(unreadable);
        Ok(Holdings {
            live_tasks: count(0)?,
            tasks: count(1)?,
            runs: count(2)?,
            sessions: own_sessions(self, of).await?.len() as u64,
            permissions: count(3)?,
        })
    }

    async fn live_tasks(&self, of: &DataOwner, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let [one, from, until] = keys(of);
        ids(&self.readers.rows(LIVE, &[&one, &from, &until, &i64::from(limit)]).await?)
    }

    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError> {
        let tasks = ended(self, of).await?;
        // All sessions are read to find those of a principal, so only once nothing else is left.
        let mut sessions = if tasks.is_empty() { own_sessions(self, of).await? } else { Vec::new() };
        sessions.truncate(MAX_SMALL_ROWS);
        let given = Arc::new((of.clone(), by.clone(), tasks, sessions));
        let audited = self.state.audit.on;
        let done = self.writer.write(move |writing| {
            let given = given.clone();
            Box::pin(async move {
                let (of, by, tasks, sessions) = &*given;
                let erased = erase(writing, of, tasks, sessions).await?;
                if erased.total() > 0 {
                    let entries = [Entry::erased(of, &erased, by)];
                    let bodies = match audit_lines::bodies(audited, &entries) {
                        Ok(bodies) => bodies,
                        Err(error) => return Ok(Err(corrupt(error))),
                    };
                    let floor = writing.state.floor.get();
                    let time = writing.rows(TIME, &[&floor]).await?;
                    let now = time.first().map_or(Ok(floor), |row| row.try_get(0))?;
                    let now = writing.state.floor.saw(now);
                    writing.log(|lines| bodies.iter().for_each(|body| lines.push(now, body)));
                }
                Ok(Ok(erased))
            })
        });
        done.await?
    }
}

async fn own_sessions(store: &PostgresStore, of: &DataOwner) -> Result<Vec<String>, StoreError> {
    let all = store.sessions(u32::MAX).await?;
    let own = all.into_iter().filter(|session| of.has(&session.owner));
    Ok(own.map(|session| session.id.to_string()).collect())
}

/// The tasks of the next transaction: few, and of bounded length.
async fn ended(store: &PostgresStore, of: &DataOwner) -> Result<Vec<Uuid>, StoreError> {
    let [one, from, until] = keys(of);
    let rows = store.readers.rows(ENDED, &[&one, &from, &until, &(MAX_TASKS as i64)]).await?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for row in &rows {
        if bytes >= MAX_BYTES as i64 {
            break;
        }
        found.push(row.try_get(0).map_err(unreadable)?);
        bytes += row.try_get::<_, i64>(1).map_err(unreadable)?;
    }
    Ok(found)
}

/// Removes rows of the first kind that there is.
async fn erase(
    writing: &PostgresTransaction<'_>,
    of: &DataOwner,
    tasks: &[Uuid],
    sessions: &[String],
) -> Result<Holdings, Error> {
    let mut erased = Holdings::default();
    if !tasks.is_empty() {
        let removed = writing.rows(TASKS, &[&tasks]).await?;
        timeline::remove_events(writing, &removed).await?;
        erased.tasks = removed.len() as u64;
    }
    if erased.total() > 0 {
        return Ok(erased);
    }
    let limit = MAX_SMALL_ROWS as i64;
    erased.runs = writing.execute(RUNS, &[&of.short_name().into_bytes(), &limit]).await?;
    if erased.total() > 0 {
        return Ok(erased);
    }
    let [one, from, until] = keys(of);
    erased.permissions = writing.execute(PERMISSIONS, &[&one, &from, &until, &limit]).await?;
    if erased.permissions < MAX_SMALL_ROWS as u64 && !sessions.is_empty() {
        erased.sessions = writing.execute(SESSIONS, &[&sessions]).await?;
    }
    Ok(erased)
}
