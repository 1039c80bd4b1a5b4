//! Chunks: the frames that one flush stores together.

use crate::codec::{MAX_VARINT, Reader, put_varint};
use crate::entry::{Entry, EntryKind, JournalLane};
use crate::error::{DecodeError, Fault};
use bytes::Bytes;

/// The bytes of the checksum.
const CHECKSUM: usize = 4;

/// The frames that one flush stores together. A store keeps the chunks of a journal whole and in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The number of its entries in the guest's lane. The others do not count: a run that only resumes again and
    /// again would seem to get further.
    pub entries: u32,
    /// The checksum, the head and the frames.
    pub body: Bytes,
}

/// The head of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// The number of frames, of all lanes.
    pub frames: u32,
    /// The time of the host when the chunk was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// The processor time of the run until then, in microseconds.
    pub cpu_us: u64,
}

impl Chunk {
    /// The head and the frames. `number` is the place of the chunk in its journal, for errors.
    ///
    /// # Errors
    /// If the checksum does not match, or the head cannot be read.
    pub fn frames(&self, number: u32) -> Result<(ChunkHead, Frames), DecodeError> {
        let (head, offset) = self.head().map_err(|fault| DecodeError { chunk: number, offset: 0, fault })?;
        let frames = Frames { chunk: number, body: self.body.clone(), offset, left: head.frames };
        Ok((head, frames))
    }

    /// The head, and the place of the first frame.
    fn head(&self) -> Result<(ChunkHead, usize), Fault> {
        let mut reader = Reader::new(&self.body);
        let checksum = reader.crc32()?;
        if checksum != crc32fast::hash(self.body.get(CHECKSUM..).unwrap_or_default()) {
            return Err(Fault::Checksum);
        }
        let head = ChunkHead { frames: reader.small()?, time_ms: reader.varint()?, cpu_us: reader.varint()? };
        Ok((head, reader.offset()))
    }
}

/// The frames of a chunk in their order. The iterator ends after the first error.
#[derive(Debug, Clone)]
pub struct Frames {
    chunk: u32,
    body: Bytes,
    offset: usize,
    left: u32,
}

/// A frame: the kind of an entry and its payload, which shares the memory of the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind.
    pub kind: EntryKind,
    /// The payload.
    pub payload: Bytes,
    /// The place of the frame, for errors.
    pub(crate) place: FramePlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramePlace {
    pub(crate) chunk: u32,
    pub(crate) offset: usize,
}

impl FramePlace {
    pub(crate) const fn error(self, fault: Fault) -> DecodeError {
        DecodeError { chunk: self.chunk, offset: self.offset, fault }
    }
}

impl Frame {
    /// Reads the payload.
    ///
    /// # Errors
    /// If it is not what the kind demands.
    pub fn entry(&self) -> Result<Entry<'_>, DecodeError> {
        Entry::decode(self.kind, &self.payload).map_err(|fault| self.place.error(fault))
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = FramePlace { chunk: self.chunk, offset: self.offset };
        let frame = self.read(place).map_err(|fault| place.error(fault)).transpose();
        if matches!(frame, Some(Err(_))) {
            self.offset = self.body.len();
            self.left = 0;
        }
        frame
    }
}

impl Frames {
    fn read(&mut self, place: FramePlace) -> Result<Option<Frame>, Fault> {
        let mut reader = Reader::at(&self.body, self.offset);
        if self.left == 0 {
            return reader.finish().map(|()| None);
        }
        let kind = reader.byte()?;
        let kind = EntryKind::from_byte(kind).ok_or(Fault::UnknownKind(kind))?;
        let payload = reader.shared_block()?;
        self.offset = reader.offset();
        self.left -= 1;
        Ok(Some(Frame { kind, payload, place }))
    }
}

/// Collects the frames of a chunk.
#[derive(Debug, Default)]
pub struct ChunkWriter {
    frames: u32,
    entries: u32,
    bytes: Vec<u8>,
    /// The payload of the next frame, whose length precedes it.
    payload: Vec<u8>,
}

impl ChunkWriter {
    /// A writer without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a frame.
    pub fn push(&mut self, entry: &Entry<'_>) {
        // No limit refuses it.
        let _ = self.push_within(entry, u64::MAX);
    }

    /// Appends a frame if it has at most `room` bytes, and returns whether it did.
    pub(crate) fn push_within(&mut self, entry: &Entry<'_>, room: u64) -> bool {
        self.payload.clear();
        entry.encode(&mut self.payload);
        let before = self.bytes.len();
        self.bytes.push(entry.kind() as u8);
        put_varint(&mut self.bytes, self.payload.len() as u64);
        let frame = self.bytes.len() - before + self.payload.len();
        if frame as u64 > room || self.frames == u32::MAX {
            self.bytes.truncate(before);
            return false;
        }
        self.bytes.extend_from_slice(&self.payload);
        self.frames += 1;
        self.entries += u32::from(entry.kind().lane() == JournalLane::Guest);
        true
    }

    /// The bytes of the frames.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no frames.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Makes a chunk of the frames, and begins the next one. `time_ms` is the time of the host in milliseconds
    /// since 1970, `cpu_us` the processor time of the run so far in microseconds.
    pub fn finish(&mut self, time_ms: u64, cpu_us: u64) -> Chunk {
        let mut body = Vec::with_capacity(CHECKSUM + 3 * MAX_VARINT + self.bytes.len());
        body.extend_from_slice(&[0; CHECKSUM]);
        put_varint(&mut body, u64::from(self.frames));
        put_varint(&mut body, time_ms);
        put_varint(&mut body, cpu_us);
        body.append(&mut self.bytes);
        if let Some((checksum, rest)) = body.split_first_chunk_mut::<CHECKSUM>() {
            *checksum = crc32fast::hash(rest).to_le_bytes();
        }
        self.frames = 0;
        Chunk { entries: std::mem::take(&mut self.entries), body: body.into() }
    }
}
