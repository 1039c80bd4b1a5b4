//! Tasks in SQLite.

use super::SqliteStore;
use super::error::{corrupt, failed};
use super::writer::Writing;
use crate::codec::{self, CodecError, Columns};
use crate::{Refused, codec::LAST_LIVE};
use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;
use toolyard_task::store::{
    Committed, CreateError, Hints, ListQuery, Quota, QuotaScope, Read, StoreError, TaskStore,
};
use toolyard_task::task::{Summary, Task};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, TaskId};
use uuid::Uuid;

/// Longer arguments stand in a table of their own. Up to here a row still fits
/// into its page, and a second look-up would cost more than it saves.
const INLINE_ARGUMENTS: usize = 2048;

const READ: &str = "
    SELECT record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)), outcome
    FROM task WHERE id = ?1";

const INSERT: &str = "
    INSERT INTO task (id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome)
    VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (id) DO NOTHING";

const INSERT_ARGUMENTS: &str = "INSERT INTO arguments (task, body) VALUES (?1, ?2)";

const FIND: &str = "SELECT seq, status, owner FROM task WHERE id = ?1 AND version = ?2";

/// An index is only rewritten if one of its columns is named here.
const UPDATE: &str = "
    UPDATE task SET status = ?2, updated = ?3, incarnation = ?4, version = ?5, record = ?6, outcome = ?7
    WHERE seq = ?1";

/// The time that something is due rarely moves, and never with the rest of a
/// change unless the task was ended by its ttl.
const UPDATE_DUE: &str = "UPDATE task SET due = ?2 WHERE seq = ?1 AND due <> ?2";

// The index is named, since without statistics the planner might choose another
// one and sort.
const LIST: &str = "
    SELECT id, status, created, updated, record FROM task INDEXED BY task_by_created
    WHERE (created, id) > (?1, ?2) AND (status <= 2 OR due > ?3)
    ORDER BY created, id LIMIT ?4";

const LIST_OF: &str = "
    SELECT id, status, created, updated, record FROM task INDEXED BY task_by_owner_created
    WHERE owner = ?5 AND (created, id) > (?1, ?2) AND (status <= 2 OR due > ?3)
    ORDER BY created, id LIMIT ?4";

const DUE: &str = "SELECT id FROM task INDEXED BY task_by_due WHERE due <= ?1 ORDER BY due, id LIMIT ?2";

const HELD: &str = "
    SELECT id FROM task INDEXED BY live_task_by_incarnation
    WHERE incarnation = ?1 AND status <= 2 ORDER BY id";

const REMOVE: &str = "DELETE FROM task WHERE id = ?1 AND status > 2 AND due <= ?2";

/// A time that was given before, by this process or an earlier one.
pub(super) fn latest(on: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    // Two ends of indexes, and not a walk through one: the latest change of each
    // owner would be, and a task's creation is never far from a change.
    let sql = "SELECT max(max(created), coalesce((SELECT max(seen) FROM session), 0)) FROM task";
    let latest: Option<i64> = on.query_row(sql, [], |row| row.get(0))?;
    Ok(latest.map(Timestamp))
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create(&self, task: Task, quota: Quota) -> Result<Task, CreateError> {
        let mut ended = task.outcome.as_ref().map(codec::outcome).transpose().map_err(corrupt)?;
        let owner = task.owner.key();
        let task = Arc::new(task);
        let operation = move |writing: &mut Writing<'_>| create(writing, &task, &owner, ended.as_deref(), quota);
        self.writer().write(operation).await?
    }

    async fn read(&self, id: TaskId) -> Result<Option<Read>, StoreError> {
        let stamps = self.stamps().clone();
        let operation = move |on: &Connection| {
            let mut statement = on.prepare_cached(READ).map_err(failed)?;
            let mut rows = statement.query(params![id.0.as_bytes()]).map_err(failed)?;
            let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
            let task = task(row)?;
            // After the read, so that nothing in the task is later than it.
            Ok(Some(Read { task, now: stamps.now() }))
        };
        self.readers().read(operation).await
    }

    async fn commit(&self, task: &Task) -> Result<Committed, StoreError> {
        let change = Change::of(task).map_err(corrupt)?;
        self.writer().write(move |writing| change.write(writing)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        let query = query.clone();
        let now = self.stamps().now();
        self.readers().read(move |on| list(on, &query, now)).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let now = self.stamps().now();
        let operation = move |on: &Connection| {
            let mut statement = on.prepare_cached(DUE).map_err(failed)?;
            let rows = statement.query_map(params![now.0, limit], |row| id(row, 0)).map_err(failed)?;
            rows.collect::<Result<_, _>>().map_err(failed)
        };
        self.readers().read(operation).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        let operation = move |on: &Connection| {
            let mut statement = on.prepare_cached(HELD).map_err(failed)?;
            let rows = statement.query_map(params![number(incarnation.0)], |row| id(row, 0)).map_err(failed)?;
            rows.collect::<Result<_, _>>().map_err(failed)
        };
        self.readers().read(operation).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        let ids = ids.to_vec();
        let operation = move |writing: &mut Writing<'_>| {
            let now = writing.stamps.now();
            let mut statement = writing.on.prepare_cached(REMOVE)?;
            let mut removed = 0;
            for id in &ids {
                removed += statement.execute(params![id.0.as_bytes(), now.0])?;
            }
            Ok(u32::try_from(removed).unwrap_or(u32::MAX))
        };
        self.writer().write(operation).await
    }

    fn hints(&self) -> Box<dyn Hints> {
        let feed = self.watch().feed();
        self.writer().look();
        feed
    }
}
