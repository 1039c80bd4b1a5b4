//! Tasks in PostgreSQL.

use super::error::PostgresError;
use super::rows::{count, get, number, number_of, summary, task, timed};
use super::timeline_rows::TaskRow;
use super::transaction::{PostgresTransaction, sealed};
use super::{PostgresStore, journal, questions, search, timeline};
use crate::audit_lines;
use crate::codec::CodecError;
use crate::encryption::Sealing;
use crate::journal_encoding::EncodedChunks;
use crate::key_id::KeyId;
use crate::refusal::StoreRefusal;
use crate::task_encoding::{EncodedTask, bytes_of};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use toolyard_task::audit::Entry;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{
    CommitStatus, CreateError, Hints, Quota, QuotaScope, ReadTask, Records, Removable, TaskQuestion,
    TaskStore, Total,
};
use toolyard_task::task::{Summary, Task};
use toolyard_task::timeline::RunRecord;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Owner, StoreError, TaskId};
use uuid::Uuid;

const READ: &str = "
    SELECT record, arguments, outcome, created, updated, store_time($2) FROM task WHERE id = $1";

/// A task of another owner is not decoded or even read completely.
const READ_OF: &str = "
    SELECT record, arguments, outcome, created, updated, store_time($2) FROM task WHERE id = $1 AND owner = $3";

/// The server provides the time, and no caller waits for it before a write: the times are in the
/// columns, and the record of a first version contains none yet ([`timed`]).
const CREATE: &str = "
    WITH room AS MATERIALIZED (SELECT room_for($3, $12, $13, $17) AS said),
    made AS (
        INSERT INTO task (id, owner, session, status, created, updated, due, incarnation, version, digest, waits, record, arguments, outcome, bytes)
        SELECT $2, $3, $4, $5, now, now, now + $6, $7, $8, $14, $15, $9, $10, $11, $16
        FROM room, LATERAL (SELECT store_time($1) AS now OFFSET 0) AS clock WHERE said = 0
        ON CONFLICT (id) DO NOTHING
        RETURNING created, seq)
    SELECT said, created, seq FROM room LEFT JOIN made ON true";

/// The statement omits the arguments: the server does not rewrite long values that it does not
/// name. A task that parks again may be offered to any host.
macro_rules! update {
    () => {
        "UPDATE task SET status = $3, updated = $4, version = $2, record = $5, outcome = $6, due = $7,
            incarnation = $8, digest = $9, waits = $10, bytes = $11, wake = $12,
            told = CASE WHEN $12::bigint IS NULL THEN told ELSE 0 END
        WHERE id = $1 AND version = $2::bigint - 1"
    };
}
const UPDATE: &str = concat!(update!(), " RETURNING seq");
/// Also moves the fence of the journal. Most changes do not, and then nothing more is written.
const UPDATE_RECORDED: &str = concat!(
    "WITH changed AS (",
    update!(),
    " RETURNING id, seq),
    moved AS (
        UPDATE journal SET incarnation = $13, attempt = $14 FROM changed
        WHERE task = changed.id AND (journal.incarnation <> $13 OR journal.attempt <> $14))
    SELECT seq FROM changed"
);

const LONGER: &str = "UPDATE span SET longest = $1 WHERE longest < $1";

const PARKED: &str = "SELECT count(*) FROM task WHERE wake IS NOT NULL";
/// The bytes kept for tasks. An index contains all values for the sums; with a counter for each owner, hosts would
/// wait for each other's commits.
const BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM task";
const BYTES_OF: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM task WHERE owner = $1";
const JOURNAL_BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM journal";
const JOURNAL_BYTES_OF: &str = "
    SELECT coalesce(sum(journal.bytes), 0)::bigint FROM task JOIN journal ON journal.task = task.id
    WHERE task.owner = $1 AND task.status <= 2";
