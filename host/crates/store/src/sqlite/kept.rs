//! Counts the bytes kept for each owner's tasks, and makes room for more. An index contains all
//! values for the sums, so no change has to write a counter.

use super::SqliteStore;
use super::error::{corrupt, failed};
use super::rows::{self, summary};
use super::transaction::SqliteTransaction;
use crate::audit_lines;
use crate::encryption::Sealing;
use rusqlite::{Connection, Params, params};
use toolyard_task::audit::Entry;
use toolyard_task::task::Summary;
use toolyard_task::{Owner, StoreError, TaskId};

const BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM task INDEXED BY task_by_owner_updated";
const BYTES_OF: &str =
    "SELECT coalesce(sum(bytes), 0) FROM task INDEXED BY task_by_owner_updated WHERE owner = ?1";

/// The record of each task contains its owner.
const LARGEST: &str = "
    SELECT task.id, status, created, updated, record, sum FROM (
        SELECT owner, sum(bytes) AS sum, min(id) AS id FROM task INDEXED BY task_by_owner_updated
        GROUP BY owner ORDER BY sum DESC LIMIT ?1) AS most
    JOIN task ON task.id = most.id ORDER BY sum DESC";

const ENDED: &str = "
    SELECT id, status, created, updated, record, bytes FROM task INDEXED BY task_by_owner_updated
    WHERE owner = ?1 AND status > 2 ORDER BY updated, id LIMIT ?2";

const DISCARD: &str = "DELETE FROM task WHERE id = ?1 AND status > 2";

pub(super) async fn bytes(store: &SqliteStore, of: Option<&Owner>) -> Result<u64, StoreError> {
    let of = of.map(Owner::key);
    let operation = move |on: &Connection| match of {
        Some(of) => rows::count(on, BYTES_OF, [of]),
        None => rows::count(on, BYTES, []),
    };
    store.readers.read(operation).await
}

pub(super) async fn largest_owners(store: &SqliteStore, limit: u32) -> Result<Vec<(Owner, u64)>, StoreError> {
    let sealing = store.sealing.clone();
    let largest = store.readers.read(move |on| with_bytes(on, LARGEST, params![limit], &sealing)).await?;
    Ok(largest.into_iter().map(|(task, bytes)| (task.owner, bytes)).collect())
}

pub(super) async fn ended_first(
    store: &SqliteStore,
    of: &Owner,
    limit: u32,
) -> Result<Vec<(Summary, u64)>, StoreError> {
    let (of, sealing) = (of.key(), store.sealing.clone());
    store.readers.read(move |on| with_bytes(on, ENDED, params![of, limit], &sealing)).await
}

/// The summaries of an answer, each with the number in its sixth column.
fn with_bytes(
    on: &Connection,
    sql: &str,
    given: impl Params,
    sealing: &Sealing,
) -> Result<Vec<(Summary, u64)>, StoreError> {
    rows::all(on, sql, given, |row| {
        let bytes: i64 = row.get(5).map_err(failed)?;
        Ok((summary(row, sealing)?, bytes.unsigned_abs()))
    })
}

pub(super) async fn discard(store: &SqliteStore, tasks: Vec<(TaskId, Entry)>) -> Result<u32, StoreError> {
    let wanted = store.state.audit.on;
    let body = |(id, entry): &(TaskId, Entry)| {
        Ok((*id, audit_lines::bodies(wanted, std::slice::from_ref(entry)).map_err(corrupt)?))
    };
    let tasks = tasks.iter().map(body).collect::<Result<Vec<_>, StoreError>>()?;
    let operation = move |writing: &mut SqliteTransaction<'_>| {
        let now = writing.clock.now();
        let mut statement = writing.on.prepare_cached(DISCARD)?;
        let mut removed = 0;
        for (id, bodies) in &tasks {
            if statement.execute(params![id.0.as_bytes()])? == 1 {
                removed += 1;
                bodies.iter().for_each(|body| writing.lines.push(now, body));
            }
        }
        Ok(removed)
    };
    store.writer.write(operation).await
}
