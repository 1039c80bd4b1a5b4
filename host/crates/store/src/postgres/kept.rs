//! Counts the bytes kept for each owner's tasks, and makes room for more. An index contains all
//! values for the sums; with a counter for each owner, hosts would wait for each other's commits.

use super::error::{corrupt, unreadable};
use super::rows::{count, summary};
use super::{PostgresStore, timeline};
use crate::audit_lines;
use std::sync::Arc;
use tokio_postgres::Row;
use toolyard_task::audit::Entry;
use toolyard_task::task::Summary;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Owner, StoreError, TaskId};
use uuid::Uuid;

const BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM task";
const BYTES_OF: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM task WHERE owner = $1";

/// The record of each task contains its owner.
const LARGEST: &str = "
    SELECT one.id, one.status, one.created, one.updated, one.record, most.sum FROM (
        SELECT owner, sum(bytes)::bigint AS sum FROM task GROUP BY owner ORDER BY sum DESC LIMIT $1) AS most,
    LATERAL (SELECT id, status, created, updated, record FROM task WHERE owner = most.owner
        ORDER BY created, id LIMIT 1) AS one
    ORDER BY most.sum DESC";

const ENDED: &str = "
    SELECT id, status, created, updated, record, bytes FROM task
    WHERE owner = $1 AND status > 2 ORDER BY updated, id LIMIT $2";

/// In the order of their ids, like every statement that locks several.
const DISCARD: &str = "
    DELETE FROM task WHERE id IN (SELECT id FROM task WHERE id = ANY($1) AND status > 2 ORDER BY id FOR UPDATE)
    RETURNING id, (SELECT store_time($2))";

pub(super) async fn bytes(store: &PostgresStore, of: Option<&Owner>) -> Result<u64, StoreError> {
    count(&match of.map(|owner| owner.key().into_bytes()) {
        Some(owner) => store.readers.rows(BYTES_OF, &[&owner]).await?,
        None => store.readers.rows(BYTES, &[]).await?,
    })
}

pub(super) async fn largest_owners(
    store: &PostgresStore,
    limit: u32,
) -> Result<Vec<(Owner, u64)>, StoreError> {
    let rows = store.readers.rows(LARGEST, &[&i64::from(limit)]).await?;
    rows.iter().map(|row| Ok((summary(row, &store.sealing)?.owner, bytes_in(row)?))).collect()
}

pub(super) async fn ended_first(
    store: &PostgresStore,
    of: &Owner,
    limit: u32,
) -> Result<Vec<(Summary, u64)>, StoreError> {
    let rows = store.readers.rows(ENDED, &[&of.key().into_bytes(), &i64::from(limit)]).await?;
    rows.iter().map(|row| Ok((summary(row, &store.sealing)?, bytes_in(row)?))).collect()
}

fn bytes_in(row: &Row) -> Result<u64, StoreError> {
    let bytes: i64 = row.try_get(5).map_err(unreadable)?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

pub(super) async fn discard(store: &PostgresStore, tasks: Vec<(TaskId, Entry)>) -> Result<u32, StoreError> {
    let wanted = store.state.audit.on;
    let body = |(id, entry): &(TaskId, Entry)| {
        Ok((id.0, audit_lines::bodies(wanted, std::slice::from_ref(entry)).map_err(corrupt)?))
    };
    let tasks = Arc::new(tasks.iter().map(body).collect::<Result<Vec<_>, StoreError>>()?);
    let discarded = store.writer.write(move |writing| {
        let tasks = tasks.clone();
        Box::pin(async move {
            let ids: Vec<Uuid> = tasks.iter().map(|(id, _)| *id).collect();
            let rows = writing.rows(DISCARD, &[&ids, &writing.state.floor.get()]).await?;
            for row in &rows {
                let (id, now): (Uuid, i64) = (row.try_get(0)?, row.try_get(1)?);
                let bodies = tasks.iter().filter(|(of, _)| *of == id).flat_map(|(_, bodies)| bodies);
                writing.log(|lines| bodies.for_each(|body| lines.push(Timestamp(now), body)));
            }
            timeline::remove_events(writing, &rows).await?;
            Ok(rows.len())
        })
    });
    Ok(u32::try_from(discarded.await?).unwrap_or(u32::MAX))
}
