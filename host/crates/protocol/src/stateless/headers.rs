//! What HTTP headers repeat of a body, as values; the transport compares them
//! (26H-3 to 26H-5).

use super::error::header_mismatch;
use super::members::last;
use crate::{RawJson, RpcError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// What a header value says: without the spaces and tabs around it, and decoded if
/// it has the form `=?base64?…?=` (26H-4, 26H-5). Anything else is meant literally,
/// also what only begins so.
///
/// # Errors
/// `-32020` if it has that form, and what is inside is not the base64, with
/// padding, of UTF-8.
pub fn value(raw: &str) -> Result<Cow<'_, str>, RpcError> {
    let raw = raw.trim_matches([' ', '\t']);
    let Some(inside) = raw.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Cow::Borrowed(raw));
    };
    let bytes = STANDARD
        .decode(inside)
        .map_err(|_| header_mismatch("A header value is marked as base64, but is not valid base64"))?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| header_mismatch("A header value is marked as base64, but is not the base64 of UTF-8"))
}

/// The member of the params that `Mcp-Name` repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameOf {
    /// `name`.
    Name,
    /// `uri`.
    Uri,
    /// `taskId`.
    TaskId,
}

impl NameOf {
    /// The name of the member.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::TaskId => "taskId",
        }
    }
}

/// What `Mcp-Name` repeats for this method; `None` where it says nothing (26H-3,
/// 26T-26).
#[must_use]
pub fn name_member(method: &str) -> Option<NameOf> {
    match method {
        "tools/call" | "prompts/get" => Some(NameOf::Name),
        "resources/read" => Some(NameOf::Uri),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(NameOf::TaskId),
        _ => None,
    }
}

/// What `Mcp-Name` has to say for this request; `None` where the body does not say
/// it either, so that the params are what is wrong (26H-7).
#[must_use]
pub fn name_of(method: &str, params: Option<&RawJson>) -> Option<String> {
    let member = name_member(method)?;
    serde_json::from_str(last(params?.as_str(), member.as_str())?.get()).ok()
}
