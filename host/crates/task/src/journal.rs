//! The port to the journals of tasks that resume, and to the components that they need.
//!
//! A journal is a list of chunks with dense numbers. Only the run that holds the fence of the task may append:
//! the commit that moves the fence of the task also moves that of its journal, so a run that was superseded
//! cannot change what its successor reads.

use crate::error::StoreError;
use crate::id::{Digest, TaskId};
use crate::task::Fence;
use async_trait::async_trait;
use bytes::Bytes;
pub use toolyard_journal::{Chunk, DoubtDecision};

/// How long a component stays after its last [`JournalStore::put_component`], or after the last
/// [`JournalStore::sweep_components`] that named it, whatever else needs it (milliseconds). A host names its
/// components within this time, so that no other host that shares the store removes one of them.
pub const COMPONENT_KEPT_MS: u64 = 3_600_000;

/// A journal without its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalHead {
    /// The run that may append; `None` if the task is parked or has ended.
    pub fence: Option<Fence>,
    /// The number of the first chunk. 0, until the journal is restarted.
    pub first: u32,
    /// The number of the next chunk.
    pub next: u32,
    /// Entries of the guest's lane, those before a restart included, so that it only grows.
    pub entries: u64,
    /// Bytes of the stored chunks.
    pub bytes: u64,
    /// The component that the runs of the task use, from its creation on.
    pub component: Digest,
}

/// The outcome of an append or a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The chunks are durable, now or from an earlier call.
    Done,
    /// The run no longer has the task, or the task has no journal. Nothing was written.
    Fenced,
    /// The chunks do not follow the stored ones, or others are stored under their numbers. Nothing was
    /// written.
    Gap {
        /// The number of the next chunk.
        next: u32,
    },
}

/// The last chunks of the run that ends a task: they are appended in the commit of that end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastChunks {
    /// The number of the first chunk. If it is not the next number of the journal, nothing is appended.
    pub at: u32,
    /// The chunks.
    pub chunks: Vec<Chunk>,
}

/// When a write has to be on the disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Before it returns, together with everything that was written before.
    #[default]
    Now,
    /// With the next write that is flushed. Until then a power failure may lose it, but the end of the process, or of
    /// a server that the store uses, may not.
    Later,
}

/// How chunks are written to a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkWrite {
    /// After the stored chunks.
    Append(Flush),
    /// In place of all stored chunks, on the disk before it returns. The first chunk must have the next number of the
    /// journal, so that a late append of the replaced journal is a gap.
    Replace,
}

impl ChunkWrite {
    /// When the chunks have to be on the disk.
    #[must_use]
    pub const fn flush(self) -> Flush {
        match self {
            Self::Append(flush) => flush,
            Self::Replace => Flush::Now,
        }
    }
}

/// The store of journals. The journal of a task is created with the task, and removed with it. A call that has
/// returned `Ok` is durable, as far as the store is, except with [`Flush::Later`].
#[async_trait]
pub trait JournalStore: Send + Sync + 'static {
    /// Writes chunks from number `at` on, if `fence` still runs the task: all of them or none. Repeating what is
    /// stored is [`Appended::Done`], so that a caller whose outcome was undecided can repeat.
    async fn write_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Appended, StoreError>;

    /// The journal of a task; `None` if the task has none.
    async fn journal(&self, task: TaskId) -> Result<Option<JournalHead>, StoreError>;

    /// The chunks from number `from` on, in their order: at least one if there is one, and then up to about
    /// `max_bytes`. No chunks if `from` is before [`JournalHead::first`] or at [`JournalHead::next`].
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] also if a chunk is missing, or its bytes are not those that were appended.
    async fn chunks(&self, task: TaskId, from: u32, max_bytes: u64) -> Result<Vec<Chunk>, StoreError>;

    /// Removes the journal of a task that has ended or can no longer resume. Returns the bytes that it had, or `None`
    /// if there was none; that of any other task stays. A host calls it after
    /// [`Event::Unresumable`](crate::Event::Unresumable): from then on, commits no longer move the fence of the
    /// journal.
    async fn drop_journal(&self, task: TaskId) -> Result<Option<u64>, StoreError>;

    /// Keeps the bytes of a component, whose SHA-256 is `digest`, for a while ([`COMPONENT_KEPT_MS`]). They are
    /// durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] also if the bytes have another digest.
    async fn put_component(&self, digest: &Digest, bytes: Bytes) -> Result<(), StoreError>;

    /// The bytes of a component.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] also if the stored bytes have another digest.
    async fn component(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// Keeps the components among `keep` for a while ([`COMPONENT_KEPT_MS`]), and removes those that no journal
    /// names and whose time is up. Returns how many were removed.
    async fn sweep_components(&self, keep: &[Digest]) -> Result<u32, StoreError>;
}
