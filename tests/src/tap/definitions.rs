//! The schema definition for a message: by its method, or by the method of the request that it answers. Never
//! by a union: `CreateTaskResult` is in none.

/// The definition of a request that a server may send.
pub(super) fn of_request(method: &str) -> Option<&'static str> {
    Some(match method {
        "ping" => "PingRequest",
        "elicitation/create" => "ElicitRequest",
        "sampling/createMessage" => "CreateMessageRequest",
        "roots/list" => "ListRootsRequest",
        "tasks/get" => "GetTaskRequest",
        "tasks/result" => "GetTaskPayloadRequest",
        "tasks/list" => "ListTasksRequest",
        "tasks/cancel" => "CancelTaskRequest",
        _ => return None,
    })
}

/// The definition of a notification that a server may send.
pub(super) fn of_notification(method: &str) -> Option<&'static str> {
    Some(match method {
        "notifications/cancelled" => "CancelledNotification",
        "notifications/progress" => "ProgressNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/tasks/status" => "TaskStatusNotification",
        "notifications/elicitation/complete" => "ElicitationCompleteNotification",
        _ => return None,
    })
}

/// The definition of the result of a client's request, which may be for a task.
pub(super) fn of_result(method: &str, augmented: bool) -> Option<&'static str> {
    Some(match method {
        "initialize" => "InitializeResult",
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => "EmptyResult",
        "tools/list" => "ListToolsResult",
        // Nothing else, even if the work has already ended (T-9, T-14).
        "tools/call" if augmented => "CreateTaskResult",
        // All tasks here come from `tools/call` (T-25).
        "tools/call" | "tasks/result" => "CallToolResult",
        "tasks/get" => "GetTaskResult",
        "tasks/list" => "ListTasksResult",
        "tasks/cancel" => "CancelTaskResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        _ => return None,
    })
}
