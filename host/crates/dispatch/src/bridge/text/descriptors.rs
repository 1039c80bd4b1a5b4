//! The host tools as `tools/list` shows them.

use super::{ListFilter, ToolNames};
use serde_json::{Value, json};
use toolyard_protocol::tools::ToolDescription;
use toolyard_protocol::{RawJson, Revision};

/// The names of the host tools without prefix.
pub(crate) const WAIT: &str = "task_wait";
pub(crate) const LIST: &str = "task_list";
pub(crate) const CANCEL: &str = "task_cancel";
pub(crate) const ANSWER: &str = "task_answer";

/// The names of the tools of a search.
pub(crate) const SEARCH: &str = "tool_search";
pub(crate) const CALL: &str = "tool_call";

/// The tools of a search under these names, as a list shows them.
pub(crate) fn search_tools(search: &str, call: &str) -> Vec<RawJson> {
    let tools = [
        tool(
            search,
            &format!(
                "Finds tools of this server by words of their names and descriptions, and returns their definitions. \
                 Use it before {call}."
            ),
            json!({"query": {"type": "string", "description": "Words, such as: csv columns."}}),
            &["query"],
            Some(json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false})),
        ),
        tool(
            call,
            &format!("Calls a tool that {search} found."),
            json!({
                "name": {"type": "string", "description": "The name of the tool."},
                "arguments": {"type": "object", "description": "Its arguments, by its inputSchema."},
            }),
            &["name"],
            None,
        ),
    ];
    tools.iter().map(|tool| tool.render(Revision::LATEST, false)).collect()
}

/// The host tools under these names. `max_wait_seconds` is the longest that one `task_wait` may
/// wait. `task_answer` is among them if it has a name.
pub(crate) fn host_tools(names: &ToolNames, max_wait_seconds: u64) -> Vec<ToolDescription> {
    let task_id = json!({"type": "string", "description": "The id of the task, as the hand-off gave it."});
    let mut tools = vec![
        tool(
            &names.wait,
            "Waits for a background task of this server and returns its result. Use it when a tool said that it \
             continues as a task. If it answers that the task is still running, call it again.",
            json!({
                "task_id": {
                    "type": "string",
                    "description": "The id of the task. Without it: your only task that has not ended.",
                },
                "seconds": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": max_wait_seconds,
                    "default": max_wait_seconds,
                    "description": "The longest time to wait. 0 only looks.",
                },
            }),
            &[],
            Some(json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false})),
        ),
        tool(
            &names.list,
            "Lists background tasks of this server: id, tool, state, since when. Use it when you lost a task_id, or \
             to see whether work is still running before you start it again.",
            json!({
                "status": {
                    "type": "string",
                    "enum": ListFilter::ALL.map(ListFilter::as_str),
                    "default": ListFilter::default().as_str(),
                    "description": "live: not ended; done: ended.",
                },
            }),
            &[],
            Some(json!({"readOnlyHint": true})),
        ),
        tool(
            &names.cancel,
            "Stops a background task of this server. It does not undo what the task has already done.",
            json!({"task_id": task_id}),
            &["task_id"],
            Some(json!({"destructiveHint": true, "idempotentHint": true})),
        ),
    ];
    if let Some(answer) = &names.answer {
        tools.push(tool(
            answer,
            "Passes on the user's answer to a question that a background task is waiting with. Ask the user first; \
             never answer for them.",
            json!({
                "task_id": task_id,
                "key": {"type": "string", "description": "The key of the question."},
                "action": {
                    "type": "string",
                    "enum": ["accept", "decline", "cancel"],
                    "description": "accept: the user answers; decline: the user refuses; cancel: the user does neither.",
                },
                "content": {"type": "object", "description": "The fields of the form, with accept."},
            }),
            &["task_id", "key", "action"],
            None,
        ));
    }
    tools
}

fn tool(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
    annotations: Option<Value>,
) -> ToolDescription {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    ToolDescription {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        icons: None,
        input_schema: RawJson::of(&schema),
        output_schema: None,
        annotations: annotations.map(|annotations| RawJson::of(&annotations)),
        execution: None,
        meta: None,
    }
}
