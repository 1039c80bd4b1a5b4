//! Notifications, in and out (P-1, T-37, T-38, C-1, C-6, E-6, G-1, R-6, TL-1).

use crate::response::{RELATED_TASK, notification};
use crate::tasks::TaskView;
use crate::{Id, LogLevel, RawJson, RpcError};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// `notifications/tools/list_changed` (TL-1).
#[must_use]
pub fn tools_list_changed() -> Bytes {
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
}

/// `notifications/prompts/list_changed` (PR-5).
#[must_use]
pub fn prompts_list_changed() -> Bytes {
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#)
}

/// `notifications/resources/list_changed` (R-7).
#[must_use]
pub fn resources_list_changed() -> Bytes {
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#)
}

/// `notifications/resources/updated` (R-6).
#[must_use]
pub fn resource_updated(uri: &str) -> Bytes {
    notification("notifications/resources/updated", Some(&RawJson::of(&serde_json::json!({"uri": uri}))))
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Rises from message to message.
    pub progress: f64,
    /// In the same unit, where it is known.
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
    of_task("notifications/progress", task_id, params)
}

/// `notifications/message` (G-1).
#[must_use]
pub fn log_message(level: LogLevel, logger: Option<&str>, data: &RawJson, task_id: Option<&str>) -> Bytes {
    let mut params = serde_json::json!({"level": level.as_str(), "data": data});
    if let Some(logger) = logger {
        params["logger"] = logger.into();
    }
    of_task("notifications/message", task_id, params)
}

/// `notifications/tasks/status`, whose params are the task itself and name it
/// nowhere else (T-37).
#[must_use]
pub fn task_status(task: &TaskView) -> Bytes {
    notification("notifications/tasks/status", Some(&task.render()))
}

/// `notifications/elicitation/complete` (E-6).
#[must_use]
pub fn elicitation_complete(elicitation_id: &str, task_id: Option<&str>) -> Bytes {
    of_task(
        "notifications/elicitation/complete",
        task_id,
        serde_json::json!({"elicitationId": elicitation_id}),
    )
}

/// `notifications/cancelled` for a request of ours (C-6).
#[must_use]
pub fn cancelled(request_id: &str, reason: &str, task_id: Option<&str>) -> Bytes {
    of_task(
        "notifications/cancelled",
        task_id,
        serde_json::json!({"requestId": request_id, "reason": reason}),
    )
}

/// A notification that names the task it belongs to (T-38).
fn of_task(method: &str, task_id: Option<&str>, mut params: serde_json::Value) -> Bytes {
    if let Some(id) = task_id {
        params["_meta"] = serde_json::json!({RELATED_TASK: {"taskId": id}});
    }
    notification(method, Some(&RawJson::of(&params)))
}

/// The token that a request wants progress under: a string or an integer (P-1).
///
/// # Errors
/// `-32602` if it is something else.
pub fn progress_token(params: &RawJson) -> Result<Option<RawJson>, RpcError> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<Meta<'a>>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "progressToken")]
        progress_token: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let Some(token) = wire.meta.and_then(|meta| meta.progress_token) else { return Ok(None) };
    checked_token(token)?;
    Ok(Some(RawJson::within(&params.bytes(), token)))
}

/// Whether a progress token is a string or an integer.
pub(crate) fn checked_token(token: &RawValue) -> Result<(), RpcError> {
    let text = token.get();
    if text.parse::<i64>().is_ok() || text.starts_with('"') {
        return Ok(());
    }
    Err(RpcError::invalid_params("`_meta.progressToken` must be a string or an integer"))
}

/// The request that a `notifications/cancelled` names; `None` where it is
/// malformed and so ignored (C-1, C-5).
#[must_use]
pub fn cancelled_request(params: Option<&RawJson>) -> Option<Id> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "requestId")]
        request_id: Id,
    }
    params?.decode::<Wire>().ok().map(|wire| wire.request_id)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn c_5_a_cancellation_without_a_request_is_ignored() {
        assert_eq!(cancelled_request(None), None);
        assert_eq!(cancelled_request(Some(&RawJson::trusted("{}"))), None);
        assert_eq!(cancelled_request(Some(&RawJson::trusted(r#"{"requestId":0}"#))), Some(Id::Number(0)));
    }
}
