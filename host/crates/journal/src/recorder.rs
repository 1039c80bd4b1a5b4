//! The recorder of one run: it answers from the past, and records the present.

mod exchanges;
mod guest;

use crate::begin::Begin;
use crate::chunk::{Chunk, ChunkWriter};
use crate::entry::Entry;
use crate::error::{DecodeError, Divergence, RecordError};
use crate::lane::{GuestLane, Head, OpenEntry};
use crate::load::{Past, PastExchange};
use crate::step_clock::StepClock;
use crate::words;
use std::collections::BTreeSet;

/// The origin of the answer to an operation of the guest. An operation without an answer has the answer `()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<T> {
    /// The journal has it.
    Past(T),
    /// The host makes it, and records it before it goes to the guest.
    Live,
}

/// An HTTP exchange that the guest has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// A recorded one. [`Recorder::response`] has its end; without an end it is in doubt.
    Past(u32),
    /// A new one. It may be sent as soon as all that was recorded is durable.
    Live(u32),
}

impl Exchange {
    /// The number of the exchange in its run, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Past(number) | Self::Live(number) => number,
        }
    }
}

/// The state of a recorder.
#[derive(Debug)]
enum Phase {
    /// The guest repeats the past.
    Replay(Box<Replay>),
    /// The guest's lane is at its end. The last entry may still grow.
    Live(Option<OpenEntry>),
    /// The end of the run is recorded. Nothing becomes live any more.
    Ended,
    /// An operation failed, and every other one fails like it.
    Failed(RecordError),
    /// The run goes on without a journal.
    Abandoned,
}

#[derive(Debug)]
struct Replay {
    lane: GuestLane,
    head: Head,
}

/// The recorder of one run. It holds the chunks of the past until the guest has passed them.
#[derive(Debug)]
pub struct Recorder {
    begin: Begin,
    /// The most bytes of the journal.
    limit: u64,
    phase: Phase,
    clock: StepClock,
    /// The indices of the last poll.
    ready: Vec<u32>,
    /// The entries in the guest's lane.
    entries: u64,
    /// The requests that the guest has made in this run of it.
    requests: u32,
    /// The requests of the past, by their numbers less one.
    exchanges: Vec<PastExchange>,
    /// The requests that became live and have no end.
    unanswered: BTreeSet<u32>,
    writer: ChunkWriter,
    /// The bytes of the chunks of the past, and of those that were taken.
    saved: u64,
    time_ms: u64,
    cpu_us: u64,
}

impl Recorder {
    /// The recorder of a run that begins. The journal may have at most `limit` bytes.
    ///
    /// # Errors
    /// If `begin` alone exceeds the limit.
    pub fn new(begin: Begin, limit: u64) -> Result<Self, RecordError> {
        let json = serde_json::to_vec(&begin)
            .map_err(|_| RecordError::Misuse("the entry `begin` cannot be written as JSON"))?;
        let mut recorder = Self::empty(begin, limit);
        recorder.record(&Entry::Begin(json.into()))?;
        Ok(recorder)
    }