/// The record of each task contains its owner.
const LARGEST: &str = "
    SELECT one.id, one.status, one.created, one.updated, one.record FROM (
        SELECT owner, sum(bytes)::bigint AS sum FROM task GROUP BY owner ORDER BY sum DESC LIMIT $1) AS most,
    LATERAL (SELECT id, status, created, updated, record FROM task WHERE owner = most.owner
        ORDER BY created, id LIMIT 1) AS one
    ORDER BY most.sum DESC";
const ENDED: &str = "
    SELECT id, status, created, updated, record, bytes FROM task
    WHERE owner = $1 AND status > 2 ORDER BY updated, id LIMIT $2";

/// In the order of their ids, like every statement that locks several.
const REMOVE: &str = "
    DELETE FROM task WHERE id IN (
        SELECT id FROM task WHERE id = ANY($2) AND status > 2 AND ($3 OR due <= (SELECT store_time($1)))
        ORDER BY id FOR UPDATE)
    RETURNING id, (SELECT store_time($1)), seq";

/// The longest span is stored in steps of this many milliseconds, so that changes of old tasks do
/// not write it each time.
const SPAN_STEP: i64 = 60_000;

#[async_trait]
impl TaskStore for PostgresStore {
    async fn create(&self, task: Task, quota: Quota, records: Records) -> Result<Task, CreateError> {
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit)?;
        let events = self.state.recorder.encode_events(task.id, records.timeline)?;
        let new = (NewTask::of(task, &self.sealing)?, bodies, events);
        let in_all = self.live_quota.to_check(&self.readers, quota.in_all).await?;
        let created = self.writer.write(new, move |writing, (new, bodies, events)| {
            Box::pin(async move {
                let created = create(writing, new, bodies, quota, in_all).await?;
                if let Ok((task, seq)) = &created {
                    let (row, at) = (TaskRow { id: task.id, seq: *seq }, task.created_at);
                    writing.timeline(|rows| rows.add_change(row, RunRecord::of(task), at, events));
                }
                Ok(created.map(|(task, _)| task))
            })
        });
        let created = created.await?;
        if created.is_ok() {
            self.live_quota.add_one();
        }
        created
    }

    async fn read(&self, id: TaskId, owner: Option<&Owner>) -> Result<Option<ReadTask>, StoreError> {
        let (floor, owner) = (self.state.floor.get(), owner.map(|owner| owner.key().into_bytes()));
        let rows = match &owner {
            Some(owner) => self.readers.rows(READ_OF, &[&id.0, &floor, owner]).await?,
            None => self.readers.rows(READ, &[&id.0, &floor]).await?,
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let task = task(id, row, &self.sealing)?;
        let now = self.state.floor.saw(get(row, 5)?);
        Ok(Some(ReadTask { task, now }))
    }

    async fn commit(&self, task: &Task, records: Records) -> Result<CommitStatus, StoreError> {
        let change = EncodedTask::of(task, &self.sealing)?;
        let bodies = audit_lines::bodies(self.state.audit.on, &records.audit)?;
        let events = self.state.recorder.encode_events(task.id, records.timeline)?;
        let last =
            records.journal.map(|last| EncodedChunks::of_end(&self.sealing, task, last)).transpose()?;
        let (id, at) = (task.id, task.updated_at);
        let change = (change, bodies, events, RunRecord::of(task), last);
        let committed = self.writer.write_to(Some(id), change, move |writing, change| {
            let (change, bodies, events, run, last) = change;
            Box::pin(async move {
                let Some(seq) = write(writing, change).await? else { return Ok(CommitStatus::Stale) };
                if let Some(last) = last {
                    journal::append_last(writing, last).await?;
                }
                writing.log_all(at, bodies);
                let at = at.max(Timestamp(writing.state.floor.get()));
                let run = run.clone().committed_at(at);
                writing.timeline(|rows| rows.add_change(TaskRow { id, seq }, run, at, events));
                Ok(CommitStatus::Done)
            })
        });
        committed.await
    }

    async fn versions(&self, ids: &[TaskId]) -> Result<Vec<(TaskId, u64)>, StoreError> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = self.readers.rows("SELECT id, version FROM task WHERE id = ANY($1)", &[&ids]).await?;
        rows.iter().map(|row| Ok((TaskId(get(row, 0)?), get::<i64>(row, 1)?.unsigned_abs()))).collect()
    }

    async fn search(&self, query: &Search) -> Result<Page, StoreError> {
        search::search(&self.readers, query, self.state.floor.get(), &self.sealing).await
    }

    async fn select(&self, question: TaskQuestion, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        questions::select(self, question, limit).await
    }

    async fn remove(
        &self,
        tasks: Vec<(TaskId, Vec<Entry>)>,
        removable: Removable,
    ) -> Result<u32, StoreError> {
        let audited = self.state.audit.on;
        let tasks = tasks.iter().map(|(id, entries)| Ok((id.0, audit_lines::bodies(audited, entries)?)));
        let tasks = tasks.collect::<Result<BTreeMap<_, _>, StoreError>>()?;
        let removed = self.writer.write(tasks, move |writing, tasks| {
            Box::pin(async move {
                let ids: Vec<Uuid> = tasks.keys().copied().collect();
                let rows = remove(writing, &ids, removable).await?;
                for row in &rows {
                    let (id, now): (Uuid, i64) = (row.try_get(0)?, row.try_get(1)?);
                    if let Some(bodies) = tasks.get(&id) {
                        writing.log_all(Timestamp(now), bodies);
                    }
                }
                Ok(rows.len())
            })
        });
        Ok(u32::try_from(removed.await?).unwrap_or(u32::MAX))
    }

    async fn total(&self, of: Total<'_>) -> Result<u64, StoreError> {
        let (sql, owner) = match of {
            Total::Bytes(None) => (BYTES, None),
            Total::Bytes(Some(of)) => (BYTES_OF, Some(of.key().into_bytes())),
            Total::JournalBytes(None) => (JOURNAL_BYTES, None),
            Total::JournalBytes(Some(of)) => (JOURNAL_BYTES_OF, Some(of.key().into_bytes())),
            Total::Parked => (PARKED, None),
        };
        let given: Vec<&(dyn ToSql + Sync)> =
            owner.iter().map(|owner| owner as &(dyn ToSql + Sync)).collect();
        count(&self.readers.rows(sql, &given).await?)
    }

    async fn largest_owners(&self, limit: u32) -> Result<Vec<Owner>, StoreError> {
        let rows = self.readers.rows(LARGEST, &[&i64::from(limit)]).await?;
        rows.iter().map(|row| Ok(summary(row, &self.sealing)?.owner)).collect()
    }

    async fn ended_first(&self, of: &Owner, limit: u32) -> Result<Vec<(Summary, u64)>, StoreError> {
        let rows = self.readers.rows(ENDED, &[&of.key().into_bytes(), &i64::from(limit)]).await?;
        let ended = |row: &Row| Ok((summary(row, &self.sealing)?, get::<i64>(row, 5)?.unsigned_abs()));
        rows.iter().map(ended).collect()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn hints(&self) -> Box<dyn Hints> {
        self.listener.feed()
    }
}

