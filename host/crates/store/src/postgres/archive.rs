//! Exports and imports all tasks of the database.

use super::PostgresStore;
use super::error::{corrupt, failed, unreadable};
use super::rows::{number, task};
use super::tasks::{NewTask, spanned};
use super::transaction::PostgresTransaction;
use crate::encryption::Sealing;
use crate::jsonl::MAX_COUNTER;
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::Error;
use toolyard_task::archive::{Archive, Export, Unreadable, without_journal};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, StoreError, Task, TaskId};
use uuid::Uuid;

/// The maximum number of tasks in one read.
const MAX_ROWS: i64 = 256;

const NEXT: &str = "
    SELECT record, arguments, outcome, created, updated, id FROM task
    WHERE (created, id) > ($1, $2) ORDER BY created, id LIMIT $3";

/// During an import, no host can take a number.
const TURN: &str = "LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE";
const LIVES: &str =
    "SELECT 1 FROM node WHERE incarnation = $1 AND NOT dead AND until > (SELECT engine_time())";
const KNOWN_DEAD: &str = "
    INSERT INTO node (incarnation, name, started, until, dead) VALUES ($1, '', engine_time(), 0, true)
    ON CONFLICT (incarnation) DO NOTHING";
/// Numbers that were assigned explicitly are not assigned again.
const PASSED: &str = "
    SELECT setval(pg_get_serial_sequence('node', 'incarnation'),
        greatest($1, (SELECT last_value FROM node_incarnation_seq)))";
const ANOTHER_DEAD: &str = "
    INSERT INTO node (name, started, until, dead) VALUES ('', engine_time(), 0, true) RETURNING incarnation";

#[async_trait]
impl Archive for PostgresStore {
    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        // It has its own connection, because a long transaction must not occupy a reader.
        let on = self.place.client().await.map_err(failed)?;
        // The snapshot is taken at the first statement, and the export may take long.
        let begin = "SET idle_in_transaction_session_timeout = '10min';
            BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1 FROM span";
        on.batch_execute(begin).await.map_err(failed)?;
        Ok(Box::new(Snapshot { on, sealing: self.sealing.clone(), after: (i64::MIN, Uuid::nil()) }))
    }

    async fn import(&self, tasks: Vec<Task>) -> Result<u32, StoreError> {
        let new = |task| NewTask::of(without_journal(task), &self.sealing).map_err(corrupt);
        let all = tasks.into_iter().map(new).collect::<Result<Vec<_>, _>>()?;
        let all = Arc::new((all, self.sealing.clone()));
        let taken = self.writer.write(move |writing| {
            let all = all.clone();
            Box::pin(async move { import(writing, &all.0, &all.1).await })
        });
        taken.await?
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let rows = self.readers.rows("SELECT store_time($1)", &[&self.state.floor.get()]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable(StoreRefusal::Closed.into()))?;
        Ok(self.state.floor.saw(row.try_get(0).map_err(unreadable)?))
    }
}

/// The snapshot at the beginning of the export, and its progress.
struct Snapshot {
    on: ClientWrapper,
    sealing: Sealing,
    after: (i64, Uuid),
}

#[async_trait]
impl Export for Snapshot {
    async fn next(&mut self) -> Result<Vec<Result<Task, Unreadable>>, StoreError> {
        let statement = self.on.prepare_cached(NEXT).await.map_err(failed)?;
        let rows =
            self.on.query(&statement, &[&self.after.0, &self.after.1, &MAX_ROWS]).await.map_err(failed)?;
        let mut page = Vec::new();
        for row in &rows {
            let of = TaskId(row.try_get(5).map_err(unreadable)?);
            self.after = (row.try_get(3).map_err(unreadable)?, of.0);
            page.push(task(of, row, &self.sealing).map_err(|source| Unreadable { id: of, source }));
        }
        Ok(page)
    }
}

async fn import(
    writing: &PostgresTransaction<'_>,
    all: &[NewTask],
    sealing: &Sealing,
) -> Result<Result<u32, StoreError>, Error> {
    writing.on.batch_execute(TURN).await?;
    let mut hosts = HashMap::new();
    let mut taken = 0;
    for new in all {
        let there = writing.rows("SELECT 1 FROM task WHERE id = $1", &[&new.task.id.0]).await?;
        if !there.is_empty() {
            continue;
        }
        let mut task = new.task.clone();
        if task.is_live() {
            let former = task.fence.incarnation;
            task.fence.incarnation = match hosts.get(&former) {
                Some(dead) => *dead,
                None => dead_host(writing, former).await?,
            };
            hosts.insert(former, task.fence.incarnation);
        }
        let record = match sealing.record_of(&task) {
            Ok(record) => record,
            Err(error) => return Ok(Err(corrupt(error))),
        };
        taken += u32::from(new.insert(writing, &record, task.fence.incarnation).await?);
        spanned(writing, task.updated_at.0.saturating_sub(task.created_at.0)).await?;
    }
    Ok(Ok(taken))
}

/// The number of a host that is dead here: this number, unless its host is live, or the later
/// numbers, which follow it, would exceed the bounds of a line.
async fn dead_host(writing: &PostgresTransaction<'_>, former: Incarnation) -> Result<Incarnation, Error> {
    let known = number(former.0);
    if (1..=MAX_COUNTER).contains(&former.0) && writing.rows(LIVES, &[&known]).await?.is_empty() {
        writing.execute(KNOWN_DEAD, &[&known]).await?;
        writing.execute("UPDATE node SET dead = true WHERE incarnation = $1", &[&known]).await?;
        writing.rows(PASSED, &[&known]).await?;
        return Ok(former);
    }
    let rows = writing.rows(ANOTHER_DEAD, &[]).await?;
    let made: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(Incarnation(made.unsigned_abs()))
}
