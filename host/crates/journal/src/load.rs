//! Reading a stored journal: everything is checked once, before the run begins.

use crate::begin::Begin;
use crate::chunk::{Chunk, Frame, FramePlace, Frames};
use crate::entry::{Entry, EntryKind, JournalLane};
use crate::error::{DecodeError, Fault};
use std::collections::VecDeque;

/// An HTTP exchange of the past. The payloads share the memory of the chunks.
#[derive(Debug, Clone)]
pub(crate) struct PastExchange {
    /// The number of the request's entry.
    pub(crate) entry: u64,
    pub(crate) request: Frame,
    pub(crate) response: Option<Frame>,
    /// The number of decisions about it.
    pub(crate) doubts: u32,
    /// The idempotency key that the host added to it.
    pub(crate) key: Option<Box<str>>,
    /// Whether its end was recorded after the journal was loaded.
    pub(crate) is_answered_now: bool,
}

/// A journal that was read completely.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) begin: Begin,
    pub(crate) chunks: VecDeque<Frames>,
    /// By their numbers less one.
    pub(crate) exchanges: Vec<PastExchange>,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) time_ms: u64,
    pub(crate) cpu_us: u64,
    pub(crate) is_ended: bool,
}

impl Past {
    /// Reads the chunks of a journal from its first one.
    pub(crate) fn read(chunks: impl IntoIterator<Item = Chunk>) -> Result<Self, DecodeError> {
        let mut chunks = chunks.into_iter();
        let none = FramePlace { chunk: 0, offset: 0 }.error(Fault::Order("the journal has no entry `begin`"));
        let Some(first) = chunks.next() else { return Err(none) };
        let (_, mut frames) = first.frames(0)?;
        let Some(frame) = frames.next().transpose()? else { return Err(none) };
        if frame.kind != EntryKind::Begin {
            return Err(frame.place.error(Fault::Order("the first entry is not `begin`")));
        }
        let begin = Begin::from_json(&frame.payload).map_err(|fault| frame.place.error(fault))?;
        let mut past = Self {
            begin,
            chunks: VecDeque::new(),
            exchanges: Vec::new(),
            entries: 0,
            bytes: 0,
            time_ms: 0,
            cpu_us: 0,
            is_ended: false,
        };
        for (number, chunk) in (0..).zip(std::iter::once(first).chain(chunks)) {
            past.add(number, &chunk)?;
        }
        Ok(past)
    }

    fn add(&mut self, number: u32, chunk: &Chunk) -> Result<(), DecodeError> {
        let (head, frames) = chunk.frames(number)?;
        let mut entries = 0;
        for frame in frames.clone() {
            let frame = frame?;
            entries += u32::from(frame.kind.lane() == JournalLane::Guest);
            self.index(&frame).map_err(|fault| frame.place.error(fault))?;
        }
        if entries != chunk.entries {
            let fault = Fault::Count { named: chunk.entries, found: entries };
            return Err(DecodeError { chunk: number, offset: 0, fault });
        }
        self.chunks.push_back(frames);
        self.bytes = self.bytes.saturating_add(chunk.body.len() as u64);
        self.time_ms = head.time_ms;
        self.cpu_us = head.cpu_us;
        Ok(())
    }

    /// Checks an entry, and keeps the place of an exchange.
    fn index(&mut self, frame: &Frame) -> Result<(), Fault> {
        let is_guest = frame.kind.lane() == JournalLane::Guest;
        if self.is_ended && is_guest {
            return Err(Fault::Order("an entry of the guest follows the end of the run"));
        }
        match Entry::decode(frame.kind, &frame.payload)? {
            Entry::Begin(_) if self.entries > 0 => {
                return Err(Fault::Order("the journal begins a second time"));
            }
            Entry::Request { number, .. } => self.add_request(number, frame)?,
            Entry::Response { number, .. } => {
                let exchange = self.exchange(number)?;
                if exchange.response.replace(frame.clone()).is_some() {
                    return Err(Fault::Order("a request has two responses"));
                }
            }
            Entry::Doubt { number, .. } => self.exchange(number)?.doubts += 1,
            Entry::Key { number, key } => {
                let former = self.exchange(number)?.key.replace(key.into());
                if former.is_some() {
                    return Err(Fault::Order("a request has two keys"));
                }
            }
            Entry::Ended(_) => self.is_ended = true,
            _ => {}
        }
        self.entries += u64::from(is_guest);
        Ok(())
    }

    fn add_request(&mut self, number: u32, frame: &Frame) -> Result<(), Fault> {
        if number as usize != self.exchanges.len() + 1 {
            return Err(Fault::Order("the numbers of requests are not in order"));
        }
        self.exchanges.push(PastExchange {
            entry: self.entries,
            request: frame.clone(),
            response: None,
            doubts: 0,
            key: None,
            is_answered_now: false,
        });
        Ok(())
    }

    fn exchange(&mut self, number: u32) -> Result<&mut PastExchange, Fault> {
        let exchange = (number as usize).checked_sub(1).and_then(|place| self.exchanges.get_mut(place));
        exchange.ok_or(Fault::Order("an entry names a request that the guest has not made"))
    }
}
