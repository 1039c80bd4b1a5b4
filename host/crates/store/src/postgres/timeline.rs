//! Timelines in PostgreSQL. The rows of all changes and reports of a transaction are written together at its
//! end. The events of runs wait in a buffer and join the next transaction.
//!
//! A transaction locks the task before it writes events of it. So the numbers of events follow each other,
//! although another host may change the task at the same time.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::{get, number};
use super::timeline_rows::{RunReport, TaskRow, TaskRows, TimelineRows};
use super::transaction::{Operation, PostgresTransaction, pending, sealed};
use crate::codec::CodecError;
use crate::encryption::{Column, Sealing};
use crate::group_commit::log_failure;
use crate::timeline_buffer::{Note, Relaxed, log_events_not_stored};
use crate::timeline_encoding::{EncodedNote, EventLength, MAX_SMALL_BYTES, Recorder};
use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use std::collections::BTreeMap;
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

const LOCK: &str = "SELECT store_time($2), seq FROM task WHERE id = $1 FOR UPDATE";
const LOCK_IF_FREE: &str = "SELECT FROM task WHERE id = $1 FOR UPDATE SKIP LOCKED";

/// A parked attempt keeps its host.
const UPSERT: &str = "
    INSERT INTO run (task_seq, task, attempt, tool, digest, owner, incarnation, created, started, ended, outcome, bytes)
    SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[])
    ON CONFLICT (task_seq, attempt) WHERE task_seq IS NOT NULL DO UPDATE SET digest = excluded.digest,
        incarnation = CASE excluded.incarnation WHEN 0 THEN run.incarnation ELSE excluded.incarnation END,
        started = excluded.started, ended = excluded.ended, outcome = excluded.outcome,
        bytes = run.bytes + excluded.bytes";
const LOSE: &str = "
    UPDATE run SET ended = $3, outcome = $4 WHERE task_seq = $1 AND attempt < $2 AND ended IS NULL";
const INSERT: &str = "
    INSERT INTO run_event (task, seq, attempt, at, kind, body)
    SELECT new.task, row_number() OVER (PARTITION BY new.task ORDER BY nth)
        + (SELECT coalesce(max(seq), 0) FROM run_event WHERE task = new.task), attempt, at, kind, body
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bytea[])
        WITH ORDINALITY AS new (task, attempt, at, kind, body, nth)";
const REPORT: &str = "
    UPDATE run SET bytes = run.bytes + new.bytes, cpu_us = coalesce(new.cpu_us, run.cpu_us),
        memory = coalesce(new.memory, run.memory)
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS new (task_seq, attempt, bytes, cpu_us, memory)
    WHERE run.task_seq = new.task_seq AND run.attempt = new.attempt";
const LONG: &str = "
    SELECT task, task_seq FROM run WHERE task_seq = ANY($1) GROUP BY task, task_seq HAVING sum(bytes) > $2::bigint";

const REMOVE: &str = "DELETE FROM run_event WHERE task = ANY($1)";
const LEAVE: &str = "UPDATE run SET task_seq = NULL, bytes = 0 WHERE task_seq = ANY($1)";

const BYTES: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM run WHERE task_seq = $1";
const EVENTS: &str =
    "SELECT seq, kind, octet_length(body)::bigint FROM run_event WHERE task = $1 ORDER BY seq";
const GAPS: &str = "SELECT body FROM run_event WHERE task = $1 AND seq BETWEEN $2 AND $3 AND kind = $4";
const LEAVE_OUT: &str = "DELETE FROM run_event WHERE task = $1 AND seq > $2 AND seq <= $3";
const PUT_GAP: &str = "UPDATE run_event SET kind = $3, body = $4 WHERE task = $1 AND seq = $2";
const COUNT_AGAIN: &str = "
    UPDATE run SET bytes = (
        SELECT coalesce(sum(octet_length(body)), 0) FROM run_event
        WHERE run_event.task = run.task_seq AND run_event.attempt = run.attempt)
    WHERE task_seq = $1";

const RUNS: &str = "
    SELECT attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes
    FROM run WHERE task_seq = (SELECT seq FROM task WHERE id = $1) OR (task_seq IS NULL AND task = $1)
    ORDER BY attempt";
const PAGE: &str = "
    SELECT seq, attempt, at, kind, body FROM run_event
    WHERE task = (SELECT seq FROM task WHERE id = $1) AND seq > $2 ORDER BY seq LIMIT $3";

/// Attempts whose tasks are removed. Other hosts may tidy at the same time.
const OLD: &str = "
    DELETE FROM run WHERE task_seq IS NULL AND (task, attempt) IN (
        SELECT task, attempt FROM run WHERE task_seq IS NULL AND ended <= $1
        ORDER BY ended LIMIT $2 FOR UPDATE SKIP LOCKED)";
