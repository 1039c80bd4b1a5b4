//! Notifications, in and out (T-37, T-38, C-1, C-6, E-6, G-1, R-6, TL-1).

use crate::logging::LogLevel;
use crate::message::Id;
use crate::method::Method;
use crate::raw::RawJson;
use crate::response::{RELATED_TASK, notification};
use crate::tasks::TaskView;
use bytes::Bytes;
use serde::Deserialize;

/// `notifications/…/list_changed` of tools (TL-1), prompts (PR-5) or resources (R-7).
#[must_use]
pub fn list_changed(method: &Method) -> Bytes {
    notification(method.as_str(), None)
}

/// `notifications/resources/updated` (R-6).
#[must_use]
pub fn resource_updated(uri: &str) -> Bytes {
    notification(Method::ResourcesUpdated.as_str(), Some(&RawJson::of(&serde_json::json!({"uri": uri}))))
}

/// `notifications/message` (G-1).
#[must_use]
pub fn log_message(level: LogLevel, logger: Option<&str>, data: &RawJson, task_id: Option<&str>) -> Bytes {
    let mut params = serde_json::json!({"level": level.as_str(), "data": data});
    if let Some(logger) = logger {
        params["logger"] = logger.into();
    }
    of_task(&Method::LogMessage, task_id, params)
}

/// `notifications/tasks/status`, whose params are the task itself and do not name it elsewhere (T-37).
#[must_use]
pub fn task_status(task: &TaskView) -> Bytes {
    notification(Method::TasksStatus.as_str(), Some(&task.render()))
}

/// `notifications/elicitation/complete` (E-6).
#[must_use]
pub fn elicitation_complete(elicitation_id: &str, task_id: Option<&str>) -> Bytes {
    of_task(&Method::ElicitationComplete, task_id, serde_json::json!({"elicitationId": elicitation_id}))
}

/// `notifications/cancelled` for a request of this host (C-6).
#[must_use]
pub fn cancelled(request_id: &str, reason: &str, task_id: Option<&str>) -> Bytes {
    of_task(&Method::Cancelled, task_id, serde_json::json!({"requestId": request_id, "reason": reason}))
}

/// A notification that names the task it belongs to (T-38).
pub(crate) fn of_task(method: &Method, task_id: Option<&str>, mut params: serde_json::Value) -> Bytes {
    if let Some(id) = task_id {
        params["_meta"] = serde_json::json!({RELATED_TASK: {"taskId": id}});
    }
    notification(method.as_str(), Some(&RawJson::of(&params)))
}

/// The content of a `notifications/cancelled`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// The request that it names.
    pub request: Id,
    /// The reason, if it gives one as a text.
    pub reason: Option<String>,
}

/// The content of a `notifications/cancelled`; `None` if it is malformed and therefore ignored (C-1,
/// C-5).
#[must_use]
pub fn cancellation(params: Option<&RawJson>) -> Option<Cancellation> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "requestId")]
        request_id: Id,
        #[serde(default)]
        reason: serde_json::Value,
    }
    let wire = params?.decode::<Wire>().ok()?;
    Some(Cancellation { request: wire.request_id, reason: wire.reason.as_str().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_5_a_cancellation_without_a_request_is_ignored() {
        let read = |params| cancellation(Some(&RawJson::trusted(params)));
        let of = |reason| Some(Cancellation { request: Id::Number(0), reason });
        assert_eq!(cancellation(None), None);
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"requestId":0}"#), of(None));
        assert_eq!(read(r#"{"requestId":0,"reason":5}"#), of(None), "a reason of another type is none");
        assert_eq!(read(r#"{"requestId":0,"reason":"timed out"}"#), of(Some("timed out".to_owned())));
    }
}
