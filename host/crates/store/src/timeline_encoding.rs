//! How databases store the events of runs: sealed by the caller, so that the writer only writes.

use crate::codec::CodecError;
use crate::encryption::{Column, Sealing};
use crate::timeline_buffer::{Note, log_events_not_stored};
use toolyard_task::timeline::{Cut, EventKind, LeftOut, NewEvent, TimelineBounds};
use toolyard_task::tool::RunUsage;
use toolyard_task::wire::RawJson;
use toolyard_task::{StoreError, TaskId};

/// The most bytes of a timeline from which nothing is left out to make room for others: the sealed body of
/// a gap is no longer.
pub(crate) const MAX_SMALL_BYTES: i64 = 128;

/// How events are written.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) sealing: Sealing,
    pub(crate) bounds: TimelineBounds,
}

/// An event as it is stored.
#[derive(Clone)]
pub(crate) struct EncodedEvent {
    pub(crate) attempt: u32,
    pub(crate) kind: EventKind,
    pub(crate) body: Vec<u8>,
}

/// A report of a run as it is stored. `T` is the time of an event.
pub(crate) enum EncodedNote<T> {
    Event { at: T, event: EncodedEvent },
    Usage { attempt: u32, used: RunUsage },
}

/// The number, the kind and the length of an event.
pub(crate) type EventLength = (u64, EventKind, u64);

impl Recorder {
    pub(crate) fn is_on(&self) -> bool {
        self.bounds.task > 0
    }

    fn encode(&self, task: TaskId, event: NewEvent) -> Result<EncodedEvent, CodecError> {
        let NewEvent { attempt, kind, body } = event;
        let body = self.sealing.bytes(task, Column::Event, body.as_bytes())?.into_owned();
        Ok(EncodedEvent { attempt, kind, body })
    }

    /// The events of a change of this task.
    pub(crate) fn encode_events(
        &self,
        task: TaskId,
        events: Vec<NewEvent>,
    ) -> Result<Vec<EncodedEvent>, CodecError> {
        let events = if self.is_on() { events } else { Vec::new() };
        events.into_iter().map(|event| self.encode(task, event)).collect()
    }

    /// Reports of this task. Those that cannot be encoded are logged and left out.
    pub(crate) fn encode_notes<T>(&self, task: TaskId, notes: Vec<Note<T>>) -> Vec<EncodedNote<T>> {
        let encode = |note| match note {
            Note::Usage { attempt, used } => Some(EncodedNote::Usage { attempt, used }),
            Note::Event { at, event } => match self.encode(task, event) {
                Ok(event) => Some(EncodedNote::Event { at, event }),
                Err(error) => {
                    log_events_not_stored(&StoreError::Corrupt(error.into()));
                    None
                }
            },
        };
        notes.into_iter().filter_map(encode).collect()
    }

    /// The body of the event that takes the place of the events of this cut. `gaps` are the bodies of
    /// earlier gaps among them.
    pub(crate) fn gap(
        &self,
        task: TaskId,
        events: &[EventLength],
        cut: Cut,
        gaps: Vec<Vec<u8>>,
    ) -> Result<Vec<u8>, CodecError> {
        let missing = events
            .iter()
            .filter(|(seq, kind, _)| (cut.from..=cut.to).contains(seq) && *kind != EventKind::LeftOut)
            .fold(LeftOut::default(), |sum, (.., bytes)| sum.and(LeftOut { events: 1, bytes: *bytes }));
        let missing = gaps.into_iter().fold(missing, |sum, body| {
            // A gap that cannot be read stays a gap; only its numbers are lost.
            let earlier = self.sealing.open(task, Column::Event, body).ok();
            sum.and(earlier.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default())
        });
        Ok(self.sealing.bytes(task, Column::Event, RawJson::of(&missing).as_bytes())?.into_owned())
    }
}
