//! The rows of timelines that a transaction gathers.

use super::rows::number;
use crate::timeline_encoding::{EncodedEvent, EncodedNote};
use std::collections::BTreeMap;
use std::time::Instant;
use toolyard_task::TaskId;
use toolyard_task::timeline::RunRecord;
use toolyard_task::wire::Timestamp;

/// A task and the number of its row.
#[derive(Clone, Copy)]
pub(super) struct TaskRow {
    pub(super) id: TaskId,
    pub(super) seq: i64,
}

/// The rows of a transaction, which are written at its end, by the numbers of their tasks.
#[derive(Default)]
pub(super) struct TimelineRows(pub(super) BTreeMap<i64, TaskRows>);

pub(super) struct TaskRows {
    pub(super) task: TaskId,
    /// Each attempt after the changes of the transaction, with the bytes of their events.
    pub(super) runs: BTreeMap<u32, RunRecord>,
    pub(super) reports: BTreeMap<u32, RunReport>,
    /// Reports come before the changes of the same transaction.
    pub(super) reported: Vec<(Timestamp, EncodedEvent)>,
    pub(super) changed: Vec<(Timestamp, EncodedEvent)>,
}

/// The bytes that an attempt reported, and the resources that it used.
#[derive(Default)]
pub(super) struct RunReport {
    pub(super) bytes: i64,
    pub(super) cpu_us: Option<i64>,
    pub(super) memory: Option<i64>,
}

impl TimelineRows {
    fn of(&mut self, TaskRow { id, seq }: TaskRow) -> &mut TaskRows {
        self.0.entry(seq).or_insert_with(|| TaskRows {
            task: id,
            runs: BTreeMap::new(),
            reports: BTreeMap::new(),
            reported: Vec::new(),
            changed: Vec::new(),
        })
    }

    /// Adds the events of a change after which the attempt is `run`, at the time of the change.
    pub(super) fn add_change(
        &mut self,
        task: TaskRow,
        run: RunRecord,
        at: Timestamp,
        events: &[EncodedEvent],
    ) {
        if events.is_empty() {
            return;
        }
        let rows = self.of(task);
        let before = rows.runs.remove(&run.attempt);
        let bytes: u64 = events.iter().map(|event| event.body.len() as u64).sum();
        let bytes = bytes + before.as_ref().map_or(0, |before| before.bytes);
        let attempt = run.attempt;
        let run = before.map_or_else(|| run.clone(), |before| before.updated(run.clone()));
        rows.runs.insert(attempt, RunRecord { bytes, ..run });
        rows.changed.extend(events.iter().map(|event| (at, event.clone())));
    }

    pub(super) fn add_reports(&mut self, task: TaskRow, now: Timestamp, notes: &[EncodedNote<Instant>]) {
        let rows = self.of(task);
        for note in notes {
            match note {
                EncodedNote::Usage { attempt, used } => {
                    let report = rows.reports.entry(*attempt).or_default();
                    report.cpu_us = Some(i64::try_from(used.cpu.as_micros()).unwrap_or(i64::MAX));
                    report.memory = used.memory.map(number);
                }
                EncodedNote::Event { at, event } => {
                    rows.reports.entry(event.attempt).or_default().bytes += event.body.len() as i64;
                    let ago = i64::try_from(at.elapsed().as_millis()).unwrap_or(0);
                    rows.reported.push((Timestamp(now.0.saturating_sub(ago)), event.clone()));
                }
            }
        }
    }
}
