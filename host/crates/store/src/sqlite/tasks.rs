//! Tasks in SQLite.

use super::counts::LiveTasks;
use super::error::SqliteError;
use super::rows::{self, ids, number, summary, task};
use super::transaction::SqliteTransaction;
use super::{SqliteStore, journal, search};
use crate::audit_lines;
use crate::codec::{self, CodecError, LAST_LIVE};
use crate::encryption::Sealing;
use crate::journal_encoding::EncodedChunks;
use crate::refusal::StoreRefusal;
use crate::task_encoding::{EncodedTask, bytes_of};
use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, Row, params, params_from_iter};
use toolyard_task::audit::Entry;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{
    CommitStatus, CreateError, Hints, Quota, QuotaScope, ReadTask, Records, Removable, TaskQuestion,
    TaskStore, Total,
};
use toolyard_task::task::{Summary, Task};
use toolyard_task::timeline::RunRecord;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Owner, StoreError, TaskId};

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
const DUE: &str = "SELECT id FROM task INDEXED BY task_by_due WHERE due <= ?1 ORDER BY due, id LIMIT ?2";

const HELD: &str = "
    SELECT id FROM task INDEXED BY live_task_by_incarnation
    WHERE incarnation = ?1 AND incarnation > 0 AND status <= 2 ORDER BY id LIMIT ?2";

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
const LIVE: &str = "
    SELECT id FROM task WHERE (owner = ?1 OR (owner >= ?2 AND owner < ?3)) AND status <= 2 LIMIT ?4";
const PARKED: &str = "SELECT count(*) FROM task INDEXED BY parked_task WHERE wake IS NOT NULL";

/// The bytes kept for tasks. An index contains all values for the sums, so no change has to write a counter.
const BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM task INDEXED BY task_by_owner_updated";
const BYTES_OF: &str =
    "SELECT coalesce(sum(bytes), 0) FROM task INDEXED BY task_by_owner_updated WHERE owner = ?1";
const JOURNAL_BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM journal";
const JOURNAL_BYTES_OF: &str = "
    SELECT coalesce(sum(journal.bytes), 0) FROM task JOIN journal ON journal.task = task.seq
    WHERE task.owner = ?1 AND task.status <= 2";
/// The record of each task contains its owner.
const LARGEST: &str = "
    SELECT task.id, status, created, updated, record FROM (
        SELECT owner, sum(bytes) AS sum, min(id) AS id FROM task INDEXED BY task_by_owner_updated
        GROUP BY owner ORDER BY sum DESC LIMIT ?1) AS most
    JOIN task ON task.id = most.id ORDER BY sum DESC";
const ENDED: &str = "
    SELECT id, status, created, updated, record, bytes FROM task INDEXED BY task_by_owner_updated
    WHERE owner = ?1 AND status > 2 ORDER BY updated, id LIMIT ?2";
const ENDED_JOURNALS: &str = "
    SELECT task.id FROM journal JOIN task ON task.seq = journal.task
    WHERE task.status > 2 ORDER BY task.updated, task.id LIMIT ?1";

