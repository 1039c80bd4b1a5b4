//! Decoding of what arrives: one JSON-RPC message, or a batch of them.

use crate::error::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use crate::method::Method;
use crate::raw::RawJson;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The id of a request: an integer or a string, never null (J-1). `0` and `""`
/// are ids like any other, and the JSON type is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A request, a notification or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Wants exactly one response (J-3).
    Request {
        /// The id of the request.
        id: Id,
        /// The method of the request.
        method: Method,
        /// The params of the request, an object.
        params: Option<RawJson>,
    },
    /// Wants none.
    Notification {
        /// The method of the notification.
        method: Method,
        /// The params of the notification, an object.
        params: Option<RawJson>,
    },
    /// The other side's response to a request of this side.
    Response {
        /// The id of our request.
        id: Id,
        /// The result, or the error.
        outcome: Result<RawJson, RpcError>,
    },
}

/// The content of one body or line.
#[derive(Debug)]
pub enum Incoming {
    /// A single message.
    One(Message),
    /// A batch (2025-03-26 only, J-6), each member decoded by itself.
    Batch(Vec<Result<Message, DecodeError>>),
}

/// The fault of a message, and the id to answer to, if it could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct DecodeError {
    /// The id of the faulty request.
    pub id: Option<Id>,
    /// The error to answer with.
    pub error: RpcError,
}

impl DecodeError {
    fn invalid(id: Option<Id>, message: impl Into<String>) -> Self {
        Self { id, error: RpcError::new(INVALID_REQUEST, message) }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    error: Option<&'a RawValue>,
}

/// Decodes one body or line. Parameters and results stay text and share the
/// memory of `text`.
///
/// # Errors
/// `-32700` if `text` is not JSON, `-32600` if it is not JSON-RPC 2.0.
pub fn decode(text: &Bytes) -> Result<Incoming, DecodeError> {
    // Once for the whole text, instead of once for each string in it.
    let json = std::str::from_utf8(text).map_err(|error| not_json(&error))?;
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let members: Vec<&RawValue> = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
        if members.is_empty() {
            return Err(DecodeError::invalid(None, "an empty batch"));
        }
        return Ok(Incoming::Batch(
            members.into_iter().map(|member| decode_one(text, member.get())).collect(),
        ));
    }
    decode_one(text, json).map(Incoming::One)
}

fn unreadable(error: &serde_json::Error) -> DecodeError {
    if error.is_data() {
        return DecodeError::invalid(None, "expected a JSON-RPC 2.0 message, which is a JSON object");
    }
    not_json(error)
}

fn not_json(error: &dyn std::error::Error) -> DecodeError {
    DecodeError { id: None, error: RpcError::new(PARSE_ERROR, format!("Parse error: {error}")) }
}

fn decode_one(owner: &Bytes, text: &str) -> Result<Message, DecodeError> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    let id = match envelope.id {
        None => None,
        Some(raw) => Some(
            serde_json::from_str::<Id>(raw.get())
                .map_err(|_| DecodeError::invalid(None, "`id` must be a string or an integer"))?,
        ),
    };
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(DecodeError::invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let Some(method) = envelope.method else {
        return decode_response(owner, &envelope, id);
    };
    if envelope.result.is_some() || envelope.error.is_some() {
        return Err(DecodeError::invalid(id, "a message with `method` has neither `result` nor `error`"));
    }
    let Ok(method) = serde_json::from_str::<Method>(method.get()) else {
        return Err(DecodeError::invalid(id, "`method` must be a string"));
    };
    let params = envelope.params.map(|raw| RawJson::within(owner, raw));
    if params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(DecodeError::invalid(id, "`params` must be an object"));
    }
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn decode_response(owner: &Bytes, envelope: &Envelope<'_>, id: Option<Id>) -> Result<Message, DecodeError> {
    let outcome = match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(RawJson::within(owner, result)),
        (None, Some(error)) => Err(serde_json::from_str::<RpcError>(error.get()).map_err(|_| {
            DecodeError::invalid(None, "`error` must have an integer `code` and a string `message`")
        })?),
        _ => {
            return Err(DecodeError::invalid(
                id,
                "a message has `method`, or exactly one of `result` and `error`",
            ));
        }
    };
    match id {
        Some(id) => Ok(Message::Response { id, outcome }),
        None => Err(DecodeError::invalid(None, "a response needs the `id` of its request")),
    }
}

#[cfg(test)]
mod tests;
