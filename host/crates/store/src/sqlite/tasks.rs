//! Tasks in SQLite.

use super::counts::{LiveChange, LiveTasks};
use super::error::corrupt;
use super::rows::{self, ids, number, summary, task};
use super::transaction::SqliteTransaction;
use super::{SqliteStore, journal, kept, search};
use crate::audit_lines;
use crate::codec::{self, CodecError, LAST_LIVE};
use crate::encryption::Sealing;
use crate::journal_encoding::EncodedChunks;
use crate::refusal::StoreRefusal;
use crate::task_encoding::{EncodedTask, bytes_of};
use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, Row, params};
use toolyard_task::audit::Entry;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{
    CommitStatus, CreateError, Hints, ListQuery, Quota, QuotaScope, ReadTask, Records, TaskStore,
};
use toolyard_task::task::{Summary, Task};
use toolyard_task::timeline::RunRecord;
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{Incarnation, Owner, StoreError, TaskId};

/// Longer arguments have their own table. Up to this length a row still fits into its page, and a
/// second look-up would cost more than it saves.
const MAX_INLINE_ARGUMENTS: usize = 2048;

const READ: &str = "
    SELECT record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)), outcome
    FROM task WHERE id = ?1";

/// A task of another owner is not decoded or even read completely.
const READ_OF: &str = "
    SELECT record, coalesce(arguments, (SELECT body FROM arguments WHERE task = seq)), outcome
    FROM task WHERE id = ?1 AND owner = ?2";

