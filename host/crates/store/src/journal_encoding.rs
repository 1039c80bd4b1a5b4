//! How databases store the chunks of journals: encoded by the caller, so that the writer only writes.

use crate::codec::CodecError;
use crate::encryption::{Column, Sealing};
use bytes::Bytes;
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush, LastChunks};
use toolyard_task::{Fence, Incarnation, Task, TaskId};

/// The first byte of a stored body that is not sealed. A chunk itself begins with a checksum, which may be any
/// byte.
const PLAIN: u8 = b'j';

/// Chunks of one append or restart, as they are given and as they are stored.
pub(crate) struct EncodedChunks {
    pub(crate) task: TaskId,
    pub(crate) fence: Fence,
    /// The number of the first chunk.
    pub(crate) at: u32,
    /// The number after the last chunk.
    pub(crate) until: u32,
    /// Entries of all chunks.
    pub(crate) entries: i64,
    /// Bytes of all chunks, before they were sealed.
    pub(crate) bytes: i64,
    /// Whether the chunks replace those before them.
    pub(crate) replaces: bool,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) chunks: Vec<Chunk>,
}

impl EncodedChunks {
    pub(crate) fn of(
        sealing: &Sealing,
        (task, fence): (TaskId, Fence),
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Self, CodecError> {
        let count = u32::try_from(chunks.len()).map_err(|_| CodecError::TooManyChunks)?;
        let until = at.checked_add(count).ok_or(CodecError::TooManyChunks)?;
        let bodies = (at..until).zip(&chunks).map(|(number, chunk)| encode(sealing, task, number, chunk));
        Ok(Self {
            bodies: bodies.collect::<Result<_, _>>()?,
            entries: chunks.iter().map(|chunk| i64::from(chunk.entries)).sum(),
            bytes: chunks.iter().map(|chunk| chunk.body.len() as i64).sum(),
            replaces: how == ChunkWrite::Replace,
            task,
            fence,
            at,
            until,
            chunks,
        })
    }

    /// The last chunks of a task that ends.
    pub(crate) fn of_end(sealing: &Sealing, task: &Task, last: LastChunks) -> Result<Self, CodecError> {
        Self::of(sealing, (task.id, task.fence), last.at, last.chunks, ChunkWrite::Append(Flush::Now))
    }

    /// The entries of each chunk.
    pub(crate) fn entries_of_each(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().map(|chunk| chunk.entries)
    }

    /// The answer to this append after the store made no change. `None`: if the stored chunks with these
    /// numbers are the same, it is a repetition.
    pub(crate) fn unless_repeated(&self, stored: Option<StoredFence>) -> Option<Appended> {
        let Some(stored) = stored.filter(|stored| stored.fence == Some(self.fence)) else {
            return Some(Appended::Fenced);
        };
        let begins = if self.replaces { self.at == stored.first } else { self.at >= stored.first };
        (!begins || self.until > stored.next).then_some(Appended::Gap { next: stored.next })
    }

    /// The answer, if these are the chunks that are stored with these numbers.
    pub(crate) fn compared(&self, found: &[Chunk], next: u32) -> Appended {
        if self.chunks == found { Appended::Done } else { Appended::Gap { next } }
    }
}

/// The columns of a journal that decide about an append.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredFence {
    pub(crate) fence: Option<Fence>,
    pub(crate) first: u32,
    pub(crate) next: u32,
}

/// The columns of a fence; zeros if no run may append.
pub(crate) fn fence_columns(fence: Option<Fence>) -> (i64, i64) {
    let Some(Fence { incarnation, attempt }) = fence else { return (0, 0) };
    (i64::try_from(incarnation.0).unwrap_or(i64::MAX), i64::from(attempt))
}

/// The fence in these columns.
pub(crate) fn fence_in(incarnation: i64, attempt: u32) -> Option<Fence> {
    let incarnation = Incarnation(incarnation.unsigned_abs());
    (incarnation != Incarnation::NOBODY).then_some(Fence { incarnation, attempt })
}

fn encode(sealing: &Sealing, task: TaskId, number: u32, chunk: &Chunk) -> Result<Vec<u8>, CodecError> {
    let mut plain = Vec::with_capacity(1 + chunk.body.len());
    plain.push(PLAIN);
    plain.extend_from_slice(&chunk.body);
    Ok(sealing.bytes(task, Column::Journal { number }, plain)?.into_owned())
}

/// The chunk that is stored under this number. Its checksum is checked, so that bytes of a damaged page are
/// not passed on.
pub(crate) fn decode(
    sealing: &Sealing,
    task: TaskId,
    number: u32,
    entries: u32,
    body: Vec<u8>,
) -> Result<Chunk, CodecError> {
    let mut body = Bytes::from(sealing.open(task, Column::Journal { number }, body)?);
    if body.first() != Some(&PLAIN) {
        return Err(CodecError::NotSealed);
    }
    let chunk = Chunk { entries, body: body.split_off(1) };
    chunk.frames(number).map_err(CodecError::Chunk)?;
    Ok(chunk)
}

/// Chunks that are read in their order, from this number on.
pub(crate) struct ChunkReader<'a> {
    sealing: &'a Sealing,
    task: TaskId,
    number: u32,
    pub(crate) chunks: Vec<Chunk>,
    bytes: u64,
    max_bytes: u64,
}

impl<'a> ChunkReader<'a> {
    pub(crate) const fn new(sealing: &'a Sealing, task: TaskId, from: u32, max_bytes: u64) -> Self {
        Self { sealing, task, number: from, chunks: Vec::new(), bytes: 0, max_bytes }
    }

    /// Adds the next chunk. Returns whether there is room for another one.
    pub(crate) fn add(&mut self, number: i64, entries: u32, body: Vec<u8>) -> Result<bool, CodecError> {
        if number != i64::from(self.number) {
            return Err(CodecError::MissingChunk(self.number));
        }
        let chunk = decode(self.sealing, self.task, self.number, entries, body)?;
        self.number = self.number.checked_add(1).ok_or(CodecError::TooManyChunks)?;
        self.bytes += chunk.body.len() as u64;
        self.chunks.push(chunk);
        Ok(self.bytes < self.max_bytes)
    }

    /// The chunks, after the last row was added. `next` is the next number of the journal.
    pub(crate) fn end(self, next: u32) -> Result<Vec<Chunk>, CodecError> {
        if self.number < next { Err(CodecError::MissingChunk(self.number)) } else { Ok(self.chunks) }
    }
}
