//! Why a journal cannot be read, continued or repeated.

use crate::format::FORMAT;
use toolyard_protocol::visible;

/// A journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal is corrupt at chunk {chunk}, byte {offset}: {fault}")]
pub struct DecodeError {
    /// The number of the chunk, from 0.
    pub chunk: u32,
    /// The first byte of the frame in its chunk; 0 for a fault of the whole chunk.
    pub offset: usize,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a chunk or a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Some byte is not what was written.
    #[error("its checksum does not match its bytes")]
    Checksum,
    /// The bytes end too early.
    #[error("it ends in the middle of a value")]
    Truncated,
    /// Bytes follow the last value.
    #[error("bytes follow its last value")]
    Trailing,
    /// A number that no writer produces.
    #[error("a number has more than 64 bits, or more bytes than it needs")]
    Varint,
    /// A text in another encoding.
    #[error("a text is not UTF-8")]
    Text,
    /// A value out of its range.
    #[error("{0}")]
    Range(&'static str),
    /// An entry that this version does not know.
    #[error(
        "format {FORMAT} has no entries of kind {0}; resume this task with the version of Toolyard that wrote it"
    )]
    UnknownKind(u8),
    /// A later format.
    #[error("it has format {0}, and this version reads format {FORMAT}; use the version that wrote it")]
    UnknownFormat(u32),
    /// The first entry has other JSON.
    #[error("the entry `begin` cannot be parsed: {0}")]
    Begin(String),
    /// A count that does not match.
    #[error("it names {named} entries and has {found}")]
    Count {
        /// The number that the chunk names.
        named: u32,
        /// The number of those in it.
        found: u32,
    },
    /// An entry at a place where none of its kind can be.
    #[error("{0}")]
    Order(&'static str),
}

/// The first difference between a run and its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry}: recorded {}, now {}", visible::line(recorded), visible::line(now))]
pub struct Divergence {
    /// The number of the entry in the guest's lane; `begin` is 0.
    pub entry: u64,
    /// The recorded operation. It may contain foreign text as the guest wrote it.
    pub recorded: String,
    /// The operation that the guest attempted. It may contain foreign text as the guest wrote it.
    pub now: String,
}

/// Why an operation of a [`crate::Recorder`] failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The guest did something else than in the past. Every later operation fails with the same divergence.
    #[error("the run did not repeat what was recorded: {0}")]
    Diverged(Divergence),
    /// The journal reached its limit. Nothing was recorded, and nothing will be:
    /// [`crate::Recorder::abandon`] lets the run go on without a journal.
    #[error("the journal has reached its limit of {limit} bytes; raise `limits.journal`")]
    Full {
        /// In bytes.
        limit: u64,
    },
    /// The journal is damaged.
    #[error(transparent)]
    Corrupt(#[from] DecodeError),
    /// A fault of the host: an operation at a time when it cannot be.
    #[error("fault of the host: {0}")]
    Misuse(&'static str),
}
