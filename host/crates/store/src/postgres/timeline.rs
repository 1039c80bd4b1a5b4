//! Timelines in PostgreSQL. The rows of all changes and reports of a transaction are written together at its
//! end. The events of runs wait in a buffer and join the next transaction.
//!
//! A transaction locks the task before it writes events of it. So the numbers of events follow each other,
//! although another host may change the task at the same time.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::{get, number};
use super::timeline_rows::{RunReport, TaskRows, TimelineRows};
use super::transaction::{Operation, PostgresTransaction, pending, sealed};
use crate::codec::CodecError;
use crate::encryption::{Column, Sealing};
use crate::group_commit::log_failure;
use crate::timeline_buffer::{Note, Relaxed, log_events_not_stored};
use crate::timeline_encoding::{EncodedNote, EventLength, MAX_SMALL_BYTES, Recorder};
use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use std::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use toolyard_task::timeline::{
    Cut, EventKind, LOST, NewEvent, RunRecord, Timeline, TimelineEvent, TimelineStore, cut,
};
use toolyard_task::tool::RunUsage;
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Digest, Incarnation, StoreError, TaskId};
use uuid::Uuid;

const LOCK: &str = "SELECT store_time($2) FROM task WHERE id = $1 FOR UPDATE";
const LOCK_IF_FREE: &str = "SELECT FROM task WHERE id = $1 FOR UPDATE SKIP LOCKED";

/// A parked attempt keeps its host.
const UPSERT: &str = "
    INSERT INTO run (task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ON CONFLICT (task, attempt) DO UPDATE SET digest = excluded.digest,
        incarnation = CASE excluded.incarnation WHEN 0 THEN run.incarnation ELSE excluded.incarnation END,
        started = excluded.started, ended = excluded.ended, outcome = excluded.outcome,
        bytes = run.bytes + excluded.bytes";
const LOSE: &str = "
    UPDATE run SET ended = $3, outcome = $4 WHERE task = $1 AND attempt < $2 AND ended IS NULL";
const INSERT: &str = "
    INSERT INTO run_event (task, seq, attempt, at, kind, body)
    SELECT $1, nth + (SELECT coalesce(max(seq), 0) FROM run_event WHERE task = $1), attempt, at, kind, body
    FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bytea[])
        WITH ORDINALITY AS new (attempt, at, kind, body, nth)";
const REPORT: &str = "
    UPDATE run SET bytes = bytes + $3, cpu_us = coalesce($4, cpu_us), memory = coalesce($5, memory)
    WHERE task = $1 AND attempt = $2";
const LONG: &str = "SELECT task FROM run WHERE task = ANY($1) GROUP BY task HAVING sum(bytes) > $2::bigint";

const REMOVE: &str = "DELETE FROM run_event WHERE task = ANY($1)";
const NO_BYTES: &str = "UPDATE run SET bytes = 0 WHERE task = ANY($1)";

const BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM run WHERE task = $1";
const EVENTS: &str =
    "SELECT seq, kind, octet_length(body)::bigint FROM run_event WHERE task = $1 ORDER BY seq";
const GAPS: &str = "SELECT body FROM run_event WHERE task = $1 AND seq BETWEEN $2 AND $3 AND kind = $4";
const LEAVE_OUT: &str = "DELETE FROM run_event WHERE task = $1 AND seq > $2 AND seq <= $3";
const PUT_GAP: &str = "UPDATE run_event SET kind = $3, body = $4 WHERE task = $1 AND seq = $2";
const COUNT_AGAIN: &str = "
    UPDATE run SET bytes = (
        SELECT coalesce(sum(octet_length(body)), 0) FROM run_event
        WHERE run_event.task = run.task AND run_event.attempt = run.attempt)
    WHERE task = $1";

const RUNS: &str = "
    SELECT attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes
    FROM run WHERE task = $1 ORDER BY attempt";
const PAGE: &str = "
    SELECT seq, attempt, at, kind, body FROM run_event WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// Other hosts may tidy at the same time.
const OLD: &str = "
    DELETE FROM run WHERE (task, attempt) IN (
        SELECT task, attempt FROM run
        WHERE ended <= $1 AND NOT EXISTS (SELECT 1 FROM task WHERE id = run.task)
        ORDER BY ended LIMIT $2 FOR UPDATE SKIP LOCKED)";
