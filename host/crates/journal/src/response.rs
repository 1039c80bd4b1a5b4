//! The end of an HTTP exchange, as the journal keeps it.

use crate::codec::{Reader, put_block, put_varint};
use crate::error::Fault;
use bytes::Bytes;

const RESPONSE: u8 = 0;
const ERROR: u8 = 1;

/// The end of an HTTP exchange. Reading one copies no bytes: it shares the memory of its chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The crc32 of the request's body, which was whole before the request was sent.
    pub request_body: u32,
    /// The result for the guest.
    pub outcome: ResponseOutcome,
}

/// The result of an HTTP exchange for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// A whole response.
    Complete {
        /// The HTTP status.
        status: u16,
        /// Names and values in the order of the response.
        headers: Vec<(Bytes, Bytes)>,
        /// All bytes of the body.
        body: Bytes,
    },
    /// A failed exchange, or one that was refused: a text that the engine turns into an error code.
    Error(String),
}

impl Response {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request_body.to_le_bytes());
        match &self.outcome {
            ResponseOutcome::Complete { status, headers, body } => {
                out.push(RESPONSE);
                put_varint(out, u64::from(*status));
                put_varint(out, headers.len() as u64);
                for (name, value) in headers {
                    put_block(out, name);
                    put_block(out, value);
                }
                out.extend_from_slice(body);
            }
            ResponseOutcome::Error(error) => {
                out.push(ERROR);
                out.extend_from_slice(error.as_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let request_body = reader.crc32()?;
        let outcome = match reader.byte()? {
            RESPONSE => {
                let status = u16::try_from(reader.varint()?)
                    .map_err(|_| Fault::Range("an HTTP status has more than 16 bits"))?;
                let headers = (0..reader.count()?)
                    .map(|_| Ok((reader.shared_block()?, reader.shared_block()?)))
                    .collect::<Result<_, Fault>>()?;
                ResponseOutcome::Complete { status, headers, body: reader.shared_rest() }
            }
            ERROR => ResponseOutcome::Error(reader.text_rest()?.to_owned()),
            _ => return Err(Fault::Range("a response is neither complete nor an error")),
        };
        Ok(Self { request_body, outcome })
    }
}
