//! The entries of a journal and their payloads.

use crate::codec::{Reader, put_block, put_varint};
use crate::error::Fault;
use crate::response::Response;
use bytes::Bytes;
use std::borrow::Cow;

/// A part of a journal. Each part keeps its own order; a journal has the parts interleaved by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalLane {
    /// The operations of the guest, in its order. These entries have numbers.
    Guest,
    /// The ends of exchanges, by the number of the exchange.
    Side,
}

/// The kind of an entry. The number is the first byte of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The first entry.
    Begin = 1,
    /// Readings of the clock.
    Clock = 2,
    /// `poll` on a list.
    Poll = 3,
    /// `pollable.ready`.
    Ready = 4,
    /// A function of the host with a result.
    Call = 5,
    /// Questions.
    Ask = 6,
    /// Their answers.
    Answer = 7,
    /// `sleep`.
    Sleep = 8,
    /// An HTTP request.
    Request = 9,
    // 10 and 11 are for children and files.
    /// The end of the run.
    Ended = 15,
    /// The end of an HTTP exchange.
    Response = 65,
    /// A decision about an exchange that was under way when its host stopped.
    Doubt = 66,
    // 67 is for the end of a child.
    /// The idempotency key that the host adds to a request.
    Key = 68,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Begin,
        Self::Clock,
        Self::Poll,
        Self::Ready,
        Self::Call,
        Self::Ask,
        Self::Answer,
        Self::Sleep,
        Self::Request,
        Self::Ended,
        Self::Response,
        Self::Doubt,
        Self::Key,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The word for people and for JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Clock => "clock",
            Self::Poll => "poll",
            Self::Ready => "ready",
            Self::Call => "call",
            Self::Ask => "ask",
            Self::Answer => "answer",
            Self::Sleep => "sleep",
            Self::Request => "request",
            Self::Ended => "ended",
            Self::Response => "response",
            Self::Doubt => "doubt",
            Self::Key => "key",
        }
    }

    /// The lane of entries of this kind.
    #[must_use]
    pub const fn lane(self) -> JournalLane {
        match self as u8 {
            0..64 => JournalLane::Guest,
            64.. => JournalLane::Side,
        }
    }
}

/// A question of a guest, without its params.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionName<'a> {
    /// The guest's key for the question.
    pub key: &'a str,
    /// The method of MCP, such as `elicitation/create`.
    pub method: &'a str,
}

/// The fate of a request that was under way when its host stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DoubtDecision {
    /// The host sends it again.
    Resend = 1,
    /// The guest gets an error, as when a connection breaks.
    Error = 2,
    /// The task fails.
    Fail = 3,
}

impl DoubtDecision {
    /// The word for people and for JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resend => "resend",
            Self::Error => "error",
            Self::Fail => "fail",
        }
    }
}

/// The reason for a [`DoubtDecision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy<'a> {
    /// The method of the request is idempotent.
    Method,
    /// The request carries an idempotency key.
    Key,
    /// `in-doubt` of the manifest.
    Manifest,
    /// A person with this name.
    Person(&'a str),
}

const BY_METHOD: u8 = 1;
const BY_KEY: u8 = 2;
const BY_MANIFEST: u8 = 3;
const BY_PERSON: u8 = 4;

