//! The error codes of this generation, and how errors of guests are shown in it
//! (26J-7).

use super::{TASKS, VERSION};
use crate::error::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, clip};
use crate::resources::RESOURCE_NOT_FOUND;
use crate::{RawJson, RpcError};
use serde_json::{Value, json};

/// A header is missing, or says something else than the body (26H-4).
pub const HEADER_MISMATCH: i32 = -32020;
/// The client has not declared what this request needs (26R-4).
pub const MISSING_CAPABILITY: i32 = -32021;
/// The version is not served in this way (26R-3).
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The codes that belong to JSON-RPC and to MCP; a guest's own are outside.
const RESERVED: std::ops::RangeInclusive<i32> = -32768..=-32000;

/// `-32020` with a sentence about the header.
#[must_use]
pub fn header_mismatch(what: impl Into<String>) -> RpcError {
    RpcError::new(HEADER_MISMATCH, what)
}

/// `-32021` for these `ClientCapabilities`, an object (26R-4).
#[must_use]
pub fn missing_capability(required: &Value) -> RpcError {
    RpcError::new(MISSING_CAPABILITY, "Missing required client capability")
        .with_data(&json!({"requiredCapabilities": required}))
}

/// `-32021` for the tasks extension (26T-4, 26T-6).
#[must_use]
pub fn tasks_required() -> RpcError {
    missing_capability(&json!({"extensions": {TASKS: {}}}))
}

/// `-32022` for a request that claims another version (26R-3). Only what can be
/// claimed is listed: versions that begin with `initialize` cannot (26D-5).
#[must_use]
pub fn unsupported_version(requested: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&json!({"supported": [VERSION], "requested": clip(requested, 100)}))
}

/// An error as this generation shows it (26J-7). A guest that knows nothing of it
/// may give codes that belong to the protocol: those keep their number in the data,
/// and `-32002` becomes the code that took its place.
#[must_use]
pub fn shown(mut error: RpcError) -> RpcError {
    match error.code {
        PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND | INVALID_PARAMS | INTERNAL_ERROR => error,
        RESOURCE_NOT_FOUND => {
            error.code = INVALID_PARAMS;
            error
        }
        MISSING_CAPABILITY if names_capabilities(&error) => error,
        code if RESERVED.contains(&code) => {
            let data = match error.data {
                Some(data) => format!("{{\"guestCode\":{code},\"guestData\":{}}}", data.as_str()),
                None => format!("{{\"guestCode\":{code}}}"),
            };
            RpcError { code: INTERNAL_ERROR, message: error.message, data: Some(RawJson::trusted(data)) }
        }
        _ => error,
    }
}

/// Whether `data.requiredCapabilities` is the object that `-32021` must have.
fn names_capabilities(error: &RpcError) -> bool {
    let Some(data) = error.data.as_ref().filter(|data| data.is_object()) else { return false };
    super::members::last(data.as_str(), "requiredCapabilities")
        .is_some_and(|required| required.get().starts_with('{'))
}
