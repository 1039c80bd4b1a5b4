//! Events of runs that wait to be written with the next commit. `T` is the time of each event.
//!
//! A transaction that writes nothing else does not flush the disk: the events survive the end of the
//! process, and the next flush takes them along.

use crate::group_commit::QueuedWrite;
use crate::write_buffer::{WriteBuffer, WriteBy};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use toolyard_task::timeline::{LeftOut, NewEvent};
use toolyard_task::tool::RunUsage;
use toolyard_task::{StoreError, TaskId};

/// How long events wait if nothing else is written: as long as a person does not notice.
const DELAY: Duration = Duration::from_millis(250);
/// At this many bytes of one task, its events are written at once.
const FLUSH_BYTES: u64 = 64 << 10;
/// The most bytes of one task that wait. A guest that reports faster than the disk writes loses the rest.
const MAX_TASK: u64 = 256 << 10;
/// The most bytes of all tasks that wait.
const MAX_TOTAL: u64 = 16 << 20;

/// Something that a run reports.
pub(crate) enum Note<T> {
    Event { at: T, event: NewEvent },
    Usage { attempt: u32, used: RunUsage },
}

/// The reports that wait.
pub(crate) struct TimelineBuffer<T>(WriteBuffer<Waiting<T>>);

struct Waiting<T> {
    tasks: BTreeMap<TaskId, TaskNotes<T>>,
    bytes: u64,
}

struct TaskNotes<T> {
    notes: Vec<Note<T>>,
    bytes: u64,
    /// The attempt and the time of the last event that did not fit, and how many did not.
    lost: Option<(T, u32, LeftOut)>,
}

impl<T> Default for TimelineBuffer<T> {
    fn default() -> Self {
        Self(WriteBuffer::new(DELAY))
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { tasks: BTreeMap::new(), bytes: 0 }
    }
}

impl<T> Default for TaskNotes<T> {
    fn default() -> Self {
        Self { notes: Vec::new(), bytes: 0, lost: None }
    }
}

impl<T> TimelineBuffer<T> {
    /// Adds an event. Returns whether the writer must be woken, because its next write is now due earlier.
    pub(crate) fn append(&self, task: TaskId, at: T, event: NewEvent) -> bool {
        let bytes = event.body.as_bytes().len() as u64;
        self.add(task, bytes, |notes, fits| {
            if fits {
                notes.notes.push(Note::Event { at, event });
            } else {
                let before = notes.lost.take().map_or(LeftOut::default(), |(.., before)| before);
                notes.lost = Some((at, event.attempt, before.and(LeftOut { events: 1, bytes })));
            }
        })
    }

    /// Adds the resources that an attempt used.
    pub(crate) fn append_usage(&self, task: TaskId, attempt: u32, used: RunUsage) -> bool {
        self.add(task, 0, |notes, _| notes.notes.push(Note::Usage { attempt, used }))
    }

    fn add(&self, task: TaskId, bytes: u64, add: impl FnOnce(&mut TaskNotes<T>, bool)) -> bool {
        self.0.change(|waiting| {
            let room = waiting.bytes + bytes <= MAX_TOTAL;
            let notes = waiting.tasks.entry(task).or_default();
            // After the first loss, all are lost until the next write, so that there is one gap.
            let fits = room && notes.lost.is_none() && notes.bytes + bytes <= MAX_TASK;
            add(notes, fits);
            if !fits {
                return WriteBy::Never;
            }
            let was_enough = notes.bytes >= FLUSH_BYTES;
            notes.bytes += bytes;
            waiting.bytes += bytes;
            if notes.bytes >= FLUSH_BYTES && !was_enough { WriteBy::Now } else { WriteBy::Delay }
        })
    }

    /// The latest time for the next write.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.due()
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Vec<(TaskId, Vec<Note<T>>)> {
        let notes = |TaskNotes { mut notes, lost, .. }: TaskNotes<T>| {
            if let Some((at, attempt, lost)) = lost {
                notes.push(Note::Event { at, event: NewEvent::left_out(attempt, lost) });
            }
            notes
        };
        let tasks = self.0.take(anyway, now).unwrap_or_default().tasks;
        tasks.into_iter().map(|(id, waiting)| (id, notes(waiting))).collect()
    }
}

/// A write that may be lost in a power failure.
pub(crate) struct Relaxed<W>(pub(crate) W);

impl<W: QueuedWrite> QueuedWrite for Relaxed<W> {
    fn settle(self: Box<Self>, ended: Result<(), StoreError>) {
        Box::new(self.0).settle(ended);
    }

    fn locked_task(&self) -> Option<TaskId> {
        self.0.locked_task()
    }

    fn needs_flush(&self) -> bool {
        false
    }
}

/// Logs that events of runs were not stored.
pub(crate) fn log_events_not_stored(error: &StoreError) {
    tracing::warn!(
        event = "timeline.events_not_stored",
        error = error as &dyn std::error::Error,
        "cannot store events of runs"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::timeline::EventKind;
    use toolyard_task::wire::{LogLevel, RawJson};

    #[test]
    fn a_run_that_reports_too_much_loses_the_rest_and_its_number_is_known() {
        let buffer = TimelineBuffer::<u32>::default();
        let (busy, other) = (TaskId(uuid::Uuid::from_u128(1)), TaskId(uuid::Uuid::from_u128(2)));
        let data = RawJson::of(&"x".repeat(10_000));
        let log = || NewEvent::log(1, LogLevel::Info, None, &data);
        let wakes: Vec<bool> = (0..40).map(|number| buffer.append(busy, number, log())).collect();
        assert!(
            wakes[0] && wakes.iter().filter(|wakes| **wakes).count() == 2,
            "first and at 64 KiB: {wakes:?}"
        );
        buffer.append(other, 9, log());
        assert!(buffer.due().is_some());
        let taken = buffer.take(false, Instant::now());
        let kinds: Vec<Vec<EventKind>> = taken
            .into_iter()
            .map(|(_, notes)| {
                let kind = |note| match note {
                    Note::Event { event, .. } => event.kind,
                    Note::Usage { .. } => panic!("nothing was used"),
                };
                notes.into_iter().map(kind).collect()
            })
            .collect();
        assert_eq!(kinds[0].len(), 27);
        assert_eq!(kinds[0].last(), Some(&EventKind::LeftOut));
        assert_eq!(kinds[1], [EventKind::Log]);
        assert!(buffer.due().is_none() && buffer.take(true, Instant::now()).is_empty());
    }
}
