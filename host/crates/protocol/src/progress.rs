//! Progress: its token in requests, and its notifications (P-1, T-38, T-39).

use crate::error::RpcError;
use crate::initialize::{MAX_CLIENT_BYTES, too_long};
use crate::method::Method;
use crate::notification::of_task;
use crate::raw::RawJson;
use crate::trace::{self, TraceContext};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Increases from message to message.
    pub progress: f64,
    /// In the same unit, if it is known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// `notifications/progress` under the caller's token, tied to its task if it
/// has one (P-1, T-38, T-39).
#[must_use]
pub fn progress(token: &RawJson, task_id: Option<&str>, progress: &Progress) -> Bytes {
    let mut params = serde_json::json!({"progressToken": token, "progress": progress.progress});
    if let Some(total) = progress.total {
        params["total"] = total.into();
    }
    if let Some(message) = &progress.message {
        params["message"] = message.as_str().into();
    }
    of_task(&Method::Progress, task_id, params)
}

/// The token of a request for its progress notifications: a string or an integer (P-1).
///
/// # Errors
/// `-32602` if it is something else.
pub fn progress_token(params: &RawJson) -> Result<Option<RawJson>, RpcError> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<Meta<'a>>,
    }
    let wire: Wire<'_> = params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
    token_of(wire.meta, &params.bytes())
}

/// The `_meta` of a request.
#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub progress_token: Option<&'a RawValue>,
    #[serde(borrow)]
    pub traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tracestate: Option<&'a RawValue>,
}

impl Meta<'_> {
    /// The trace that the request belongs to.
    pub fn trace(&self) -> Option<TraceContext> {
        trace::of_meta(self.traceparent, self.tracestate)
    }
}

/// The token in the `_meta` of params that are, or are within, `owner`.
pub(crate) fn token_of(meta: Option<Meta<'_>>, owner: &Bytes) -> Result<Option<RawJson>, RpcError> {
    let Some(token) = meta.and_then(|meta| meta.progress_token) else { return Ok(None) };
    let text = token.get();
    if text.len() > MAX_CLIENT_BYTES {
        return Err(too_long("_meta.progressToken"));
    }
    if text.parse::<i64>().is_err() && !text.starts_with('"') {
        return Err(RpcError::invalid_params("`_meta.progressToken` must be a string or an integer"));
    }
    Ok(Some(RawJson::kept(owner, token)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::RELATED_TASK;

    #[test]
    fn t_39_progress_keeps_the_token_of_the_call_and_names_the_task() {
        let told = Progress { progress: 1.0, total: Some(4.0), message: Some("a".into()) };
        let text = progress(&RawJson::trusted("0"), Some("t"), &told);
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(value["params"]["progressToken"], 0);
        assert_eq!(value["params"]["progress"], 1.0);
        assert_eq!(value["params"]["total"], 4.0);
        assert_eq!(value["params"]["_meta"][RELATED_TASK]["taskId"], "t");
    }
}