/// A task that is not yet stored, encoded by its caller.
struct NewTask {
    task: Task,
    owner: Vec<u8>,
    record: String,
    arguments: Bytes,
    outcome: Option<Vec<u8>>,
    key: Option<KeyId>,
}

impl NewTask {
    fn of(task: Task, sealing: &Sealing) -> Result<Self, CodecError> {
        let arguments = sealing.arguments_of(&task)?;
        let (owner, outcome) = (task.owner.key().into_bytes(), sealing.outcome_of(&task)?);
        let record = sealing.record_of(&task)?;
        Ok(Self { owner, record, arguments, outcome, key: sealing.key(), task })
    }
}

async fn create(
    writing: &PostgresTransaction<'_>,
    new: &NewTask,
    bodies: &[String],
    quota: Quota,
    in_all: Option<u32>,
) -> Result<Result<(Task, i64), CreateError>, PostgresError> {
    let task = &new.task;
    sealed(writing, new.key).await?;
    let given: [&(dyn ToSql + Sync); 17] = [
        &writing.state.floor.get(),
        &task.id.0,
        &new.owner,
        &task.session.as_ref().map(|session| session.as_str()),
        &number_of(task.status()),
        &number(task.ttl_ms),
        &number(task.fence.incarnation.0),
        &number(task.version),
        &new.record,
        &&new.arguments[..],
        &new.outcome,
        &i64::from(quota.per_owner),
        &in_all.map(i64::from),
        &task.digest.0,
        &task.waits(),
        &bytes_of(&new.record, &new.arguments, new.outcome.as_deref()),
        &i64::from(quota.parked_per_owner),
    ];
    let rows = writing.rows(CREATE, &given).await?;
    let (said, created): (i32, Option<(i64, i64)>) = match rows.first() {
        Some(row) => (row.try_get(0)?, row.try_get::<_, Option<_>>(1)?.zip(row.try_get(2)?)),
        None => (0, None),
    };
    Ok(match (said, created) {
        (1, _) => Err(CreateError::Full { scope: QuotaScope::Owner, limit: quota.per_owner }),
        (2, _) => Err(CreateError::Full { scope: QuotaScope::Store, limit: quota.in_all }),
        (3, _) => Err(CreateError::Full { scope: QuotaScope::Parked, limit: quota.parked_per_owner }),
        (_, None) => Err(StoreError::Corrupt(StoreRefusal::Exists(task.id.to_string()).into()).into()),
        (_, Some((created, seq))) => {
            let now = writing.state.floor.saw(created);
            writing.log_all(now, bodies);
            writing.changes(task.id);
            journal::insert(writing, task).await?;
            Ok((timed(task.clone(), now, now), seq))
        }
    })
}