const INSERT: &str = "
    INSERT INTO task (id, owner, session, status, created, updated, due, incarnation, version, record, arguments, outcome, bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
    ON CONFLICT (id) DO NOTHING";

const INSERT_ARGUMENTS: &str = "INSERT INTO arguments (task, body) VALUES (?1, ?2)";

const FIND: &str = "
    SELECT seq, status, owner, due, incarnation, wake FROM task WHERE id = ?1 AND version = ?2";

/// Names only the necessary columns: an index is rewritten if the statement names one of its
/// columns, even if its value does not change.
const UPDATE: &str = "
    UPDATE task SET status = ?2, updated = ?3, version = ?4, record = ?5, outcome = ?6, bytes = ?7 WHERE seq = ?1";

/// The columns that rarely change.
const UPDATE_MORE: &str = "UPDATE task SET due = ?2, incarnation = ?3, wake = ?4 WHERE seq = ?1";

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

/// The tasks that have been due for longest take turns by their owners. Those behind them wait, so that this
/// reads few entries of the index, however many tasks are due.
const WAKEABLE: &str = "
    SELECT id FROM (
        SELECT id, wake, row_number() OVER (PARTITION BY owner ORDER BY wake, id) AS place
        FROM (SELECT id, wake, owner FROM task INDEXED BY parked_task
              WHERE wake <= ?1 ORDER BY wake, id LIMIT ?2))
    ORDER BY place, wake, id LIMIT ?3";
const ASKING: &str = "
    SELECT id FROM task INDEXED BY task_by_status_created
    WHERE owner = ?1 AND status = ?2 ORDER BY created, id LIMIT ?3";
const PARKED: &str = "SELECT count(*) FROM task INDEXED BY parked_task WHERE wake IS NOT NULL";

const REMOVE: &str = "DELETE FROM task WHERE id = ?1 AND status > 2 AND due <= ?2";

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create(&self, task: Task, quota: Quota, records: Records) -> Result<Task, CreateError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit).map_err(corrupt)?;
        let record = self.state.recorder.record(task.id, records.timeline).map_err(corrupt)?;
        let new = NewTask::of(task, &self.sealing).map_err(corrupt)?;
        fail_point!("create", "before");
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let created = create(writing, &new, quota)?;
            fail_point!("create", "uncommitted", created.is_ok());
            if let Ok((task, seq)) = &created {
                bodies.iter().for_each(|body| writing.lines.push(task.created_at, body));
                record.write(writing, *seq, &RunRecord::of(task), task.created_at)?;
            }
            Ok(created.map(|(task, _)| task))
        };
        let created = self.writer.write(operation).await?;
        fail_point!("create", "committed", created.is_ok());
        created
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        let (clock, sealing) = (self.state.clock.clone(), self.sealing.clone());
        let owner = owner.map(Owner::key);
        let operation = move |on: &Connection| {
            let read = |row: &Row<'_>| task(id, row, &sealing);
            let task = match owner {
                Some(owner) => rows::first(on, READ_OF, params![id.0.as_bytes(), owner], read),
                None => rows::first(on, READ, params![id.0.as_bytes()], read),
            }?;
            // Taken after the read, so that nothing in the task is later.
            Ok(task.map(|task| ReadTask { task, now: clock.now() }))
        };
        self.readers.read(operation).await
    }

    async fn commit(&self, task: &Task, records: Records) -> Result<CommitStatus, StoreError> {
        #[cfg(feature = "failpoints")]
        let what = toolyard_failpoint::what(task, &records);
        let change = EncodedTask::of(task, &self.sealing).map_err(corrupt)?;
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit).map_err(corrupt)?;
        let record = self.state.recorder.record(task.id, records.timeline).map_err(corrupt)?;
        let last = records.journal.map(|last| EncodedChunks::of_end(&self.sealing, task, last));
        let last = last.transpose().map_err(corrupt)?;
        let (at, run) = (task.updated_at, RunRecord::of(task));
        fail_point!(what, "before");
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let written = write(writing, &change, last.as_ref())?;
            fail_point!(what, "uncommitted", written.is_some());
            let Some(seq) = written else { return Ok(CommitStatus::Stale) };
            bodies.iter().for_each(|body| writing.lines.push(at, body));
            let at = writing.clock.now().max(at);
            record.write(writing, seq, &run, at)?;
            Ok(CommitStatus::Done)
        };
        let committed = self.writer.write_by(records.flush, operation).await?;
        fail_point!(what, "committed", committed == CommitStatus::Done);
        Ok(committed)
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        let query = query.clone();
        let (now, sealing) = (self.state.clock.now(), self.sealing.clone());
        self.readers.read(move |on| list(on, &query, now, &sealing)).await
    }

    async fn search(&self, query: &Search) -> Result<Page, StoreError> {
        let query = query.clone();
        let (now, sealing) = (self.state.clock.now(), self.sealing.clone());
        self.readers.read(move |on| search::search(on, &query, now, &sealing)).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let now = self.state.clock.now();
        self.readers.read(move |on| ids(on, DUE, params![now.0, limit])).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        if incarnation == Incarnation::NOBODY {
            return Ok(Vec::new());
        }
        self.readers.read(move |on| ids(on, HELD, params![number(incarnation.0)])).await
    }

    async fn wakeable(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let now = self.state.clock.now();
        self.readers.read(move |on| ids(on, WAKEABLE, params![now.0, codec::IN_TURNS, limit])).await
    }

    async fn asking(&self, owner: &Owner, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let (owner, status) = (owner.key(), codec::status(TaskStatus::InputRequired));
        self.readers.read(move |on| ids(on, ASKING, params![owner, status, limit])).await
    }

    async fn count_parked(&self) -> Result<u64, StoreError> {
        self.readers.read(|on| rows::count(on, PARKED, [])).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        let ids = ids.to_vec();
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let now = writing.clock.now();
            let mut statement = writing.on.prepare_cached(REMOVE)?;
            let mut removed = 0;
            for id in &ids {
                removed += statement.execute(params![id.0.as_bytes(), now.0])?;
            }
            Ok(u32::try_from(removed).unwrap_or(u32::MAX))
        };
        self.writer.write(operation).await
    }

    async fn kept_bytes(&self, of: Option<&Owner>) -> Result<u64, StoreError> {
        kept::bytes(self, of).await
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<(Owner, u64)>, StoreError> {
        kept::largest_owners(self, limit).await
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        kept::ended_first(self, of, limit).await
    }

    async fn discard(&self, tasks: Vec<(TaskId, Entry)>) -> Result<u32, StoreError> {
        kept::discard(self, tasks).await
    }

    fn hints(&self) -> Box<dyn Hints> {
        let feed = self.state.watch.feed();
        self.writer.queue.wake();
        feed
    }
}

/// A task that is not yet stored. The caller encodes the fields that do not depend on the store's
/// time.
struct NewTask {
    task: Task,
    owner: String,
    arguments: Bytes,
    outcome: Option<Vec<u8>>,
    sealing: Sealing,
}

impl NewTask {
    fn of(task: Task, sealing: &Sealing) -> Result<Self, CodecError> {
        let arguments = sealing.arguments_of(&task)?;
        let (owner, outcome) = (task.owner.key(), sealing.outcome_of(&task)?);
        Ok(Self { task, owner, arguments, outcome, sealing: sealing.clone() })
    }

