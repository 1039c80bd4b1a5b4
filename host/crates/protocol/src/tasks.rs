//! Tasks as 2025-11-25 shows them (T-9, T-12, T-22, T-30).

use crate::error::RpcError;
use crate::raw::RawJson;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// The `_meta` key of the text that the model gets meanwhile (T-15).
pub(crate) const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";

/// The states of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Under way, or waiting for its turn.
    Working,
    /// Waits for answers.
    InputRequired,
    /// Ended successfully.
    Completed,
    /// Ended with an error, or with a result that says `isError` (T-18).
    Failed,
    /// Cancelled.
    Cancelled,
}

impl TaskStatus {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == name)
    }

    /// Whether it is final (T-17).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task, flat, as every answer but the creation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// The id of the task.
    pub id: String,
    /// The state of the task.
    pub status: TaskStatus,
    /// The status message of the guest or the host.
    pub status_message: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub last_updated_at: Timestamp,
    /// How long it lives, in milliseconds from its creation (T-13).
    pub ttl_ms: u64,
    /// How often to ask, in milliseconds.
    pub poll_interval_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire<'a> {
    task_id: &'a str,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: String,
    last_updated_at: String,
    ttl: u64,
    poll_interval: u64,
}

/// The longest interval that a client is advised to wait because of a task's age, in milliseconds.
const MAX_ADVISED_MS: u64 = 30_000;

impl TaskView {
    /// The same, with advice for a client that asks at this time: about a task that is older than a minute, once in a
    /// sixtieth of its age.
    #[must_use]
    pub fn advised_at(self, now: Timestamp) -> Self {
        let by_age = (now.since(self.created_at) / 60).min(MAX_ADVISED_MS);
        Self { poll_interval_ms: self.poll_interval_ms.max(by_age), ..self }
    }

    /// The flat `Task` object.
    #[must_use]
    pub fn render(&self) -> RawJson {
        RawJson::of(&TaskWire {
            task_id: &self.id,
            status: self.status,
            status_message: self.status_message.as_deref(),
            created_at: self.created_at.to_string(),
            last_updated_at: self.last_updated_at.to_string(),
            ttl: self.ttl_ms,
            poll_interval: self.poll_interval_ms,
        })
    }
}

/// The `CreateTaskResult` around a rendered task (T-9, T-15).
#[must_use]
pub fn create_result(task: &RawJson, immediate_response: Option<&str>) -> RawJson {
    let meta = immediate_response
        .map(|text| format!(",\"_meta\":{{\"{IMMEDIATE_RESPONSE}\":{}}}", RawJson::of(text).as_str()))
        .unwrap_or_default();
    RawJson::trusted(format!("{{\"task\":{}{meta}}}", task.as_str()))
}

/// The `taskId` of the params of `tasks/get`, `tasks/result` and `tasks/cancel`.
///
/// # Errors
/// `-32602` if it is missing or not a string (T-23).
pub fn task_id(params: Option<&RawJson>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "taskId")]
        task_id: String,
    }
    params
        .and_then(|params| params.decode::<Wire>().ok())
        .map(|wire| wire.task_id)
        .ok_or_else(|| RpcError::invalid_params("`taskId` is required and must be a string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> TaskView {
        TaskView {
            id: "786512e2-9e0d-44bd-8f29-789f320fe840".into(),
            status: TaskStatus::InputRequired,
            status_message: None,
            created_at: Timestamp(1_764_066_600_000),
            last_updated_at: Timestamp(1_764_066_601_000),
            ttl_ms: 60_000,
            poll_interval_ms: 1_000,
        }
    }

    #[test]
    fn older_tasks_are_asked_about_less_often() {
        for (age_s, advised) in [(-5, 1_000), (59, 1_000), (300, 5_000), (1_800, 30_000), (86_400, 30_000)] {
            let now = Timestamp(view().created_at.0 + age_s * 1_000);
            assert_eq!(view().advised_at(now).poll_interval_ms, advised, "{age_s} s");
        }
    }

    /// X-7: the `ttl` is always there.
    #[test]
    fn t_12_a_task_shows_all_that_is_required_and_omits_what_it_lacks() {
        assert_eq!(
            view().render().as_str(),
            concat!(
                r#"{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840","status":"input_required","#,
                r#""createdAt":"2025-11-25T10:30:00.000Z","lastUpdatedAt":"2025-11-25T10:30:01.000Z","#,
                r#""ttl":60000,"pollInterval":1000}"#
            )
        );
        assert_eq!(create_result(&RawJson::trusted("{}"), None).as_str(), r#"{"task":{}}"#);
        assert_eq!(
            create_result(&RawJson::trusted("{}"), Some("a \"b\"")).as_str(),
            r#"{"task":{},"_meta":{"io.modelcontextprotocol/model-immediate-response":"a \"b\""}}"#
        );
    }

    #[test]
    fn t_23_a_task_id_is_required_and_a_string() {
        for params in ["{}", r#"{"taskId":null}"#, r#"{"taskId":5}"#] {
            let error = task_id(Some(&RawJson::trusted(params))).expect_err(params);
            assert_eq!(error.code, -32602);
        }
        assert!(task_id(None).is_err());
        assert_eq!(task_id(Some(&RawJson::trusted(r#"{"taskId":"x"}"#))), Ok("x".into()));
    }
}