    /// The recorder of a run that is repeated and goes on. It gets all chunks, or the first ones, in their order.
    /// The journal may grow to `limit` bytes.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn load(chunks: impl IntoIterator<Item = Chunk>, limit: u64) -> Result<Self, DecodeError> {
        let past = Past::read(chunks)?;
        let mut lane = GuestLane::new(past.chunks);
        // The guest does not ask for the first entry.
        lane.read()?;
        let phase = match lane.read()? {
            Some(head) => Phase::Replay(Box::new(Replay { lane, head })),
            None => Phase::Live(None),
        };
        Ok(Self {
            phase,
            entries: past.entries,
            exchanges: past.exchanges,
            saved: past.bytes,
            time_ms: past.time_ms,
            cpu_us: past.cpu_us,
            ..Self::empty(past.begin, limit)
        })
    }

    /// A live recorder that has recorded nothing.
    fn empty(begin: Begin, limit: u64) -> Self {
        Self {
            limit,
            phase: Phase::Live(None),
            clock: StepClock::new(begin.base_time, begin.clock_step),
            time_ms: begin.base_time,
            begin,
            ready: Vec::new(),
            entries: 0,
            requests: 0,
            exchanges: Vec::new(),
            unanswered: BTreeSet::new(),
            writer: ChunkWriter::new(),
            saved: 0,
            cpu_us: 0,
        }
    }

    /// The conditions under which the run began.
    #[must_use]
    pub const fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Compares the arguments of the call with the recorded ones. `arguments` is their crc32.
    ///
    /// # Errors
    /// If they differ: the run diverges.
    pub fn check_arguments(&mut self, arguments: u32) -> Result<(), RecordError> {
        if arguments == self.begin.arguments {
            return Ok(());
        }
        let recorded = words::begin(&self.begin);
        let now = format!("{recorded} with other arguments");
        Err(self.fail(RecordError::Diverged(Divergence { entry: 0, recorded, now })))
    }

    /// Whether the guest's lane is at its end, so that the next operation happens for the first time. A run whose
    /// end is recorded is never live.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_) | Phase::Abandoned)
    }

    /// Whether the run goes on without a journal.
    #[must_use]
    pub const fn is_abandoned(&self) -> bool {
        matches!(self.phase, Phase::Abandoned)
    }

    /// Whether the guest has reached the recorded end of the run.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The number of entries in the guest's lane, in the past and now.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The number of the entry that the guest reaches next. At the end it is [`Self::entries`].
    #[must_use]
    pub fn position(&self) -> u64 {
        match &self.phase {
            Phase::Replay(replay) => replay.head.number,
            Phase::Failed(RecordError::Diverged(divergence)) => divergence.entry,
            _ => self.entries,
        }
    }

    /// The bytes of the journal, without the heads of chunks that were not taken yet.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.saved + self.writer.len() as u64
    }

    /// The bytes that the next chunk would have, about.
    #[must_use]
    pub fn unsaved_bytes(&self) -> u64 {
        self.writer.len() as u64 + self.open_bytes()
    }

    /// The time of the host when the last chunk was made, in milliseconds since 1970.
    #[must_use]
    pub const fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The processor time of the run when the last chunk was made, in microseconds.
    #[must_use]
    pub const fn cpu_us(&self) -> u64 {
        self.cpu_us
    }

    /// The entries that no chunk has yet, or `None` without any. `time_ms` is the time of the host in
    /// milliseconds since 1970, `cpu_us` the processor time of the run so far in microseconds. An entry that
    /// could still have grown is closed, so that a lost chunk loses nothing on which another one depends.
    pub fn take_chunk(&mut self, time_ms: u64, cpu_us: u64) -> Option<Chunk> {
        self.close();
        if self.writer.is_empty() {
            return None;
        }
        let chunk = self.writer.finish(time_ms, cpu_us);
        self.saved = self.saved.saturating_add(chunk.body.len() as u64);
        self.time_ms = time_ms;
        self.cpu_us = cpu_us;
        Some(chunk)
    }

    /// Lets the run go on without a journal: every answer is live, and nothing is recorded.
    ///
    /// # Errors
    /// If the run has not reached the end of its past, or has diverged from it.
    pub fn abandon(&mut self) -> Result<(), RecordError> {
        match &self.phase {
            Phase::Live(_) | Phase::Abandoned | Phase::Failed(RecordError::Full { .. }) => {
                self.phase = Phase::Abandoned;
                self.writer = ChunkWriter::new();
                Ok(())
            }
            Phase::Failed(error) => Err(error.clone()),
            Phase::Replay(_) | Phase::Ended => {
                Err(RecordError::Misuse("only a live run can go on without its journal"))
            }
        }
    }

    /// Ends the replay because the guest does something that is no operation: `now` says what. A trap is one
    /// example, a replay that takes too long another one. The error is the first divergence.
    pub fn diverge(&mut self, now: String) -> RecordError {
        let (entry, recorded) = match &self.phase {
            Phase::Replay(replay) => (replay.head.number, replay.head.words()),
            Phase::Failed(error) => return error.clone(),
            Phase::Ended => (self.entries, "the end of the run".to_owned()),
            Phase::Live(_) | Phase::Abandoned => (self.entries, "nothing".to_owned()),
        };
        self.fail(RecordError::Diverged(Divergence { entry, recorded, now }))
    }

    fn fail(&mut self, error: RecordError) -> RecordError {
        self.phase = Phase::Failed(error.clone());
        error
    }

    /// Counts a repetition of the entry at hand, and goes on to the next one after the last.
    fn repeat(&mut self) -> Result<(), RecordError> {
        let Phase::Replay(replay) = &mut self.phase else { return Ok(()) };
        if !replay.head.use_once() {
            return Ok(());
        }
        match replay.lane.read() {
            Ok(Some(head)) => replay.head = head,
            Ok(None) if replay.head.is_end() => self.phase = Phase::Ended,
            Ok(None) => self.phase = Phase::Live(None),
            Err(error) => return Err(self.fail(error.into())),
        }
        Ok(())
    }

    /// The bytes that the entry which may still grow can need.
    fn open_bytes(&self) -> u64 {
        match &self.phase {
            Phase::Live(Some(open)) => open.max_bytes(&self.ready),
            _ => 0,
        }
    }

    /// The bytes up to the limit.
    fn room(&self) -> u64 {
        self.limit.saturating_sub(self.bytes()).saturating_sub(self.open_bytes())
    }

    /// Ends the entry that could still grow.
    fn close(&mut self) {
        if let Phase::Live(open) = &mut self.phase
            && let Some(entry) = open.take()
        {
            self.writer.push(&entry.to_entry(&self.ready));
        }
    }

    /// Begins an entry that may grow.
    fn open(&mut self, entry: OpenEntry, ready: &[u32]) -> Result<(), RecordError> {
        self.close();
        if entry.max_bytes(ready) > self.room() {
            return Err(self.fail(RecordError::Full { limit: self.limit }));
        }
        self.ready.clear();
        self.ready.extend_from_slice(ready);
        self.phase = Phase::Live(Some(entry));
        self.entries += 1;
        Ok(())
    }

    /// Whether an entry of the guest's lane can be recorded: not if the run goes on without a journal.
    fn require_live(&self) -> Result<bool, RecordError> {
        match &self.phase {
            Phase::Live(_) => Ok(true),
            Phase::Abandoned => Ok(false),
            Phase::Failed(error) => Err(error.clone()),
            Phase::Replay(_) => Err(RecordError::Misuse("recorded while the past has the answer")),
            Phase::Ended => Err(RecordError::Misuse("recorded after the end of the run")),
        }
    }

    /// Records an entry of the guest's lane.
    fn record(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        if self.require_live()? {
            self.close();
            self.write(entry)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// Records an entry of another lane. It neither ends the entry that may grow nor needs the guest's lane to be
    /// at its end.
    fn record_aside(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        match &self.phase {
            Phase::Failed(error) => Err(error.clone()),
            Phase::Abandoned => Ok(()),
            _ => self.write(entry),
        }
    }

    fn write(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        let room = self.room();
        if self.writer.push_within(entry, room) {
            return Ok(());
        }
        Err(self.fail(RecordError::Full { limit: self.limit }))
    }
}