const LEFT: &str = "SELECT count(*) FROM run WHERE task_seq IS NULL";
const TOTAL: &str = "SELECT coalesce(sum(bytes), 0)::bigint FROM run";
/// Tasks whose last attempt has ended and that have more than a gap, the first to end first.
const ENDED: &str = "
    SELECT task, task_seq, sum(bytes)::bigint FROM run WHERE task_seq IS NOT NULL
    GROUP BY task, task_seq HAVING count(*) = count(ended) AND sum(bytes) > $2::bigint
    ORDER BY max(ended) LIMIT $1";

/// The most records that one transaction removes.
const MAX_RECORDS: i64 = 500;
/// The most tasks that one transaction tidies, and the most such transactions at once. Changes wait for the
/// end of such a transaction.
const MAX_TASKS: i64 = 32;
const MAX_TRANSACTIONS: usize = 16;

/// Writes the rows of a transaction, which has locked their tasks: each kind of row in one statement.
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
    let numbers: Vec<i64> = tasks.keys().copied().collect();
    let limit = number(writing.state.recorder.bounds.task);
    let long: [&(dyn ToSql + Sync); 2] = [&numbers, &limit];
    let (runs, lost, events, reports, long) = tokio::join!(biased;
        write_runs(writing, &tasks),
        lose(writing, &tasks),
        write_events(writing, &tasks),
        write_reports_of(writing, &tasks),
        writing.rows(LONG, &long),
    );
    runs.and(lost).and(events).and(reports)?;
    for row in long? {
        trim(writing, TaskRow { id: TaskId(row.try_get(0)?), seq: row.try_get(1)? }).await?;
    }
    Ok(())
}

