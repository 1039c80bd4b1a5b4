//! Exports and imports all tasks of the file.

use super::blocking::blocking;
use super::error::{corrupt, failed};
use super::nodes::{self, lock_file};
use super::rows::{id, number, task};
use super::tasks::NewTask;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, schema};
use crate::encryption::Sealing;
use crate::jsonl::MAX_COUNTER;
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::Path;
use toolyard_task::archive::{Archive, Export, Unreadable, without_journal};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, StoreError, Task, TaskId};

/// The maximum number of tasks in one read, and the number of bytes at which a read ends.
const MAX_ROWS: usize = 256;
const MAX_READ_BYTES: usize = 4 << 20;

const NEXT: &str = "
    SELECT record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)), outcome, id, created
    FROM task INDEXED BY task_by_created
    WHERE (created, id) > (?1, ?2) ORDER BY created, id";

/// `AUTOINCREMENT` also takes explicitly assigned numbers into account.
const KNOWN_DEAD: &str = "INSERT OR IGNORE INTO node (incarnation, pid, started) VALUES (?1, 0, ?2)";
const ANOTHER_DEAD: &str = "INSERT INTO node (pid, started) VALUES (0, ?1)";

#[async_trait]
impl Archive for SqliteStore {
    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        let (path, busy) = (self.file.0.clone(), self.busy);
        let opened = blocking(move || {
            let on = schema::connection(&path, busy).map_err(failed)?;
            on.pragma_update(None, "query_only", "ON").map_err(failed)?;
            // The snapshot is taken at the first read.
            on.execute_batch("BEGIN; SELECT count(*) FROM (SELECT 1 FROM task LIMIT 1)").map_err(failed)?;
            Ok(on)
        });
        let on = Some(opened.await?);
        Ok(Box::new(Snapshot { on, sealing: self.sealing.clone(), after: (i64::MIN, Vec::new()) }))
    }

    async fn import(&self, tasks: Vec<Task>) -> Result<u32, StoreError> {
        let new = |task| NewTask::of(without_journal(task), &self.sealing).map_err(corrupt);
        let all = tasks.into_iter().map(new).collect::<Result<Vec<_>, _>>()?;
        let folder = self.nodes.clone();
        self.writer.write(move |writing| import(writing, &all, &folder)).await?
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.state.clock.now())
    }
}

/// The snapshot at the beginning of the export, and its progress. It has its own connection: a long
/// transaction must not occupy a reader.
struct Snapshot {
    on: Option<Connection>,
    sealing: Sealing,
    after: (i64, Vec<u8>),
}

#[async_trait]
impl Export for Snapshot {
    async fn next(&mut self) -> Result<Vec<Result<Task, Unreadable>>, StoreError> {
        // An interrupted call has dropped the connection.
        let on = self.on.take().ok_or_else(|| StoreError::Unavailable(StoreRefusal::Closed.into()))?;
        let (sealing, mut after) = (self.sealing.clone(), std::mem::take(&mut self.after));
        let read = move || {
            let page = page(&on, &sealing, &mut after)?;
            Ok((on, page, after))
        };
        let (on, page, after) = blocking(read).await?;
        (self.on, self.after) = (Some(on), after);
        Ok(page)
    }
}

fn page(
    on: &Connection,
    sealing: &Sealing,
    after: &mut (i64, Vec<u8>),
) -> Result<Vec<Result<Task, Unreadable>>, StoreError> {
    let mut statement = on.prepare_cached(NEXT).map_err(failed)?;
    let mut rows = statement.query(params![after.0, after.1]).map_err(failed)?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < MAX_ROWS && bytes < MAX_READ_BYTES {
        let Some(row) = rows.next().map_err(failed)? else { break };
        let of = id(row, 3).map_err(failed)?;
        *after = (row.get(4).map_err(failed)?, of.0.as_bytes().to_vec());
        let task = task(of, row, sealing);
        bytes += task.as_ref().map_or(0, size);
        page.push(task.map_err(|source| Unreadable { id: of, source }));
    }
    Ok(page)
}

/// The approximate size of a task in memory.
fn size(task: &Task) -> usize {
    let answers = task.questions.iter().filter_map(|question| question.answer.as_ref()?.as_ref().ok());
    let answers: usize = answers.map(|answer| answer.as_bytes().len()).sum();
    let outcome = match &task.outcome {
        Some(toolyard_task::Outcome::Result { result, .. }) => result.as_bytes().len(),
        _ => 0,
    };
    task.arguments.as_bytes().len() + answers + outcome
}

fn import(
    writing: &mut SqliteTransaction<'_>,
    all: &[NewTask],
    folder: &Path,
) -> rusqlite::Result<Result<u32, StoreError>> {
    let mut hosts = HashMap::new();
    let mut taken = 0;
    for new in all {
        if exists(writing.on, new.task.id)? {
            continue;
        }
        let mut task = new.task.clone();
        if task.is_live() {
            let former = task.fence.incarnation;
            task.fence.incarnation = match hosts.get(&former) {
                Some(dead) => *dead,
                None => dead_host(writing, folder, former)?,
            };
            hosts.insert(former, task.fence.incarnation);
        }
        match new.insert(writing, &task)? {
            Ok(_row) => taken += 1,
            Err(error) => return Ok(Err(error)),
        }
        let span = task.updated_at.0.saturating_sub(task.created_at.0);
        writing.counts.spanned(writing.on, span)?;
    }
    Ok(Ok(taken))
}

fn exists(on: &Connection, id: TaskId) -> rusqlite::Result<bool> {
    on.prepare_cached("SELECT 1 FROM task WHERE id = ?1")?.exists(params![id.0.as_bytes()])
}

/// The number of a host that is dead here: this number, unless its host is live, or the later
/// numbers, which follow it, would exceed the bounds of a line. While this transaction is open, no
/// host can take a number.
fn dead_host(
    writing: &SqliteTransaction<'_>,
    folder: &Path,
    former: Incarnation,
) -> rusqlite::Result<Incarnation> {
    let now = writing.clock.now().0;
    if (1..=MAX_COUNTER).contains(&former.0) && !nodes::lives(&lock_file(folder, former)) {
        writing.on.prepare_cached(KNOWN_DEAD)?.execute(params![number(former.0), now])?;
        return Ok(former);
    }
    writing.on.prepare_cached(ANOTHER_DEAD)?.execute(params![now])?;
    Ok(Incarnation(writing.on.last_insert_rowid().unsigned_abs()))
}