    /// Writes `task`, which is this one with its final times. Returns the number of its row; `None` if its id was not
    /// new.
    fn insert(
        &self,
        writing: &mut SqliteTransaction<'_>,
        task: &Task,
    ) -> rusqlite::Result<Result<Option<i64>, StoreError>> {
        let record = match self.sealing.record_of(task) {
            Ok(record) => record,
            Err(error) => return Ok(Err(corrupt(error))),
        };
        let inline = (self.arguments.len() <= MAX_INLINE_ARGUMENTS).then_some(&self.arguments[..]);
        let inserted = writing.on.prepare_cached(INSERT)?.execute(params![
            task.id.0.as_bytes(),
            self.owner,
            task.session.as_ref().map(|session| session.as_str()),
            codec::status(task.status()),
            task.created_at.0,
            task.updated_at.0,
            task.due_at().0,
            number(task.fence.incarnation.0),
            number(task.version),
            record,
            inline,
            self.outcome,
            bytes_of(&record, &self.arguments, self.outcome.as_deref()),
        ])?;
        if inserted == 0 {
            return Ok(Ok(None));
        }
        let seq = writing.on.last_insert_rowid();
        if inline.is_none() {
            writing.on.prepare_cached(INSERT_ARGUMENTS)?.execute(params![seq, &self.arguments[..]])?;
        }
        if let Some(fence) = task.journal_fence() {
            journal::insert(writing.on, seq, fence, &task.digest)?;
        }
        if task.is_live() {
            let parked = i32::from(codec::wake(task).is_some());
            writing.counts.live_changed(&self.owner, LiveChange { live: 1, parked });
        }
        writing.counts.sealed(writing.on, self.sealing.key())?;
        Ok(Ok(Some(seq)))
    }
}

fn create(
    writing: &mut SqliteTransaction<'_>,
    new: &NewTask,
    quota: Quota,
) -> rusqlite::Result<Result<(Task, i64), CreateError>> {
    let LiveTasks { live, parked } = writing.counts.live_of(writing.on, &new.owner)?;
    if live.saturating_sub(parked) >= quota.per_owner {
        return Ok(Err(CreateError::Full { scope: QuotaScope::Owner, limit: quota.per_owner }));
    }
    if parked >= quota.parked_per_owner {
        return Ok(Err(CreateError::Full { scope: QuotaScope::Parked, limit: quota.parked_per_owner }));
    }
    if writing.counts.live(writing.on)? >= quota.in_all {
        return Ok(Err(CreateError::Full { scope: QuotaScope::Store, limit: quota.in_all }));
    }
    let now = writing.clock.now();
    let started_at = new.task.started_at.map(|_| now);
    let task = Task { created_at: now, updated_at: now, started_at, ..new.task.clone() };
    Ok(match new.insert(writing, &task)? {
        Ok(Some(seq)) => Ok((task, seq)),
        Ok(None) => Err(StoreError::Corrupt(StoreRefusal::Exists(task.id.to_string()).into()).into()),
        Err(error) => Err(error.into()),
    })
}

/// Returns the number of the row that was written; `None` if the change is stale.
fn write(
    writing: &mut SqliteTransaction<'_>,
    change: &EncodedTask,
    last: Option<&EncodedChunks>,
) -> rusqlite::Result<Option<i64>> {
    let mut find = writing.on.prepare_cached(FIND)?;
    let mut rows = find.query(params![change.id.0.as_bytes(), change.version.wrapping_sub(1)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, status): (i64, i64) = (row.get(0)?, row.get(1)?);
    let wake: Option<i64> = row.get(5)?;
    let moved = row.get::<_, i64>(3)? != change.due
        || row.get::<_, i64>(4)? != change.incarnation
        || wake != change.wake;
    let live = i32::from(change.status <= LAST_LIVE) - i32::from(status <= LAST_LIVE);
    let parked = i32::from(change.wake.is_some()) - i32::from(wake.is_some());
    let owner: Option<String> = if (live, parked) == (0, 0) { None } else { Some(row.get(2)?) };
    drop(rows);
    writing.on.prepare_cached(UPDATE)?.execute(params![
        seq,
        change.status,
        change.updated,
        change.version,
        change.record,
        change.outcome,
        change.bytes,
    ])?;
    writing.counts.spanned(writing.on, change.span)?;
    writing.counts.sealed(writing.on, change.key)?;
    if moved {
        let given = params![seq, change.due, change.incarnation, change.wake];
        writing.on.prepare_cached(UPDATE_MORE)?.execute(given)?;
    }
    if let Some(fence) = change.journal {
        journal::move_fence(writing.on, seq, fence)?;
    }
    if let Some(last) = last {
        journal::append_last(writing, seq, last)?;
    }
    if let Some(owner) = owner {
        writing.counts.live_changed(&owner, LiveChange { live, parked });
    }
    Ok(Some(seq))
}

fn list(
    on: &Connection,
    query: &ListQuery,
    now: Timestamp,
    sealing: &Sealing,
) -> Result<Vec<Summary>, StoreError> {
    let (created, after) = match &query.after {
        Some(after) => (after.created_at.0, &after.id.0.as_bytes()[..]),
        None => (i64::MIN, &[][..]),
    };
    let read = |row: &Row<'_>| summary(row, sealing);
    match query.owner.as_ref().map(Owner::key) {
        Some(owner) => rows::all(on, LIST_OF, params![created, after, now.0, query.limit, owner], read),
        None => rows::all(on, LIST, params![created, after, now.0, query.limit], read),
    }
}

#[cfg(test)]
pub(super) mod tests;
