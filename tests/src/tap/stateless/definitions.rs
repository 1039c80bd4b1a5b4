//! The schema and the definition for a message without a session.

use crate::schema::{Definitions, Schema};
use serde_json::Value;

/// A definition, and the schema that has it.
pub(super) struct Definition<'a> {
    schema: &'a Definitions,
    /// Its name.
    pub name: String,
}

impl<'a> Definition<'a> {
    fn new(schema: &'a Definitions, name: &str) -> Self {
        Self { schema, name: name.to_owned() }
    }

    /// The problems of `value` as an instance of this definition.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        self.schema.problems(&self.name, value)
    }
}

/// The definition of a notification that a server may send.
pub(super) fn of_notification<'a>(schema: &'a Schema, method: &str) -> Option<Definition<'a>> {
    Some(match method {
        "notifications/tasks" => Definition::new(&schema.tasks, "TaskStatusNotification"),
        _ => Definition::new(&schema.stateless, schema.stateless.of_method("ServerNotification", method)?),
    })
}

/// The definition for this result of a request of this method (26J-4).
pub(super) fn of_result<'a>(schema: &'a Schema, method: &str, result: &Value) -> Option<Definition<'a>> {
    let Schema { stateless, tasks, .. } = schema;
    Some(match (result["resultType"].as_str()?, method) {
        // 26M-1: for no other method.
        ("input_required", "tools/call" | "prompts/get" | "resources/read") => {
            Definition::new(stateless, "InputRequiredResult")
        }
        // 26T-9: for no other method.
        ("task", "tools/call") => Definition::new(tasks, "CreateTaskResult"),
        ("complete", "tasks/get") => Definition::new(tasks, "GetTaskResult"),
        ("complete", "tasks/update") => Definition::new(tasks, "UpdateTaskResult"),
        ("complete", "tasks/cancel") => Definition::new(tasks, "CancelTaskResult"),
        ("complete", _) => Definition::new(stateless, &stateless.of_result(method)?),
        _ => return None,
    })
}
