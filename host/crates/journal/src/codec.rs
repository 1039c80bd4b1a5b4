//! Numbers, texts and blocks of bytes.

use crate::error::Fault;
use bytes::Bytes;

/// The most bytes of a varint.
pub(crate) const MAX_VARINT: usize = 10;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        // The mask leaves seven bits.
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

pub(crate) fn put_block(out: &mut Vec<u8>, block: &[u8]) {
    put_varint(out, block.len() as u64);
    out.extend_from_slice(block);
}

/// Reads values from the bytes of a payload or a chunk.
pub(crate) struct Reader<'a> {
    whole: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(whole: &'a Bytes) -> Self {
        Self { whole, rest: whole }
    }

    /// Reads from this byte on.
    pub(crate) fn at(whole: &'a Bytes, offset: usize) -> Self {
        Self { whole, rest: whole.get(offset..).unwrap_or_default() }
    }

    /// The number of bytes that were read.
    pub(crate) const fn offset(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        let (&byte, rest) = self.rest.split_first().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    /// A number in its shortest form, so that a value has one encoding.
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for place in 0..MAX_VARINT {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * place as u32;
            let is_too_large = bits << shift >> shift != bits;
            let is_too_long = byte == 0 && place > 0;
            if is_too_large || is_too_long {
                return Err(Fault::Varint);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::Varint)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.varint()?).map_err(|_| Fault::Range("a number has more than 32 bits"))
    }

    /// How often something happened.
    pub(crate) fn times(&mut self) -> Result<u64, Fault> {
        match self.varint()? {
            0 => Err(Fault::Range("something happened zero times")),
            times => Ok(times),
        }
    }

    /// The number of values that follow, of which each has at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize, Fault> {
        let count = usize::try_from(self.varint()?).map_err(|_| Fault::Truncated)?;
        if count > self.rest.len() { Err(Fault::Truncated) } else { Ok(count) }
    }

    /// Four bytes, little-endian.
    pub(crate) fn crc32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    /// A block after its length.
    pub(crate) fn block(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.count()?;
        let (block, rest) = self.rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(block)
    }

    /// A block after its length, which shares the memory of the whole.
    pub(crate) fn shared_block(&mut self) -> Result<Bytes, Fault> {
        let block = self.block()?;
        Ok(self.whole.slice_ref(block))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.block()?).map_err(|_| Fault::Text)
    }

    /// All remaining bytes, which share the memory of the whole.
    pub(crate) fn shared_rest(&mut self) -> Bytes {
        self.whole.slice_ref(std::mem::take(&mut self.rest))
    }

    /// All remaining bytes as text.
    pub(crate) fn text_rest(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(std::mem::take(&mut self.rest)).map_err(|_| Fault::Text)
    }

    /// Ends a payload.
    pub(crate) const fn finish(&self) -> Result<(), Fault> {
        if self.rest.is_empty() { Ok(()) } else { Err(Fault::Trailing) }
    }
}
