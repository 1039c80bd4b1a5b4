//! Tasks as the extension shows them: flat, with what they came to inside (26T-8 to
//! 26T-14).

use super::META_SERVER_INFO;
use super::error::shown;
use super::result::inner_complete;
use crate::response::with_member;
use crate::tasks::{IMMEDIATE_RESPONSE, TaskStatus, TaskView};
use crate::{RawJson, RpcError};
use serde::Serialize;

/// What a task shows besides its own members.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// Nothing: it is under way, or was cancelled.
    None,
    /// What the call would have returned.
    Result(&'a RawJson),
    /// The JSON-RPC error that it ended with.
    Error(&'a RpcError),
    /// Its open questions, by their keys.
    Input(&'a RawJson),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'a str>,
    task_id: &'a str,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: String,
    last_updated_at: String,
    ttl_ms: u64,
    poll_interval_ms: u64,
}

impl<'a> TaskWire<'a> {
    fn of(view: &'a TaskView, status: TaskStatus) -> Self {
        Self {
            result_type: None,
            task_id: &view.id,
            status,
            status_message: view.status_message.as_deref(),
            created_at: view.created_at.to_string(),
            last_updated_at: view.last_updated_at.to_string(),
            ttl_ms: view.ttl_ms,
            poll_interval_ms: view.poll_interval_ms,
        }
    }
}

/// The state that a task with this payload has here. What ended with a result is
/// `completed`, whether or not the result says `isError` (26T-13); a cancelled task
/// is that and nothing else.
#[must_use]
pub const fn status(status: TaskStatus, payload: &Payload<'_>) -> TaskStatus {
    match (status, payload) {
        (TaskStatus::Cancelled, _) => TaskStatus::Cancelled,
        (_, Payload::Result(_)) => TaskStatus::Completed,
        (_, Payload::Error(_)) => TaskStatus::Failed,
        (_, Payload::Input(_)) => TaskStatus::InputRequired,
        (_, Payload::None) => status,
    }
}

/// The `CreateTaskResult` of `server`: the task as it is, and no payload (26T-9).
/// `immediate_response` is what the model gets meanwhile.
#[must_use]
pub fn created(view: &TaskView, immediate_response: Option<&str>, server: &RawJson) -> RawJson {
    let task = RawJson::of(&TaskWire { result_type: Some("task"), ..TaskWire::of(view, view.status) });
    let immediate = immediate_response
        .map(|text| format!(",\"{IMMEDIATE_RESPONSE}\":{}", RawJson::of(text).as_str()))
        .unwrap_or_default();
    with_member(&task, "_meta", &format!("{{\"{META_SERVER_INFO}\":{}{immediate}}}", server.as_str()))
}

/// The `DetailedTask`: the task, and its payload inside (26T-14). As the result of
/// `tasks/get` it still gets what every result gets; as the params of a
/// notification it does not.
#[must_use]
pub fn detailed(view: &TaskView, payload: &Payload<'_>) -> RawJson {
    let status = status(view.status, payload);
    let mut wire = TaskWire::of(view, status);
    match payload {
        _ if status == TaskStatus::Cancelled => RawJson::of(&wire),
        Payload::None => RawJson::of(&wire),
        Payload::Result(result) => {
            with_member(&RawJson::of(&wire), "result", inner_complete(result).as_str())
        }
        Payload::Error(error) => {
            let error = shown((*error).clone());
            // SHOULD be there for whoever shows only the task.
            wire.status_message = wire.status_message.or(Some(&error.message));
            with_member(&RawJson::of(&wire), "error", RawJson::of(&error).as_str())
        }
        Payload::Input(requests) => with_member(&RawJson::of(&wire), "inputRequests", requests.as_str()),
    }
}
