//! The rows of timelines that a transaction gathers.

use super::rows::number;
use crate::timeline_encoding::{EncodedEvent, EncodedNote};
use std::collections::BTreeMap;
use std::time::Instant;
use toolyard_task::TaskId;
use toolyard_task::timeline::RunRecord;
use toolyard_task::wire::Timestamp;

/// The rows of a transaction, which are written at its end.
#[derive(Default)]
pub(super) struct TimelineRows(pub(super) BTreeMap<TaskId, TaskRows>);

#[derive(Default)]
pub(super) struct TaskRows {
    /// The attempts after each change, with the bytes of its events.
    pub(super) runs: Vec<RunRecord>,
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
    /// Adds the events of a change after which the attempt is `run`, at the time of the change.
    pub(super) fn add_change(
        &mut self,
        task: TaskId,
        run: RunRecord,
        at: Timestamp,
        events: &[EncodedEvent],
    ) {
        if events.is_empty() {
            return;
        }
        let rows = self.0.entry(task).or_default();
        let bytes = events.iter().map(|event| event.body.len() as u64).sum();
        rows.runs.push(RunRecord { bytes, ..run });
        rows.changed.extend(events.iter().map(|event| (at, event.clone())));
    }

    pub(super) fn add_reports(&mut self, task: TaskId, now: Timestamp, notes: &[EncodedNote<Instant>]) {
        let rows = self.0.entry(task).or_default();
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