async fn write_runs(
    writing: &PostgresTransaction<'_>,
    tasks: &BTreeMap<i64, TaskRows>,
) -> Result<(), PostgresError> {
    let runs: Vec<(i64, Uuid, &RunRecord)> =
        tasks.iter().flat_map(|(seq, rows)| rows.runs.values().map(|run| (*seq, rows.task.0, run))).collect();
    if runs.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(runs: &[(i64, Uuid, &'a RunRecord)], of: impl Fn(&'a RunRecord) -> T) -> Vec<T> {
        runs.iter().map(|(.., run)| of(run)).collect()
    }
    let given: [&(dyn ToSql + Sync); 12] = [
        &runs.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(),
        &runs.iter().map(|(_, task, _)| *task).collect::<Vec<_>>(),
        &column(&runs, |run| i64::from(run.attempt)),
        &column(&runs, |run| run.tool.as_str()),
        &column(&runs, |run| run.digest.0.as_str()),
        // The name of a subject may contain zero, which text cannot.
        &column(&runs, |run| run.owner.as_bytes()),
        &column(&runs, |run| number(run.incarnation.0)),
        &column(&runs, |run| run.created.0),
        &column(&runs, |run| run.started.map(|at| at.0)),
        &column(&runs, |run| run.ended.map(|at| at.0)),
        &column(&runs, |run| run.outcome.as_deref()),
        &column(&runs, |run| number(run.bytes)),
    ];
    writing.execute(UPSERT, &given).await.map(drop)
}

/// A later attempt begins when the one before it is lost.
async fn lose(
    writing: &PostgresTransaction<'_>,
    tasks: &BTreeMap<i64, TaskRows>,
) -> Result<(), PostgresError> {
    let later = tasks.iter().flat_map(|(seq, rows)| rows.runs.values().map(move |run| (seq, run)));
    let lost = later.filter(|(_, run)| run.attempt > 1).map(async |(seq, run)| {
        writing.execute(LOSE, &[seq, &i64::from(run.attempt), &run.created.0, &LOST]).await
    });
    join_all(lost).await.into_iter().try_for_each(|lost| lost.map(drop))
}

async fn write_events(
    writing: &PostgresTransaction<'_>,
    tasks: &BTreeMap<i64, TaskRows>,
) -> Result<(), PostgresError> {
    let events = tasks.iter().flat_map(|(seq, rows)| {
        rows.reported.iter().chain(&rows.changed).map(|(at, event)| (*seq, *at, event))
    });
    let events: Vec<_> = events.collect();
    if events.is_empty() {
        return Ok(());
    }
    let given: [&(dyn ToSql + Sync); 5] = [
        &events.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(),
        &events.iter().map(|(.., event)| i64::from(event.attempt)).collect::<Vec<_>>(),
        &events.iter().map(|(_, at, _)| at.0).collect::<Vec<_>>(),
        &events.iter().map(|(.., event)| event.kind.number()).collect::<Vec<_>>(),
        &events.iter().map(|(.., event)| &event.body[..]).collect::<Vec<_>>(),
    ];
    writing.execute(INSERT, &given).await.map(drop)
}

async fn write_reports_of(
    writing: &PostgresTransaction<'_>,
    tasks: &BTreeMap<i64, TaskRows>,
) -> Result<(), PostgresError> {
    let reports = tasks.iter().flat_map(|(seq, rows)| {
        rows.reports.iter().map(|(attempt, report)| (*seq, i64::from(*attempt), report))
    });
    let reports: Vec<(i64, i64, &RunReport)> = reports.collect();
    if reports.is_empty() {
        return Ok(());
    }
    let given: [&(dyn ToSql + Sync); 5] = [
        &reports.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(),
        &reports.iter().map(|(_, attempt, _)| *attempt).collect::<Vec<_>>(),
        &reports.iter().map(|(.., report)| report.bytes).collect::<Vec<_>>(),
        &reports.iter().map(|(.., report)| report.cpu_us).collect::<Vec<_>>(),
        &reports.iter().map(|(.., report)| report.memory).collect::<Vec<_>>(),
    ];
    writing.execute(REPORT, &given).await.map(drop)
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
    let row = TaskRow { id: task, seq: row.try_get(1)? };
    writing.timeline(|rows| rows.add_reports(row, now, notes));
    Ok(())
}

/// Removes the events of tasks that the transaction has removed; the numbers of their rows are the third column. No
/// trigger does this, because a start refuses a schema with triggers.
pub(super) async fn remove_events(
    writing: &PostgresTransaction<'_>,
    removed: &[Row],
) -> Result<(), PostgresError> {
    let numbers = removed.iter().map(|row| row.try_get(2)).collect::<Result<Vec<i64>, _>>()?;
    if !numbers.is_empty() {
        writing.execute(REMOVE, &[&numbers]).await?;
        writing.execute(LEAVE, &[&numbers]).await?;
    }
    Ok(())
}

/// Leaves out what exceeds the bound of one task.
async fn trim(writing: &PostgresTransaction<'_>, task: TaskRow) -> Result<(), PostgresError> {
    let events = lengths(writing, task).await?;
    match cut(&events, writing.state.recorder.bounds.task) {
        Some(cut) => leave_out(writing, task, &events, cut).await,
        None => Ok(()),
    }
}

/// Puts one event in the place of these.
async fn leave_out(
    writing: &PostgresTransaction<'_>,
    TaskRow { id, seq }: TaskRow,
    events: &[EventLength],
    cut: Cut,
) -> Result<(), PostgresError> {
    let (from, to, gap) = (number(cut.from), number(cut.to), EventKind::LeftOut.number());
    let gaps = writing.rows(GAPS, &[&seq, &from, &to, &gap]).await?;
    let gaps = gaps.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let Ok(body) = writing.state.recorder.gap(id, events, cut, gaps) else { return Ok(()) };
    writing.execute(LEAVE_OUT, &[&seq, &from, &to]).await?;
    writing.execute(PUT_GAP, &[&seq, &from, &gap, &body]).await?;
    writing.execute(COUNT_AGAIN, &[&seq]).await.map(drop)
}

async fn lengths(
    writing: &PostgresTransaction<'_>,
    task: TaskRow,
) -> Result<Vec<EventLength>, PostgresError> {
    let length = |row: &Row| {
        let kind = EventKind::of_number(get(row, 1)?).unwrap_or(EventKind::LeftOut);
        Ok((count(row, 0)?, kind, count(row, 2)?))
    };
    writing.rows(EVENTS, &[&task.seq]).await?.iter().map(length).collect()
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
        // This reads all records, so the writer does not wait for it.
        let rows = self.readers.rows(TOTAL, &[]).await?;
        let bytes: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        let mut excess = bytes.saturating_sub(number(self.state.recorder.bounds.total));
        for _ in 0..MAX_TRANSACTIONS {
            if excess <= 0 {
                break;
            }
            let empty = self.writer.write(excess, |writing, excess| Box::pin(empty_some(writing, *excess)));
            excess = empty.await?;
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
    let rows = writing.rows(LEFT, &[]).await?;
    let left: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let too_many = left.saturating_sub(number(bounds.rows));
    if too_many > 0 {
        writing.execute(OLD, &[&i64::MAX, &too_many.min(MAX_RECORDS)]).await?;
    }
    Ok(())
}

/// Leaves out all events of some tasks, because those of all tasks exceed their bound by `excess` bytes. Returns by how
/// much they still do, or 0 if nothing can be left out.
async fn empty_some(writing: &PostgresTransaction<'_>, mut excess: i64) -> Result<i64, PostgresError> {
    sealed(writing, writing.state.recorder.sealing.key()).await?;
    let mut emptied = false;
    for row in writing.rows(ENDED, &[&MAX_TASKS, &MAX_SMALL_BYTES]).await? {
        let task = TaskRow { id: TaskId(row.try_get(0)?), seq: row.try_get(1)? };
        let bytes: i64 = row.try_get(2)?;
        // The transaction may hold locks already, so it waits for none.
        if excess <= 0 || writing.rows(LOCK_IF_FREE, &[&task.id.0]).await?.is_empty() {
            continue;
        }
        let events = lengths(writing, task).await?;
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            leave_out(writing, task, &events, Cut { from: first.0, to: last.0 }).await?;
        }
        let rows = writing.rows(BYTES, &[&task.seq]).await?;
        let left = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
        excess -= bytes - left;
        emptied = true;
    }
    Ok(if emptied { excess } else { 0 })
}
