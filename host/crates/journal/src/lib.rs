//! The journal of a run: what it needs to repeat the run exactly, on this host or on another one.
//!
//! Everything here is a function of its arguments: this crate opens no file, waits for nothing and reads no
//! clock. It reads journals that a disk may have damaged or a person may have changed, so no bytes make it
//! panic, and its memory is bounded by a multiple of the bytes that it is given.
//!
//! A [`Recorder`] belongs to one run. The engine asks it at every place where chance enters a guest. While the
//! guest's lane of the journal lasts, the answer comes from the past ([`Source::Past`]); then the engine makes
//! the answer ([`Source::Live`]) and records it. [`Recorder::take_chunk`] gives the bytes to store; a host that
//! stores the chunks in order can [`Recorder::load`] any prefix of them and go on.
//!
//! # Format
//!
//! A journal is a list of chunks. A chunk has the checksum of the rest (crc32, 4 bytes, little-endian), the
//! number of its frames, the time of the host (milliseconds since 1970), the processor time of the run so far
//! (microseconds), and the frames. A frame has a kind (1 byte), the length of its payload, and the payload.
//! Numbers are varints (LEB128, at most 64 bits, in the shortest form) unless stated otherwise.
//! [`Entry`] describes the payloads; [`FORMAT`] counts the changes that an older host cannot read.
//!
//! # Example
//!
//! ```
//! use std::num::NonZeroU32;
//! use toolyard_journal::{Begin, FORMAT, Recorder, Seed};
//!
//! let begin = Begin {
//!     format: FORMAT,
//!     version: "0.2.0".to_owned(),
//!     tool: "search".to_owned(),
//!     digest: "sha256:…".to_owned(),
//!     seed: Seed([7; 32]),
//!     base_time: 1_700_000_000_000,
//!     environment: Vec::new(),
//!     limits: Default::default(),
//!     clock_step: NonZeroU32::MIN,
//!     arguments: 0,
//!     state: None,
//!     requests_before: 0,
//! };
//! let mut first = Recorder::new(begin, 1 << 20)?;
//! let time = first.clock(1_700_000_000_250)?;
//! let chunk = first.take_chunk(1_700_000_000_251, 40).expect("an entry was recorded");
//!
//! // Another host repeats the run: the clock gives the time of the first one.
//! let mut second = Recorder::load([chunk], 1 << 20)?;
//! assert!(!second.is_live());
//! assert_eq!(second.clock(1_700_000_099_000)?, time);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod begin;
mod chunk;
mod codec;
mod entry;
mod error;
mod format;
mod history;
mod lane;
mod load;
mod random;
mod recorder;
mod response;
mod step_clock;
mod words;

pub use begin::{Begin, Seed};
pub use chunk::{Chunk, ChunkHead, ChunkWriter, Frame, Frames};
pub use entry::{DecidedBy, DoubtDecision, Entry, EntryKind, JournalLane, QuestionName};
pub use error::{DecodeError, Divergence, Fault, RecordError};
pub use format::FORMAT;
pub use history::{Detail, History, HistoryLine, HistorySummary};
pub use random::{insecure_random, insecure_seed, secure_random};
pub use recorder::{Exchange, Recorder, Source};
pub use response::{Response, ResponseOutcome};
