//! The schema and the definition for a message without a session.

use crate::schema::Schema;
use serde_json::Value;

/// The schema of a definition.
#[derive(Clone, Copy)]
enum From {
    Core,
    Tasks,
}

/// A definition.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    /// Its name.
    pub name: &'static str,
    from: From,
}

impl Definition {
    /// The problems of `value` as an instance of this definition.
    pub fn problems(self, schema: &Schema, value: &Value) -> Vec<String> {
        match self.from {
            From::Core => schema.stateless.problems(self.name, value),
            From::Tasks => schema.tasks.problems(self.name, value),
        }
    }
}

const fn core(name: &'static str) -> Definition {
    Definition { name, from: From::Core }
}

const fn tasks(name: &'static str) -> Definition {
    Definition { name, from: From::Tasks }
}

/// The definition of a notification that a server may send.
pub(super) fn of_notification(method: &str) -> Option<Definition> {
    Some(match method {
        "notifications/progress" => core("ProgressNotification"),
        "notifications/message" => core("LoggingMessageNotification"),
        "notifications/subscriptions/acknowledged" => core("SubscriptionsAcknowledgedNotification"),
        "notifications/tools/list_changed" => core("ToolListChangedNotification"),
        "notifications/prompts/list_changed" => core("PromptListChangedNotification"),
        "notifications/resources/list_changed" => core("ResourceListChangedNotification"),
        "notifications/resources/updated" => core("ResourceUpdatedNotification"),
        "notifications/tasks" => tasks("TaskStatusNotification"),
        _ => return None,
    })
}

/// The definition for this result of a request of this method (26J-4).
pub(super) fn of_result(method: &str, result: &Value) -> Option<Definition> {
    Some(match (result["resultType"].as_str()?, method) {
        // 26M-1: for no other method.
        ("input_required", "tools/call" | "prompts/get" | "resources/read") => core("InputRequiredResult"),
        // 26T-9: for no other method.
        ("task", "tools/call") => tasks("CreateTaskResult"),
        ("complete", "server/discover") => core("DiscoverResult"),
        ("complete", "tools/list") => core("ListToolsResult"),
        ("complete", "tools/call") => core("CallToolResult"),
        ("complete", "resources/list") => core("ListResourcesResult"),
        ("complete", "resources/templates/list") => core("ListResourceTemplatesResult"),
        ("complete", "resources/read") => core("ReadResourceResult"),
        ("complete", "prompts/list") => core("ListPromptsResult"),
        ("complete", "prompts/get") => core("GetPromptResult"),
        ("complete", "completion/complete") => core("CompleteResult"),
        ("complete", "subscriptions/listen") => core("SubscriptionsListenResult"),
        ("complete", "tasks/get") => tasks("GetTaskResult"),
        ("complete", "tasks/update") => tasks("UpdateTaskResult"),
        ("complete", "tasks/cancel") => tasks("CancelTaskResult"),
        _ => return None,
    })
}
