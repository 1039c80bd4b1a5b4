//! Timelines in SQLite. Lifecycle events are written in the transaction of their change; the events of runs
//! wait in a buffer and join the next transaction.

use super::SqliteStore;
use super::error::SqliteError;
use super::rows::{self, id, number};
use super::transaction::{Operation, SqliteTransaction};
use crate::codec::CodecError;
use crate::encryption::{Column, Sealing};
use crate::group_commit::{PendingWrite, log_failure};
use crate::timeline_buffer::{Note, Relaxed, log_events_not_stored};
use crate::timeline_encoding::{EncodedEvent, EncodedNote, EventLength, MAX_SMALL_BYTES, Recorder};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolyard_task::timeline::{
    Cut, EventKind, LOST, NewEvent, RunRecord, Timeline, TimelineEvent, TimelineStore, cut,
};
use toolyard_task::tool::RunUsage;
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Digest, Incarnation, StoreError, TaskId};

/// A parked attempt keeps its host.
const UPSERT: &str = "
    INSERT INTO run (task_seq, attempt, task, tool, digest, owner, incarnation, created, started, ended, outcome, bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (task_seq, attempt) WHERE task_seq IS NOT NULL DO UPDATE SET digest = excluded.digest,
        incarnation = iif(excluded.incarnation = 0, incarnation, excluded.incarnation),
        started = excluded.started, ended = excluded.ended, outcome = excluded.outcome,
        bytes = bytes + excluded.bytes";
const LOSE: &str =
    "UPDATE run SET ended = ?3, outcome = ?4 WHERE task_seq = ?1 AND attempt < ?2 AND ended IS NULL";
const USED: &str = "UPDATE run SET cpu_us = ?3, memory = ?4 WHERE task_seq = ?1 AND attempt = ?2";
const GROWN: &str = "UPDATE run SET bytes = bytes + ?3 WHERE task_seq = ?1 AND attempt = ?2";
const SEQ: &str = "SELECT seq FROM task WHERE id = ?1";
const INSERT: &str = "
    INSERT INTO run_event (task, seq, attempt, at, kind, body)
    SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4, ?5 FROM run_event WHERE task = ?1";
const BYTES: &str = "SELECT coalesce(sum(bytes), 0) FROM run WHERE task_seq = ?1";
const EVENTS: &str = "SELECT seq, kind, octet_length(body) FROM run_event WHERE task = ?1 ORDER BY seq";
const GAPS: &str = "SELECT body FROM run_event WHERE task = ?1 AND seq BETWEEN ?2 AND ?3 AND kind = ?4";
const LEAVE_OUT: &str = "DELETE FROM run_event WHERE task = ?1 AND seq > ?2 AND seq <= ?3";
const PUT_GAP: &str = "UPDATE run_event SET kind = ?3, body = ?4 WHERE task = ?1 AND seq = ?2";
const COUNT_AGAIN: &str = "
    UPDATE run SET bytes = (
        SELECT coalesce(sum(octet_length(body)), 0) FROM run_event
        WHERE run_event.task = ?1 AND run_event.attempt = run.attempt)
    WHERE task_seq = ?1";
const RUNS: &str = "
    SELECT attempt, tool, digest, owner, incarnation, created, started, ended, outcome, cpu_us, memory, bytes
    FROM run WHERE task_seq = (SELECT seq FROM task WHERE id = ?1) OR (task_seq IS NULL AND task = ?1)
    ORDER BY attempt";
const PAGE: &str = "
    SELECT seq, attempt, at, kind, body FROM run_event
    WHERE task = (SELECT seq FROM task WHERE id = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3";

/// Attempts whose tasks are removed.
const OLD: &str = "
    DELETE FROM run WHERE seq IN (
        SELECT seq FROM run INDEXED BY left_run_by_ended
        WHERE task_seq IS NULL AND ended <= ?1 ORDER BY ended LIMIT ?2)";
const LEFT: &str = "SELECT count(*) FROM run INDEXED BY left_run_by_ended WHERE task_seq IS NULL";
const TOTAL: &str = "SELECT coalesce(sum(bytes), 0) FROM run";
/// Tasks whose last attempt has ended and that have more than a gap, the first to end first.
const ENDED: &str = "
    SELECT task, task_seq, sum(bytes) FROM run WHERE task_seq IS NOT NULL
    GROUP BY task_seq HAVING count(*) = count(ended) AND sum(bytes) > ?2 ORDER BY max(ended) LIMIT ?1";

/// The most records or tasks that one transaction tidies.
const MAX_ROWS: i64 = 500;

/// A task and the number of its row.
#[derive(Clone, Copy)]
pub(super) struct TaskRow {
    pub(super) id: TaskId,
    pub(super) seq: i64,
}

/// The events of a change, encoded by its caller.
pub(super) struct EncodedRecord {
    recorder: Recorder,
    task: TaskId,
    events: Vec<EncodedEvent>,
}

impl Recorder {
    /// The events of a change of this task.
    pub(super) fn record(&self, task: TaskId, events: Vec<NewEvent>) -> Result<EncodedRecord, CodecError> {
        Ok(EncodedRecord { recorder: self.clone(), task, events: self.encode_events(task, events)? })
    }

    fn insert(
        &self,
        writing: &mut SqliteTransaction<'_>,
        task: TaskRow,
        at: Timestamp,
        event: &EncodedEvent,
    ) -> Result<(), SqliteError> {
        let EncodedEvent { attempt, kind, body } = event;
        writing.execute(INSERT, params![task.seq, attempt, at.0, kind.number(), body])?;
        Ok(writing.counts.sealed(writing.on, self.sealing.key())?)
    }

    /// Leaves out what exceeds the bound of one task.
    fn trim(&self, on: &Connection, task: TaskRow) -> Result<(), SqliteError> {
        let limit = number(self.bounds.task);
        if bytes(on, task)? <= limit {
            return Ok(());
        }
        let events = lengths(on, task)?;
        match cut(&events, self.bounds.task) {
            Some(cut) => self.leave_out(on, task, &events, cut),
            None => Ok(()),
        }
    }

    /// Puts one event in the place of these.
    fn leave_out(
        &self,
        on: &Connection,
        task: TaskRow,
        events: &[EventLength],
        cut: Cut,
    ) -> Result<(), SqliteError> {
        let (TaskRow { id, seq }, gap) = (task, EventKind::LeftOut.number());
        let (from, to) = (number(cut.from), number(cut.to));
        let gaps = rows::all(on, GAPS, params![seq, from, to, gap], |row| Ok(row.get(0)?))?;
        let Ok(body) = self.gap(id, events, cut, gaps) else { return Ok(()) };
        rows::execute(on, LEAVE_OUT, params![seq, from, to])?;
        rows::execute(on, PUT_GAP, params![seq, from, gap, body])?;
        rows::execute(on, COUNT_AGAIN, params![seq]).map(drop)
    }

    /// The write of reports that have waited.
    pub(super) fn write(&self, waiting: Vec<(TaskId, Vec<Note<Timestamp>>)>) -> Box<dyn Operation> {
        let recorder = self.clone();
        let encoded = waiting.into_iter().map(|(task, notes)| (task, self.encode_notes(task, notes)));
        let encoded: Vec<_> = encoded.collect();
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            encoded.iter().try_for_each(|(task, notes)| recorder.write_notes(writing, *task, notes))
        };
        let reply = log_failure(log_events_not_stored);
        Box::new(Relaxed(PendingWrite { operation, result: None, task: None, reply }))
    }

    fn write_notes(
        &self,
        writing: &mut SqliteTransaction<'_>,
        task: TaskId,
        notes: &[EncodedNote<Timestamp>],
    ) -> Result<(), SqliteError> {
        let seq = rows::first(writing.on, SEQ, params![task.0.as_bytes()], |row| Ok(row.get(0)?))?;
        let Some(seq) = seq else { return Ok(()) };
        let row = TaskRow { id: task, seq };
        for note in notes {
            match note {
                EncodedNote::Usage { attempt, used } => {
                    let cpu = i64::try_from(used.cpu.as_micros()).unwrap_or(i64::MAX);
                    writing.execute(USED, params![seq, attempt, cpu, used.memory.map(number)])?;
                }
                EncodedNote::Event { at, event } => {
                    self.insert(writing, row, *at, event)?;
                    writing.execute(GROWN, params![seq, event.attempt, event.body.len() as i64])?;
                }
            }
        }
        self.trim(writing.on, row)
    }
}

impl EncodedRecord {
    /// Writes the events, at this time, and the record of the attempt that the task in the row `seq` is at.
    pub(super) fn write(
        &self,
        writing: &mut SqliteTransaction<'_>,
        seq: i64,
        run: &RunRecord,
        at: Timestamp,
    ) -> Result<(), SqliteError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let run = run.clone().committed_at(at);
        let bytes: usize = self.events.iter().map(|event| event.body.len()).sum();
        let given = params![
            seq,
            run.attempt,
            self.task.0.as_bytes(),
            run.tool,
            run.digest.0,
            run.owner,
            number(run.incarnation.0),
            run.created.0,
            run.started.map(|at| at.0),
            run.ended.map(|at| at.0),
            run.outcome,
            bytes as i64,
        ];
        writing.execute(UPSERT, given)?;
        if run.attempt > 1 {
            writing.execute(LOSE, params![seq, run.attempt, at.0, LOST])?;
        }
        let row = TaskRow { id: self.task, seq };
        for event in &self.events {
            self.recorder.insert(writing, row, at, event)?;
        }
        self.recorder.trim(writing.on, row)
    }
}

