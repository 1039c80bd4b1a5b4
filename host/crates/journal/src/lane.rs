//! The guest's lane of the past, read entry by entry.

use crate::chunk::{Frame, Frames};
use crate::entry::{Entry, EntryKind, JournalLane};
use crate::error::DecodeError;
use crate::words;
use std::borrow::Cow;
use std::collections::VecDeque;

/// The entries of the guest's lane that are still to come. Chunks that it has passed are released.
#[derive(Debug)]
pub(crate) struct GuestLane {
    chunks: VecDeque<Frames>,
    /// The number of the next entry.
    next: u64,
}

impl GuestLane {
    pub(crate) const fn new(chunks: VecDeque<Frames>) -> Self {
        Self { chunks, next: 0 }
    }

    /// The next entry, or `None` at the end of the lane.
    pub(crate) fn read(&mut self) -> Result<Option<Head>, DecodeError> {
        while let Some(frames) = self.chunks.front_mut() {
            match frames.next().transpose()? {
                Some(frame) if frame.kind.lane() == JournalLane::Guest => {
                    let number = self.next;
                    self.next += 1;
                    return Head::new(number, frame).map(Some);
                }
                Some(_) => {}
                None => drop(self.chunks.pop_front()),
            }
        }
        Ok(None)
    }
}

/// The first entry of the lane that the guest has not repeated completely.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) shape: Shape,
    /// How often the guest has repeated it so far.
    pub(crate) used: u64,
    /// How often it happened.
    times: u64,
    frame: Frame,
}

/// The entries that a guest repeats without an argument that needs more than one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Clock { steps: u64 },
    Poll { len: u32 },
    Ready { is_ready: bool },
    Once,
}

impl Head {
    fn new(number: u64, frame: Frame) -> Result<Self, DecodeError> {
        let (shape, times) = match frame.kind {
            EntryKind::Clock | EntryKind::Poll | EntryKind::Ready => match frame.entry()? {
                Entry::Clock { steps, readings } => (Shape::Clock { steps }, readings),
                Entry::Poll { len, times, .. } => (Shape::Poll { len }, times),
                Entry::Ready { is_ready, times } => (Shape::Ready { is_ready }, times),
                _ => (Shape::Once, 1),
            },
            _ => (Shape::Once, 1),
        };
        Ok(Self { number, shape, used: 0, times, frame })
    }

    /// Counts one repetition, and returns whether it was the last one.
    pub(crate) const fn use_once(&mut self) -> bool {
        self.used += 1;
        self.used == self.times
    }

    pub(crate) fn entry(&self) -> Result<Entry<'_>, DecodeError> {
        self.frame.entry()
    }

    /// The indices of a poll.
    pub(crate) fn ready(&self) -> Result<Vec<u32>, DecodeError> {
        match self.entry()? {
            Entry::Poll { ready, .. } => Ok(ready.into_owned()),
            _ => Ok(Vec::new()),
        }
    }

    /// The entry as a message names it.
    pub(crate) fn words(&self) -> String {
        // The entry was read before, when the journal was loaded.
        self.entry().map_or_else(|_| self.frame.kind.as_str().to_owned(), |entry| words::entry(&entry))
    }

    pub(crate) const fn is_end(&self) -> bool {
        matches!(self.frame.kind, EntryKind::Ended)
    }
}

/// An entry of the guest's lane that may still grow, because the guest does the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenEntry {
    Clock {
        steps: u64,
        readings: u64,
    },
    /// The recorder keeps the indices, so that equal polls allocate nothing.
    Poll {
        len: u32,
        times: u64,
    },
    Ready {
        is_ready: bool,
        times: u64,
    },
}

impl OpenEntry {
    pub(crate) const fn to_entry<'a>(self, ready: &'a [u32]) -> Entry<'a> {
        match self {
            Self::Clock { steps, readings } => Entry::Clock { steps, readings },
            Self::Poll { len, times } => Entry::Poll { len, ready: Cow::Borrowed(ready), times },
            Self::Ready { is_ready, times } => Entry::Ready { is_ready, times },
        }
    }

    /// The most bytes of its frame.
    pub(crate) fn max_bytes(self, ready: &[u32]) -> u64 {
        match self {
            // Kind, length and two varints.
            Self::Clock { .. } | Self::Ready { .. } => 22,
            // Kind, length, three varints, and an index of at most 32 bits each.
            Self::Poll { .. } => 36 + 5 * ready.len() as u64,
        }
    }
}