/// An entry. The order of the fields is the order of the payload, unless a variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The conditions of the run: the JSON of a [`crate::Begin`].
    Begin(Bytes),
    /// Readings of the clock that gave the same time.
    Clock {
        /// The steps since the reading before, or since the base time.
        steps: u64,
        /// The number of readings, at least 1.
        readings: u64,
    },
    /// Equal calls of `poll` in a row. In the payload `times` is before the number of indices.
    Poll {
        /// The length of the list.
        len: u32,
        /// The indices into the list, in the order in which the guest gets them.
        ready: Cow<'a, [u32]>,
        /// The number of calls, at least 1.
        times: u64,
    },
    /// Equal calls of `pollable.ready` in a row.
    Ready {
        /// The result.
        is_ready: bool,
        /// The number of calls, at least 1.
        times: u64,
    },
    /// A function of the host.
    Call {
        /// The name of the function.
        function: &'a str,
        /// The crc32 of the arguments, as four bytes.
        arguments: u32,
        /// The result as JSON: the rest of the payload.
        result: Bytes,
    },
    /// Questions that the guest asked at once.
    Ask {
        /// The crc32 of all questions, as four bytes.
        arguments: u32,
        /// Their names, after their number.
        questions: Vec<QuestionName<'a>>,
    },
    /// The answers to the questions before, as JSON.
    Answer(Bytes),
    /// A wait.
    Sleep {
        /// The time that the guest asked for, in milliseconds.
        duration_ms: u64,
        /// The moment at which it ends, in milliseconds since 1970.
        until_ms: u64,
    },
    /// An HTTP request.
    Request {
        /// The number of the exchange, from 1.
        number: u32,
        /// The crc32 of the method, the URI and the headers, as four bytes.
        head: u32,
        /// The method.
        method: &'a str,
        /// The URI: the rest of the payload.
        uri: &'a str,
    },
    /// The end of the run, with the sha256 of its outcome.
    Ended([u8; 32]),
    /// The end of an HTTP exchange.
    Response {
        /// The number of the exchange.
        number: u32,
        /// The crc32 of the request's body (four bytes), 0 and the response, or 1 and an error.
        response: Cow<'a, Response>,
    },
    /// A decision about an exchange in doubt.
    Doubt {
        /// The number of the exchange.
        number: u32,
        /// The decision, a byte.
        decision: DoubtDecision,
        /// The decider: a byte, and the name of the person.
        by: DecidedBy<'a>,
    },
    /// The idempotency key that the host adds to a request, recorded before the request leaves. A request without
    /// this entry left without a key of the host.
    Key {
        /// The number of the exchange.
        number: u32,
        /// The key: the rest of the payload.
        key: &'a str,
    },
}

impl<'a> Entry<'a> {
    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> EntryKind {
        match self {
            Self::Begin(_) => EntryKind::Begin,
            Self::Clock { .. } => EntryKind::Clock,
            Self::Poll { .. } => EntryKind::Poll,
            Self::Ready { .. } => EntryKind::Ready,
            Self::Call { .. } => EntryKind::Call,
            Self::Ask { .. } => EntryKind::Ask,
            Self::Answer(_) => EntryKind::Answer,
            Self::Sleep { .. } => EntryKind::Sleep,
            Self::Request { .. } => EntryKind::Request,
            Self::Ended(_) => EntryKind::Ended,
            Self::Response { .. } => EntryKind::Response,
            Self::Doubt { .. } => EntryKind::Doubt,
            Self::Key { .. } => EntryKind::Key,
        }
    }

