//! JSON-RPC errors and the codes that MCP gives them (J-4, J-5).

use crate::method::Method;
use crate::raw::RawJson;
use crate::visible::clip;
use serde::{Deserialize, Serialize};

/// Invalid JSON (JSON-RPC 2.0).
pub const PARSE_ERROR: i32 = -32700;
/// Not a JSON-RPC message that may be sent here.
pub const INVALID_REQUEST: i32 = -32600;
/// No such method, or one that the capabilities do not offer.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The params do not fit.
pub const INVALID_PARAMS: i32 = -32602;
/// The host is at fault, or too busy.
pub const INTERNAL_ERROR: i32 = -32603;

/// The user has to open a page before the request can be done (E-7).
pub const URL_ELICITATION_REQUIRED: i32 = -32042;

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The code.
    pub code: i32,
    /// A sentence for the other side.
    pub message: String,
    /// Further data about the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Some(RawJson::of(data));
        self
    }

    /// `-32602`.
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// `-32600`.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// `-32601` for this method.
    #[must_use]
    pub fn method_not_found(method: &Method) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {}", clip(method.as_str(), 100)))
    }

    /// `-32603`.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }
}