const SIZES: &str = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM run";
/// Tasks whose last attempt has ended and that have more than a gap, the first to end first.
const ENDED: &str = "
    SELECT task, sum(bytes)::bigint FROM run
    GROUP BY task HAVING count(*) = count(ended) AND sum(bytes) > $2::bigint ORDER BY max(ended) LIMIT $1";

/// The most records that one transaction removes.
const MAX_RECORDS: i64 = 500;
/// The most tasks that one transaction tidies, and the most such transactions at once. Changes wait for the
/// end of such a transaction.
const MAX_TASKS: i64 = 32;
const MAX_TRANSACTIONS: usize = 16;

/// Writes the rows of a transaction, which has locked their tasks.
pub(super) async fn insert(
    writing: &PostgresTransaction<'_>,
    rows: TimelineRows,
) -> Result<(), PostgresError> {
    let TimelineRows(tasks) = rows;
    if tasks.is_empty() {
        return Ok(());
    }
    // Statements are sent in the order below only if none of them has to be prepared first.
    let statements = [UPSERT, LOSE, INSERT, REPORT, LONG];
    try_join_all(statements.map(|sql| writing.on.prepare_cached(sql))).await?;
    let ids: Vec<Uuid> = tasks.keys().map(|task| task.0).collect();
    let limit = number(writing.state.recorder.bounds.task);
    let written = join_all(tasks.iter().map(|(task, rows)| rows.write(writing, *task)));
    let long: [&(dyn ToSql + Sync); 2] = [&ids, &limit];
    let (written, long) = tokio::join!(biased; written, writing.rows(LONG, &long));
    written.into_iter().collect::<Result<(), PostgresError>>()?;
    for row in long? {
        trim(writing, TaskId(row.try_get(0)?)).await?;
    }
    Ok(())
}

impl TaskRows {
    async fn write(&self, writing: &PostgresTransaction<'_>, task: TaskId) -> Result<(), PostgresError> {
        let runs = join_all(self.runs.iter().map(|run| write_run(writing, task, run)));
        let reports = self.reports.iter();
        let reports = join_all(reports.map(|(attempt, report)| report.write(writing, task, *attempt)));
        let (runs, events, reports) = tokio::join!(biased; runs, self.write_events(writing, task), reports);
        runs.into_iter().chain([events]).chain(reports).collect()
    }

    async fn write_events(
        &self,
        writing: &PostgresTransaction<'_>,
        task: TaskId,
    ) -> Result<(), PostgresError> {
        let events = || self.reported.iter().chain(&self.changed);
        if events().next().is_none() {
            return Ok(());
        }
        let attempts: Vec<i64> = events().map(|(_, event)| event.attempt.into()).collect();
        let times: Vec<i64> = events().map(|(at, _)| at.0).collect();
        let kinds: Vec<i16> = events().map(|(_, event)| event.kind.number()).collect();
        let bodies: Vec<&[u8]> = events().map(|(_, event)| &event.body[..]).collect();
        writing.execute(INSERT, &[&task.0, &attempts, &times, &kinds, &bodies]).await.map(drop)
    }
}

impl RunReport {
    async fn write(
        &self,
        writing: &PostgresTransaction<'_>,
        task: TaskId,
        attempt: u32,
    ) -> Result<(), PostgresError> {
        let Self { bytes, cpu_us, memory } = self;
        writing.execute(REPORT, &[&task.0, &i64::from(attempt), bytes, cpu_us, memory]).await.map(drop)
    }
}

async fn write_run(
    writing: &PostgresTransaction<'_>,
    task: TaskId,
    run: &RunRecord,
) -> Result<(), PostgresError> {
    let attempt = i64::from(run.attempt);
    let incarnation = number(run.incarnation.0);
    let (started, ended) = (run.started.map(|at| at.0), run.ended.map(|at| at.0));
    let bytes = number(run.bytes);
    let given: [&(dyn ToSql + Sync); 11] = [
        &task.0,
        &attempt,
        &run.tool,
        &run.digest.0,
        // The name of a subject may contain zero, which text cannot.
        &run.owner.as_bytes(),
        &incarnation,
        &run.created.0,
        &started,
        &ended,
        &run.outcome,
        &bytes,
    ];
    let lost = async {
        if run.attempt == 1 {
            return Ok(0);
        }
        // A later attempt begins when the one before it is lost.
        writing.execute(LOSE, &[&task.0, &attempt, &run.created.0, &LOST]).await
    };
    let (written, lost) = tokio::join!(biased; writing.execute(UPSERT, &given), lost);
    written.and(lost).map(drop)
}