/// Returns the number of the row that was written; `None` if the change is stale.
async fn write(
    writing: &PostgresTransaction<'_>,
    change: &EncodedTask,
) -> Result<Option<i64>, PostgresError> {
    sealed(writing, change.key).await?;
    spanned(writing, change.span).await?;
    let status = i16::try_from(change.status).unwrap_or(i16::MAX);
    let mut given: Vec<&(dyn ToSql + Sync)> = vec![
        &change.id.0,
        &change.version,
        &status,
        &change.updated,
        &change.record,
        &change.outcome,
        &change.due,
        &change.incarnation,
        &change.digest,
        &change.waits,
        &change.bytes,
        &change.wake,
    ];
    let written = match &change.journal {
        None => writing.rows(UPDATE, &given).await?,
        Some((incarnation, attempt)) => {
            given.push(incarnation);
            given.push(attempt);
            writing.rows(UPDATE_RECORDED, &given).await?
        }
    };
    let Some(row) = written.first() else { return Ok(None) };
    writing.changes(change.id);
    Ok(Some(row.try_get(0)?))
}

/// Removes tasks with their events. Returns a row for each: its id, the time, and the number of its row.
pub(super) async fn remove(
    writing: &PostgresTransaction<'_>,
    ids: &[Uuid],
    removable: Removable,
) -> Result<Vec<Row>, PostgresError> {
    let at_once = removable == Removable::Ended;
    let rows = writing.rows(REMOVE, &[&writing.state.floor.get(), &ids, &at_once]).await?;
    timeline::remove_events(writing, &rows).await?;
    Ok(rows)
}

/// Records how long after its creation a task changed. Searches rely on the stored span being at
/// least as long as any that ever occurred; it never shrinks, so the value remembered here never
/// exceeds it.
async fn spanned(writing: &PostgresTransaction<'_>, span: i64) -> Result<(), PostgresError> {
    if span > writing.state.longest.load(Ordering::Relaxed) {
        let longer = (span.saturating_add(SPAN_STEP - 1) / SPAN_STEP).saturating_mul(SPAN_STEP).max(span);
        writing.execute(LONGER, &[&longer]).await?;
        // If this transaction fails, the next attempt must write it again.
        writing.longest.fetch_max(longer, Ordering::Relaxed);
    }
    Ok(())
}
