//! Tasks as the extension shows them: flat, with their outcome inside (26T-8 to 26T-14).

use super::META_SERVER_INFO;
use super::error::shown;
use super::result::inner_complete;
use crate::error::RpcError;
use crate::raw::RawJson;
use crate::response::with_member;
use crate::tasks::{IMMEDIATE_RESPONSE, TaskStatus, TaskView};
use serde::Serialize;

/// The payload of a task besides its own members.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// Nothing: it is under way, or was cancelled.
    None,
    /// The result that the call would have returned.
    Result(&'a RawJson),
    /// The JSON-RPC error that it ended with.
    Error(&'a RpcError),
    /// The open questions of the task, by their keys.
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

/// The status here of a task with this payload. A task that ended with a result is `completed`,
/// whether or not the result says `isError` (26T-13); a cancelled task is `cancelled`.
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

/// The `CreateTaskResult` of `server`: the task as it is, and no payload (26T-9). `immediate_response`
/// is the text that the model gets meanwhile.
#[must_use]
pub fn created(view: &TaskView, immediate_response: Option<&str>, server: &RawJson) -> RawJson {
    let task = RawJson::of(&TaskWire { result_type: Some("task"), ..TaskWire::of(view, view.status) });
    let immediate = immediate_response
        .map(|text| format!(",\"{IMMEDIATE_RESPONSE}\":{}", RawJson::of(text).as_str()))
        .unwrap_or_default();
    with_member(&task, "_meta", &format!("{{\"{META_SERVER_INFO}\":{}{immediate}}}", server.as_str()))
}

/// The `DetailedTask`: the task, and its payload inside (26T-14). As the result of `tasks/get`, it
/// still gets the additions of every result; as the params of a notification, it does not.
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
            // SHOULD be present for clients that show only the task.
            wire.status_message = wire.status_message.or(Some(&error.message));
            with_member(&RawJson::of(&wire), "error", RawJson::of(&error).as_str())
        }
        Payload::Input(requests) => with_member(&RawJson::of(&wire), "inputRequests", requests.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;
    use serde_json::{Value, json};

    fn view(status: TaskStatus) -> TaskView {
        TaskView {
            id: "786512e2".into(),
            status,
            status_message: None,
            created_at: Timestamp(1_764_066_600_000),
            last_updated_at: Timestamp(1_764_066_601_000),
            ttl_ms: 60_000,
            poll_interval_ms: 1_000,
        }
    }

    const SERVER: &str = r#"{"name":"t","version":"1"}"#;

    /// A task in this state with this payload, as clients see it.
    fn decoded(status: TaskStatus, payload: &Payload<'_>) -> Value {
        detailed(&view(status), payload).decode().expect("JSON")
    }

    /// 26T-8, 26T-9, 26X-3: flat, under the new names, and without a payload.
    #[test]
    fn a_task_is_created_flat_and_without_a_payload() {
        let made = created(&view(TaskStatus::Working), None, &RawJson::trusted(SERVER));
        assert_eq!(
            made.as_str(),
            concat!(
                r#"{"resultType":"task","taskId":"786512e2","status":"working","#,
                r#""createdAt":"2025-11-25T10:30:00.000Z","lastUpdatedAt":"2025-11-25T10:30:01.000Z","#,
                r#""ttlMs":60000,"pollIntervalMs":1000,"#,
                r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"t","version":"1"}}}"#
            )
        );
        let told = TaskView { status_message: Some("a \"b\"".into()), ..view(TaskStatus::InputRequired) };
        let made = created(&told, Some("Wait, \"please\"."), &RawJson::trusted(SERVER));
        let value: Value = made.decode().expect("JSON");
        assert_eq!([&value["status"], &value["statusMessage"]], ["input_required", "a \"b\""]);
        assert_eq!(value["_meta"][IMMEDIATE_RESPONSE], "Wait, \"please\".");
        for name in ["task", "result", "error", "inputRequests", "requestState", "ttl", "pollInterval"] {
            assert!(value.get(name).is_none(), "{name}");
        }
    }

    /// 26T-14, 26X-1: each state with the one payload that it has.
    #[test]
    fn a_task_shows_the_payload_of_its_state() {
        let bare = ["createdAt", "lastUpdatedAt", "pollIntervalMs", "status", "taskId", "ttlMs"];
        for status in [TaskStatus::Working, TaskStatus::Cancelled] {
            let made = decoded(status, &Payload::None);
            assert!(made.as_object().expect("an object").keys().eq(bare), "{made}");
        }
        let result = RawJson::trusted(r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":1}}"#);
        let made = decoded(TaskStatus::Completed, &Payload::Result(&result));
        assert_eq!(made["status"], "completed");
        assert_eq!(made["result"], json!({"resultType": "complete", "content": [], "_meta": {}}));
        assert_eq!(made.get("resultType"), None, "this is not the result yet");
        let requests = RawJson::trusted(r#"{"q":{"method":"roots/list","params":{}}}"#);
        let got = decoded(TaskStatus::InputRequired, &Payload::Input(&requests));
        assert_eq!([&got["status"], &got["inputRequests"]["q"]["method"]], ["input_required", "roots/list"]);
    }

    /// 26T-14, 26J-7: the error as this generation shows it, and its message as the status message of a
    /// task that has none.
    #[test]
    fn a_failed_task_shows_its_error() {
        let error = RpcError::new(-32001, "worker lost").with_data(&json!({"a": 1}));
        let made = decoded(TaskStatus::Failed, &Payload::Error(&error));
        assert_eq!([&made["status"], &made["statusMessage"]], ["failed", "worker lost"]);
        let data = json!({"guestCode": -32001, "guestData": {"a": 1}});
        assert_eq!(made["error"], json!({"code": -32603, "message": "worker lost", "data": data}));
        let told = TaskView { status_message: Some("at 90 %".into()), ..view(TaskStatus::Failed) };
        let made: Value = detailed(&told, &Payload::Error(&error)).decode().expect("JSON");
        assert_eq!(made["statusMessage"], "at 90 %");
    }

    /// 26T-12, 26T-13: a task that is `failed` in the other generation because its result says `isError` is
    /// `completed` here; other failed tasks stay `failed`, and cancelled ones `cancelled`.
    #[test]
    fn a_task_with_a_result_is_completed_even_if_the_result_is_an_error() {
        let result = RawJson::trusted(r#"{"content":[],"isError":true}"#);
        let error = RpcError::internal("x");
        for (stored, payload, expected) in [
            (TaskStatus::Failed, Payload::Result(&result), TaskStatus::Completed),
            (TaskStatus::Completed, Payload::Result(&result), TaskStatus::Completed),
            (TaskStatus::Failed, Payload::Error(&error), TaskStatus::Failed),
            (TaskStatus::Cancelled, Payload::Error(&error), TaskStatus::Cancelled),
            (TaskStatus::Working, Payload::None, TaskStatus::Working),
        ] {
            assert_eq!(status(stored, &payload), expected);
        }
        let made = decoded(TaskStatus::Failed, &Payload::Result(&result));
        assert_eq!((&made["status"], &made["result"]["isError"]), (&json!("completed"), &json!(true)));
        assert_eq!(decoded(TaskStatus::Cancelled, &Payload::Result(&result)).get("result"), None);
    }
}