/// The write of the reports of a task that have waited.
pub(super) fn write_reports(
    recorder: &Recorder,
    task: TaskId,
    waiting: Vec<Note<Instant>>,
) -> Box<dyn Operation> {
    let notes = recorder.encode_notes(task, waiting);
    let reply = log_failure(log_events_not_stored);
    Box::new(Relaxed(pending(
        Some(task),
        notes,
        move |writing, notes| Box::pin(add_reports(writing, task, notes)),
        reply,
    )))
}

async fn add_reports(
    writing: &PostgresTransaction<'_>,
    task: TaskId,
    notes: &[EncodedNote<Instant>],
) -> Result<(), PostgresError> {
    // Before locking a task, as changes do.
    sealed(writing, writing.state.recorder.sealing.key()).await?;
    let rows = writing.rows(LOCK, &[&task.0, &writing.state.floor.get()]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let now = writing.state.floor.saw(row.try_get(0)?);
    writing.timeline(|rows| rows.add_reports(task, now, notes));
    Ok(())
}

/// Removes the events of tasks that the transaction has removed; their ids are the first column. No trigger
/// does this, because a start refuses a schema with triggers.
pub(super) async fn remove_events(
    writing: &PostgresTransaction<'_>,
    removed: &[Row],
) -> Result<(), PostgresError> {
    let ids = removed.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
    if !ids.is_empty() {
        writing.execute(REMOVE, &[&ids]).await?;
        writing.execute(NO_BYTES, &[&ids]).await?;
    }
    Ok(())
}

/// Leaves out what exceeds the bound of one task.
async fn trim(writing: &PostgresTransaction<'_>, task: TaskId) -> Result<(), PostgresError> {
    let events = lengths(writing, task).await?;
    match cut(&events, writing.state.recorder.bounds.task) {
        Some(cut) => leave_out(writing, task, &events, cut).await,
        None => Ok(()),
    }
}

/// Puts one event in the place of these.
async fn leave_out(
    writing: &PostgresTransaction<'_>,
    task: TaskId,
    events: &[EventLength],
    cut: Cut,
) -> Result<(), PostgresError> {
    let (from, to, gap) = (number(cut.from), number(cut.to), EventKind::LeftOut.number());
    let gaps = writing.rows(GAPS, &[&task.0, &from, &to, &gap]).await?;
    let gaps = gaps.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let Ok(body) = writing.state.recorder.gap(task, events, cut, gaps) else { return Ok(()) };
    writing.execute(LEAVE_OUT, &[&task.0, &from, &to]).await?;
    writing.execute(PUT_GAP, &[&task.0, &from, &gap, &body]).await?;
    writing.execute(COUNT_AGAIN, &[&task.0]).await.map(drop)
}

async fn lengths(writing: &PostgresTransaction<'_>, task: TaskId) -> Result<Vec<EventLength>, PostgresError> {
    let length = |row: &Row| {
        let kind = EventKind::of_number(get(row, 1)?).unwrap_or(EventKind::LeftOut);
        Ok((count(row, 0)?, kind, count(row, 2)?))
    };
    writing.rows(EVENTS, &[&task.0]).await?.iter().map(length).collect()
}

#[async_trait]
impl TimelineStore for PostgresStore {
    fn append(&self, task: TaskId, event: NewEvent) {
        let state = &self.state;
        if state.recorder.is_on() && state.timeline.append(task, Instant::now(), event) {
            self.writer.queue.wake();
        }
    }

    fn append_usage(&self, task: TaskId, attempt: u32, used: RunUsage) {
        let state = &self.state;
        if state.recorder.is_on() && state.timeline.append_usage(task, attempt, used) {
            self.writer.queue.wake();
        }
    }

    async fn timeline(&self, task: TaskId, after: Option<u64>, limit: u32) -> Result<Timeline, StoreError> {
        let limit = limit.max(1);
        let (after, rows) = (after.map_or(0, number), i64::from(limit) + 1);
        let page = self.readers.rows(PAGE, &[&task.0, &after, &rows]).await?;
        let events = page.iter().map(|row| event(row, task, &self.sealing));
        let mut events = events.collect::<Result<Vec<_>, _>>()?;
        let more = events.len() > limit as usize;
        events.truncate(limit as usize);
        // Read after the events, so that an event's attempt is always among the attempts.
        let runs = self.readers.rows(RUNS, &[&task.0]).await?;
        Ok(Timeline { runs: runs.iter().map(run).collect::<Result<_, _>>()?, events, more })
    }

    async fn tidy_timeline(&self) -> Result<(), StoreError> {
        self.writer.write((), |writing, ()| Box::pin(remove_records(writing))).await?;
        for _ in 0..MAX_TRANSACTIONS {
            if !self.writer.write((), |writing, ()| Box::pin(empty_some(writing))).await? {
                break;
            }
        }
        Ok(())
    }
}

fn event(row: &Row, task: TaskId, sealing: &Sealing) -> Result<TimelineEvent, StoreError> {
    let kind = get(row, 3)?;
    let kind = EventKind::of_number(kind).ok_or(CodecError::Event(kind))?;
    let body = RawJson::parse(sealing.open(task, Column::Event, get(row, 4)?)?).map_err(CodecError::Body)?;
    let (seq, attempt) = (count(row, 0)?, short(count(row, 1)?));
    Ok(TimelineEvent { seq, attempt, at: Timestamp(get(row, 2)?), kind, body })
}

fn run(row: &Row) -> Result<RunRecord, StoreError> {
    let time = |column| Ok::<_, StoreError>(get::<Option<i64>>(row, column)?.map(Timestamp));
    let figure = |column| Ok::<_, StoreError>(get::<Option<i64>>(row, column)?.map(i64::unsigned_abs));
    Ok(RunRecord {
        attempt: short(count(row, 0)?),
        tool: get(row, 1)?,
        digest: Digest(get(row, 2)?),
        owner: String::from_utf8_lossy(get(row, 3)?).into_owned(),
        incarnation: Incarnation(count(row, 4)?),
        created: Timestamp(get(row, 5)?),
        started: time(6)?,
        ended: time(7)?,
        outcome: get(row, 8)?,
        cpu_us: figure(9)?,
        memory: figure(10)?,
        bytes: count(row, 11)?,
    })
}

fn count(row: &Row, column: usize) -> Result<u64, StoreError> {
    get(row, column).map(i64::unsigned_abs)
}

fn short(attempt: u64) -> u32 {
    u32::try_from(attempt).unwrap_or(u32::MAX)
}

/// Removes old records of attempts, and those that are too many.
async fn remove_records(writing: &PostgresTransaction<'_>) -> Result<(), PostgresError> {
    let bounds = writing.state.recorder.bounds;
    let old = writing.time().await?.0.saturating_sub(number(bounds.keep_ms));
    writing.execute(OLD, &[&old, &MAX_RECORDS]).await?;
    let too_many = sizes(writing).await?.0.saturating_sub(number(bounds.rows));
    if too_many > 0 {
        writing.execute(OLD, &[&i64::MAX, &too_many.min(MAX_RECORDS)]).await?;
    }
    Ok(())
}

/// How many records there are, and the bytes of their events.
async fn sizes(writing: &PostgresTransaction<'_>) -> Result<(i64, i64), PostgresError> {
    let rows = writing.rows(SIZES, &[]).await?;
    rows.first().map_or(Ok((0, 0)), |row| Ok((row.try_get(0)?, row.try_get(1)?)))
}

/// Leaves out all events of some tasks, if those of all tasks exceed their bound. Returns whether there may
/// be more to leave out.
async fn empty_some(writing: &PostgresTransaction<'_>) -> Result<bool, PostgresError> {
    let recorder = &writing.state.recorder;
    let mut excess = sizes(writing).await?.1.saturating_sub(number(recorder.bounds.total));
    if excess <= 0 {
        return Ok(false);
    }
    sealed(writing, recorder.sealing.key()).await?;
    let mut emptied = false;
    for row in writing.rows(ENDED, &[&MAX_TASKS, &MAX_SMALL_BYTES]).await? {
        let (task, bytes) = (TaskId(row.try_get(0)?), row.try_get::<_, i64>(1)?);
        // The transaction may hold locks already, so it waits for none.
        if excess <= 0 || writing.rows(LOCK_IF_FREE, &[&task.0]).await?.is_empty() {
            continue;
        }
        let events = lengths(writing, task).await?;
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            leave_out(writing, task, &events, Cut { from: first.0, to: last.0 }).await?;
        }
        let rows = writing.rows(BYTES, &[&task.0]).await?;
        let left = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
        excess -= bytes - left;
        emptied = true;
    }
    Ok(emptied && excess > 0)
}