    /// Appends the payload.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin(json) | Self::Answer(json) => out.extend_from_slice(json),
            Self::Clock { steps: one, readings: two } | Self::Sleep { duration_ms: one, until_ms: two } => {
                put_varint(out, *one);
                put_varint(out, *two);
            }
            Self::Poll { len, ready, times } => {
                put_varint(out, u64::from(*len));
                put_varint(out, *times);
                put_varint(out, ready.len() as u64);
                ready.iter().for_each(|index| put_varint(out, u64::from(*index)));
            }
            Self::Ready { is_ready, times } => {
                out.push(u8::from(*is_ready));
                put_varint(out, *times);
            }
            Self::Call { function, arguments, result } => {
                put_block(out, function.as_bytes());
                out.extend_from_slice(&arguments.to_le_bytes());
                out.extend_from_slice(result);
            }
            Self::Ask { arguments, questions } => {
                out.extend_from_slice(&arguments.to_le_bytes());
                put_varint(out, questions.len() as u64);
                for question in questions {
                    put_block(out, question.key.as_bytes());
                    put_block(out, question.method.as_bytes());
                }
            }
            Self::Request { number, head, method, uri } => {
                put_varint(out, u64::from(*number));
                out.extend_from_slice(&head.to_le_bytes());
                put_block(out, method.as_bytes());
                out.extend_from_slice(uri.as_bytes());
            }
            Self::Ended(outcome) => out.extend_from_slice(outcome),
            Self::Response { number, response } => {
                put_varint(out, u64::from(*number));
                response.encode(out);
            }
            Self::Doubt { number, decision, by } => {
                put_varint(out, u64::from(*number));
                out.push(*decision as u8);
                encode_reason(out, *by);
            }
            Self::Key { number, key } => {
                put_varint(out, u64::from(*number));
                out.extend_from_slice(key.as_bytes());
            }
        }
    }

    /// Reads a payload.
    pub(crate) fn decode(kind: EntryKind, payload: &'a Bytes) -> Result<Self, Fault> {
        let mut reader = Reader::new(payload);
        let reader = &mut reader;
        let entry = match kind {
            EntryKind::Begin => Self::Begin(reader.shared_rest()),
            EntryKind::Clock => Self::Clock { steps: reader.varint()?, readings: reader.times()? },
            EntryKind::Poll => decode_poll(reader)?,
            EntryKind::Ready => Self::Ready { is_ready: decode_bit(reader)?, times: reader.times()? },
            EntryKind::Call => Self::Call {
                function: reader.text()?,
                arguments: reader.crc32()?,
                result: reader.shared_rest(),
            },
            EntryKind::Ask => decode_ask(reader)?,
            EntryKind::Answer => Self::Answer(reader.shared_rest()),
            EntryKind::Sleep => Self::Sleep { duration_ms: reader.varint()?, until_ms: reader.varint()? },
            EntryKind::Request => Self::Request {
                number: reader.small()?,
                head: reader.crc32()?,
                method: reader.text()?,
                uri: reader.text_rest()?,
            },
            EntryKind::Ended => Self::Ended(reader.array()?),
            EntryKind::Response => {
                Self::Response { number: reader.small()?, response: Cow::Owned(Response::decode(reader)?) }
            }
            EntryKind::Doubt => Self::Doubt {
                number: reader.small()?,
                decision: decode_decision(reader)?,
                by: decode_reason(reader)?,
            },
            EntryKind::Key => Self::Key { number: reader.small()?, key: reader.text_rest()? },
        };
        reader.finish()?;
        Ok(entry)
    }
}

fn decode_poll<'a>(reader: &mut Reader<'_>) -> Result<Entry<'a>, Fault> {
    let len = reader.small()?;
    let times = reader.times()?;
    let index = |reader: &mut Reader<'_>| match reader.small()? {
        index if index < len => Ok(index),
        _ => Err(Fault::Range("an index is beyond its list")),
    };
    let ready = (0..reader.count()?).map(|_| index(reader)).collect::<Result<Vec<_>, Fault>>()?;
    Ok(Entry::Poll { len, ready: Cow::Owned(ready), times })
}

fn decode_bit(reader: &mut Reader<'_>) -> Result<bool, Fault> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::Range("a bit is neither 0 nor 1")),
    }
}

fn decode_ask<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, Fault> {
    let arguments = reader.crc32()?;
    let questions = (0..reader.count()?)
        .map(|_| Ok(QuestionName { key: reader.text()?, method: reader.text()? }))
        .collect::<Result<_, Fault>>()?;
    Ok(Entry::Ask { arguments, questions })
}

fn decode_decision(reader: &mut Reader<'_>) -> Result<DoubtDecision, Fault> {
    let byte = reader.byte()?;
    [DoubtDecision::Resend, DoubtDecision::Error, DoubtDecision::Fail]
        .into_iter()
        .find(|decision| *decision as u8 == byte)
        .ok_or(Fault::Range("a decision about a request in doubt is unknown"))
}

fn encode_reason(out: &mut Vec<u8>, by: DecidedBy<'_>) {
    match by {
        DecidedBy::Method => out.push(BY_METHOD),
        DecidedBy::Key => out.push(BY_KEY),
        DecidedBy::Manifest => out.push(BY_MANIFEST),
        DecidedBy::Person(name) => {
            out.push(BY_PERSON);
            out.extend_from_slice(name.as_bytes());
        }
    }
}

fn decode_reason<'a>(reader: &mut Reader<'a>) -> Result<DecidedBy<'a>, Fault> {
    match reader.byte()? {
        BY_METHOD => Ok(DecidedBy::Method),
        BY_KEY => Ok(DecidedBy::Key),
        BY_MANIFEST => Ok(DecidedBy::Manifest),
        BY_PERSON => Ok(DecidedBy::Person(reader.text_rest()?)),
        _ => Err(Fault::Range("the reason of a decision about a request in doubt is unknown")),
    }
}