const REMOVE: &str = "DELETE FROM task WHERE id = ?1 AND status > 2 AND due <= ?2";

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create(&self, task: Task, quota: Quota, records: Records) -> Result<Task, CreateError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit)?;
        let record = self.state.recorder.record(task.id, records.timeline)?;
        let new = NewTask::of(task, &self.sealing)?;
        fail_point!("create", "before");
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let created = create(writing, &new, quota)?;
            fail_point!("create", "uncommitted", created.is_ok());
            if let Ok((task, seq)) = &created {
                writing.log(task.created_at, &bodies);
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
        let change = EncodedTask::of(task, &self.sealing)?;
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit)?;
        let record = self.state.recorder.record(task.id, records.timeline)?;
        let last =
            records.journal.map(|last| EncodedChunks::of_end(&self.sealing, task, last)).transpose()?;
        let (at, run) = (task.updated_at, RunRecord::of(task));
        fail_point!(what, "before");
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let written = write(writing, &change, last.as_ref())?;
            fail_point!(what, "uncommitted", written.is_some());
            let Some(seq) = written else { return Ok(CommitStatus::Stale) };
            writing.log(at, &bodies);
            let at = writing.clock.now().max(at);
            record.write(writing, seq, &run, at)?;
            Ok(CommitStatus::Done)
        };
        let committed = self.writer.write_by(records.flush, operation).await?;
        fail_point!(what, "committed", committed == CommitStatus::Done);
        Ok(committed)
    }

    async fn search(&self, query: &Search) -> Result<Page, StoreError> {
        let query = query.clone();
        let (now, sealing) = (self.state.clock.now(), self.sealing.clone());
        self.readers.read(move |on| search::search(on, &query, now, &sealing)).await
    }

    async fn select(&self, question: TaskQuestion, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        let now = self.state.clock.now();
        let operation = move |on: &Connection| match question {
            TaskQuestion::Due => ids(on, DUE, params![now.0, limit]),
            TaskQuestion::HeldBy(incarnation) => ids(on, HELD, params![number(incarnation.0), limit]),
            TaskQuestion::WaitingElsewhere { .. } => Ok(Vec::new()),
            TaskQuestion::Wakeable => ids(on, WAKEABLE, params![now.0, codec::IN_TURNS, limit]),
            TaskQuestion::Asking(owner) => {
                ids(on, ASKING, params![owner.key(), codec::status(TaskStatus::InputRequired), limit])
            }
            TaskQuestion::LiveOf(owner) => {
                let [one, from, until] = owner.keys();
                ids(on, LIVE, params![one, from, until, limit])
            }
            TaskQuestion::EndedJournals => ids(on, ENDED_JOURNALS, params![limit]),
        };
        self.readers.read(operation).await
    }

    async fn remove(
        &self,
        tasks: Vec<(TaskId, Vec<Entry>)>,
        removable: Removable,
    ) -> Result<u32, StoreError> {
        let audited = self.state.audit.on;
        let tasks = tasks.iter().map(|(id, entries)| Ok((*id, audit_lines::bodies(audited, entries)?)));
        let tasks = tasks.collect::<Result<Vec<_>, StoreError>>()?;
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let mut removed = 0;
            for (id, bodies) in &tasks {
                if remove(writing, *id, removable)? {
                    removed += 1;
                    writing.log(writing.clock.now(), bodies);
                }
            }
            Ok(removed)
        };
        self.writer.write(operation).await
    }

    async fn total(&self, of: Total<'_>) -> Result<u64, StoreError> {
        let (sql, owner) = match of {
            Total::Bytes(None) => (BYTES, None),
            Total::Bytes(Some(of)) => (BYTES_OF, Some(of.key())),
            Total::JournalBytes(None) => (JOURNAL_BYTES, None),
            Total::JournalBytes(Some(of)) => (JOURNAL_BYTES_OF, Some(of.key())),
            Total::Parked => (PARKED, None),
        };
        self.readers.read(move |on| rows::count(on, sql, params_from_iter(owner))).await
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<Owner>, StoreError> {
        let sealing = self.sealing.clone();
        let owner = move |row: &Row<'_>| Ok(summary(row, &sealing)?.owner);
        self.readers.read(move |on| rows::all(on, LARGEST, params![limit], owner)).await
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        let (of, sealing) = (of.key(), self.sealing.clone());
        let ended = move |row: &Row<'_>| Ok((summary(row, &sealing)?, row.get::<_, i64>(5)?.unsigned_abs()));
        self.readers.read(move |on| rows::all(on, ENDED, params![of, limit], ended)).await
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

    /// Writes `task`, which is this one with its final times. Returns the number of its row.
    fn insert(&self, writing: &mut SqliteTransaction<'_>, task: &Task) -> Result<i64, SqliteError> {
        let record = self.sealing.record_of(task)?;
        let inline = (self.arguments.len() <= MAX_INLINE_ARGUMENTS).then_some(&self.arguments[..]);
        let given = params![
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
        ];
        if writing.execute(INSERT, given)? == 0 {
            return Err(StoreError::Corrupt(StoreRefusal::Exists(task.id.to_string()).into()).into());
        }
        let seq = writing.on.last_insert_rowid();
        if inline.is_none() {
            writing.execute(INSERT_ARGUMENTS, params![seq, &self.arguments[..]])?;
        }
        if let Some(fence) = task.journal_fence() {
            journal::insert(writing, seq, fence, &task.digest)?;
        }
        if task.is_live() {
            let parked = i32::from(codec::wake(task).is_some());
            writing.counts.live_changed(&self.owner, 1, parked);
        }
        writing.counts.sealed(writing.on, self.sealing.key())?;
        Ok(seq)
    }
}

fn create(
    writing: &mut SqliteTransaction<'_>,
    new: &NewTask,
    quota: Quota,
) -> Result<Result<(Task, i64), CreateError>, SqliteError> {
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
    let seq = new.insert(writing, &task)?;
    Ok(Ok((task, seq)))
}

/// Returns the number of the row that was written; `None` if the change is stale.
fn write(
    writing: &mut SqliteTransaction<'_>,
    change: &EncodedTask,
    last: Option<&EncodedChunks>,
) -> Result<Option<i64>, SqliteError> {
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
    let EncodedTask { status, updated, version, record, outcome, bytes, .. } = change;
    writing.execute(UPDATE, params![seq, status, updated, version, record, outcome, bytes])?;
    writing.counts.spanned(writing.on, change.span)?;
    writing.counts.sealed(writing.on, change.key)?;
    if moved {
        writing.execute(UPDATE_MORE, params![seq, change.due, change.incarnation, change.wake])?;
    }
    if let Some(fence) = change.journal {
        journal::move_fence(writing, seq, fence)?;
    }
    if let Some(last) = last {
        journal::append_last(writing, seq, last)?;
    }
    if let Some(owner) = owner {
        writing.counts.live_changed(&owner, live, parked);
    }
    Ok(Some(seq))
}

/// Removes a task. Returns whether it was there and removable.
pub(super) fn remove(
    writing: &SqliteTransaction<'_>,
    id: TaskId,
    removable: Removable,
) -> Result<bool, SqliteError> {
    let until = match removable {
        Removable::Gone => writing.clock.now().0,
        Removable::Ended => i64::MAX,
    };
    Ok(writing.execute(REMOVE, params![id.0.as_bytes(), until])? == 1)
}

#[cfg(test)]
pub(super) mod tests;