#[async_trait]
impl TimelineStore for SqliteStore {
    fn append(&self, task: TaskId, event: NewEvent) {
        let state = &self.state;
        if state.recorder.is_on() && state.timeline.append(task, state.clock.now(), event) {
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
        let sealing = self.sealing.clone();
        self.readers.read(move |on| timeline(on, &sealing, task, after, limit.max(1))).await
    }

    async fn tidy_timeline(&self) -> Result<(), StoreError> {
        // This reads all records, so the writer does not wait for it.
        let bytes = self.readers.read(|on| rows::only::<i64>(on, TOTAL, [])).await?;
        let recorder = self.state.recorder.clone();
        let excess = bytes.saturating_sub(number(recorder.bounds.total));
        self.writer.write(move |writing| tidy(writing, &recorder, excess)).await
    }
}

fn timeline(
    on: &Connection,
    sealing: &Sealing,
    task: TaskId,
    after: Option<u64>,
    limit: u32,
) -> Result<Timeline, SqliteError> {
    // Both statements read one snapshot, so that an event's attempt is always among the attempts.
    let moment = on.unchecked_transaction()?;
    let key = task.0.as_bytes();
    let runs = rows::all(&moment, RUNS, params![key], run)?;
    let given = params![key, after.map_or(0, number), i64::from(limit) + 1];
    let mut events = rows::all(&moment, PAGE, given, |row| {
        let kind = row.get(3)?;
        let kind = EventKind::of_number(kind).ok_or(CodecError::Event(kind))?;
        let body = sealing.open(task, Column::Event, row.get(4)?)?;
        let body = RawJson::parse(body).map_err(CodecError::Body)?;
        let (seq, at) = (row.get::<_, i64>(0)?.unsigned_abs(), Timestamp(row.get(2)?));
        Ok(TimelineEvent { seq, attempt: row.get(1)?, at, kind, body })
    })?;
    let more = events.len() > limit as usize;
    events.truncate(limit as usize);
    Ok(Timeline { runs, events, more })
}

fn run(row: &Row<'_>) -> Result<RunRecord, SqliteError> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Timestamp));
    let count = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
    Ok(RunRecord {
        attempt: row.get(0)?,
        tool: row.get(1)?,
        digest: Digest(row.get(2)?),
        owner: row.get(3)?,
        incarnation: Incarnation(row.get::<_, i64>(4)?.unsigned_abs()),
        created: Timestamp(row.get(5)?),
        started: time(6)?,
        ended: time(7)?,
        outcome: row.get(8)?,
        cpu_us: count(9)?,
        memory: count(10)?,
        bytes: row.get::<_, i64>(11)?.unsigned_abs(),
    })
}

fn tidy(
    writing: &mut SqliteTransaction<'_>,
    recorder: &Recorder,
    mut excess: i64,
) -> Result<(), SqliteError> {
    let (on, bounds) = (writing.on, recorder.bounds);
    let now = writing.clock.now();
    let old = now.0.saturating_sub(number(bounds.keep_ms));
    writing.execute(OLD, params![old, MAX_ROWS])?;
    let too_many = rows::only::<i64>(on, LEFT, [])?.saturating_sub(number(bounds.rows));
    if too_many > 0 {
        writing.execute(OLD, params![i64::MAX, too_many.min(MAX_ROWS)])?;
    }
    if excess <= 0 {
        return Ok(());
    }
    let ended = rows::all(on, ENDED, params![MAX_ROWS, MAX_SMALL_BYTES], |row| {
        Ok((TaskRow { id: id(row, 0)?, seq: row.get(1)? }, row.get::<_, i64>(2)?))
    })?;
    for (task, before) in ended {
        if excess <= 0 {
            break;
        }
        recorder.empty(on, task)?;
        excess -= before - bytes(on, task)?;
    }
    Ok(())
}

impl Recorder {
    /// Leaves out all events of a task.
    fn empty(&self, on: &Connection, task: TaskRow) -> Result<(), SqliteError> {
        let events = lengths(on, task)?;
        match (events.first(), events.last()) {
            (Some(first), Some(last)) => self.leave_out(on, task, &events, Cut { from: first.0, to: last.0 }),
            _ => Ok(()),
        }
    }
}

/// The bytes of the events of a task.
fn bytes(on: &Connection, task: TaskRow) -> Result<i64, SqliteError> {
    rows::only(on, BYTES, params![task.seq])
}

fn lengths(on: &Connection, task: TaskRow) -> Result<Vec<EventLength>, SqliteError> {
    rows::all(on, EVENTS, params![task.seq], |row| {
        let kind = EventKind::of_number(row.get(1)?).unwrap_or(EventKind::LeftOut);
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), kind, row.get::<_, i64>(2)?.unsigned_abs()))
    })
}
