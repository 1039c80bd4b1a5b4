//! Timelines in memory. Nothing is buffered: an event is there at once.

use super::{MemoryStore, State};
use async_trait::async_trait;
use std::collections::BTreeMap;
use toolyard_task::task::Task;
use toolyard_task::timeline::{
    EventKind, LOST, LeftOut, NewEvent, RunRecord, Timeline, TimelineBounds, TimelineEvent, TimelineStore,
    cut,
};
use toolyard_task::tool::RunUsage;
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{StoreError, TaskId};

/// The timelines of all tasks.
#[derive(Default)]
pub(super) struct Timelines {
    pub(super) bounds: TimelineBounds,
    pub(super) by_task: BTreeMap<TaskId, TaskTimeline>,
}

#[derive(Default)]
pub(super) struct TaskTimeline {
    pub(super) runs: BTreeMap<u32, RunRecord>,
    events: Vec<TimelineEvent>,
}

impl TaskTimeline {
    fn push(&mut self, at: Timestamp, event: NewEvent) {
        let seq = self.events.last().map_or(1, |last| last.seq + 1);
        let NewEvent { attempt, kind, body } = event;
        self.events.push(TimelineEvent { seq, attempt, at, kind, body });
    }

    fn bytes(&self) -> u64 {
        self.events.iter().map(bytes).sum()
    }

    /// When the last attempt ended, if it did.
    fn ended(&self) -> Option<Timestamp> {
        self.runs.values().map(|run| run.ended).max_by_key(|ended| ended.unwrap_or(Timestamp(i64::MAX)))?
    }

    fn trim(&mut self, limit: u64) {
        if self.bytes() > limit {
            let events: Vec<_> =
                self.events.iter().map(|event| (event.seq, event.kind, bytes(event))).collect();
            if let Some(cut) = cut(&events, limit) {
                self.leave_out(cut.from, cut.to);
            }
        }
    }

    /// Puts one event in the place of these.
    fn leave_out(&mut self, from: u64, to: u64) {
        let is_out = |event: &TimelineEvent| event.seq >= from && event.seq <= to;
        let missing = self
            .events
            .iter()
            .filter(|event| is_out(event))
            .map(missing)
            .fold(LeftOut::default(), LeftOut::and);
        let Some(first) = self.events.iter_mut().find(|event| event.seq == from) else { return };
        first.kind = EventKind::LeftOut;
        first.body = RawJson::of(&missing);
        self.events.retain(|event| event.seq == from || !is_out(event));
    }
}

fn bytes(event: &TimelineEvent) -> u64 {
    event.body.as_bytes().len() as u64
}

/// The numbers to report if this event is left out.
fn missing(event: &TimelineEvent) -> LeftOut {
    match event.kind {
        EventKind::LeftOut => event.body.decode().unwrap_or_default(),
        _ => LeftOut { events: 1, bytes: bytes(event) },
    }
}

impl State {
    /// Writes the events of a change of this task.
    pub(super) fn record(&mut self, task: &Task, at: Timestamp, events: Vec<NewEvent>) {
        if events.is_empty() || self.timelines.bounds.task == 0 {
            return;
        }
        let limit = self.timelines.bounds.task;
        let timeline = self.timelines.by_task.entry(task.id).or_default();
        let now = RunRecord::of(task).committed_at(at);
        for lost in timeline.runs.range_mut(..now.attempt).map(|(_, run)| run) {
            if lost.ended.is_none() {
                lost.ended = Some(at);
                lost.outcome = Some(LOST.to_owned());
            }
        }
        let former = timeline.runs.remove(&now.attempt);
        let run = match former {
            Some(former) => former.updated(now),
            None => now,
        };
        timeline.runs.insert(run.attempt, run);
        events.into_iter().for_each(|event| timeline.push(at, event));
        timeline.trim(limit);
    }

    /// Removes the events of a task that is removed.
    pub(super) fn forget_events(&mut self, task: TaskId) {
        if let Some(timeline) = self.timelines.by_task.get_mut(&task) {
            timeline.events.clear();
        }
    }
}

#[async_trait]
impl TimelineStore for MemoryStore {
    fn append(&self, task: TaskId, event: NewEvent) {
        let Ok(mut state) = self.state() else { return };
        let at = self.shared.clock.now();
        let limit = state.timelines.bounds.task;
        if limit == 0 || !state.tasks.contains_key(&task) {
            return;
        }
        let timeline = state.timelines.by_task.entry(task).or_default();
        timeline.push(at, event);
        timeline.trim(limit);
    }

    fn append_usage(&self, task: TaskId, attempt: u32, used: RunUsage) {
        let Ok(mut state) = self.state() else { return };
        let run = state.timelines.by_task.get_mut(&task).and_then(|timeline| timeline.runs.get_mut(&attempt));
        if let Some(run) = run {
            run.cpu_us = Some(u64::try_from(used.cpu.as_micros()).unwrap_or(u64::MAX));
            run.memory = used.memory;
        }
    }

    async fn timeline(&self, task: TaskId, after: Option<u64>, limit: u32) -> Result<Timeline, StoreError> {
        let state = self.state()?;
        let Some(timeline) = state.timelines.by_task.get(&task) else { return Ok(Timeline::default()) };
        let rest = timeline.events.iter().filter(|event| after.is_none_or(|after| event.seq > after));
        let limit = limit.max(1) as usize;
        let mut events: Vec<_> = rest.take(limit + 1).cloned().collect();
        let more = events.len() > limit;
        events.truncate(limit);
        let of_run =
            |attempt| timeline.events.iter().filter(move |event| event.attempt == attempt).map(bytes);
        let runs = timeline.runs.values().cloned();
        let runs = runs.map(|run| RunRecord { bytes: of_run(run.attempt).sum(), ..run });
        Ok(Timeline { runs: runs.collect(), events, more })
    }

    async fn tidy_timeline(&self) -> Result<(), StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let State { timelines, tasks, .. } = &mut *state;
        let TimelineBounds { total, keep_ms, rows, .. } = timelines.bounds;
        let mut ended: Vec<_> =
            timelines.by_task.iter().filter_map(|(id, timeline)| Some((timeline.ended()?, *id))).collect();
        ended.sort_unstable();
        let removed = timelines.by_task.iter().filter(|(id, _)| !tasks.contains_key(id));
        let mut left: u64 = removed.map(|(_, timeline)| timeline.runs.len() as u64).sum();
        for (at, id) in &ended {
            if !tasks.contains_key(id) && (at.plus(keep_ms) <= now || left > rows) {
                left -= timelines.by_task.remove(id).map_or(0, |timeline| timeline.runs.len() as u64);
            }
        }
        let mut sum: u64 = timelines.by_task.values().map(TaskTimeline::bytes).sum();
        for (_, id) in ended {
            if sum <= total {
                break;
            }
            let Some(timeline) = timelines.by_task.get_mut(&id) else { continue };
            let (Some(first), Some(last)) = (timeline.events.first(), timeline.events.last()) else {
                continue;
            };
            let (first, last, before) = (first.seq, last.seq, timeline.bytes());
            timeline.leave_out(first, last);
            sum = sum.saturating_sub(before) + timeline.bytes();
        }
        Ok(())
    }
}
