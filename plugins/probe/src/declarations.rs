//! What the tools are called, say of themselves and take.

use contract::declaration::{object, tool};
use contract::{TaskSupport, Tool};
use serde_json::{Value, json};

/// A day, which outlasts every limit of a host.
const LONGEST_MS: u64 = 86_400_000;

/// All a 32-bit guest could ever address.
const MOST_MIB: u32 = 4_096;

/// All tools of this plugin.
pub fn tools() -> Vec<Tool> {
    vec![
        Tool {
            task_support: TaskSupport::Forbidden,
            ..tool(
                "echo",
                "Echo",
                "Returns the text it is given. The quickest way to see that the host works.",
                object(json!({ "text": text("The text to return.") }), &["text"]),
            )
        },
        tool(
            "wait",
            "Wait",
            "Sleeps in the host for some milliseconds, which costs neither processor time nor a thread, then says so.",
            object(json!({ "ms": duration("How long to sleep, in milliseconds.") }), &["ms"]),
        ),
        tool(
            "spin",
            "Spin",
            "Computes without pause for some milliseconds, to see a busy tool being limited or cancelled.",
            object(json!({ "ms": duration("How long to compute, in milliseconds.") }), &["ms"]),
        ),
        tool(
            "fail",
            "Fail",
            "Fails the way a tool fails: a result marked as an error, with this message for the model.",
            object(json!({ "message": text("What the failure says.") }), &["message"]),
        ),
        tool(
            "protocol_error",
            "Protocol error",
            "Fails the way a request fails: the reply is a JSON-RPC error with this code and message, and no result.",
            object(
                json!({
                    "code": {
                        "type": "integer",
                        "minimum": i32::MIN,
                        "maximum": i32::MAX,
                        "description": "The JSON-RPC error code, such as -32000.",
                    },
                    "message": text("The message of the error."),
                }),
                &["code", "message"],
            ),
        ),
        tool(
            "count",
            "Count",
            "Counts to a number, sleeping before each step and reporting progress after it.",
            steps(),
        ),
        Tool {
            annotations: asking(),
            ..tool(
                "ask",
                "Ask",
                "Asks the user one question and returns the answer, or says that the user declined, \
                 cancelled or cannot be asked.",
                object(json!({ "question": text("What to ask.") }), &["question"]),
            )
        },
        Tool {
            annotations: asking(),
            ..tool(
                "confirm",
                "Confirm",
                "Becomes a task where the client knows tasks, then asks the user a yes-or-no question and \
                 returns \"yes\", \"no\", \"declined\" or \"cancelled\".",
                object(json!({ "question": text("What to confirm.") }), &["question"]),
            )
        },
        tool(
            "trap",
            "Trap",
            "Crashes, as a tool with a bug would, to see that nothing else is harmed.",
            object(json!({}), &[]),
        ),
        tool(
            "grow",
            "Grow",
            "Takes and touches so much memory, to see the memory limit at work.",
            object(json!({ "mib": size("How much memory to take, in MiB.") }), &["mib"]),
        ),
        tool(
            "flood",
            "Flood",
            "Returns so much text, to see the limit on output at work.",
            object(json!({ "mib": size("How much text to return, in MiB.") }), &["mib"]),
        ),
        Tool {
            task_support: TaskSupport::Required,
            ..tool("batch", "Batch", "Counts as `count` does, but only ever as a task.", steps())
        },
    ]
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn duration(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": LONGEST_MS, "description": description })
}

fn size(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": MOST_MIB, "description": description })
}

fn steps() -> Value {
    object(
        json!({
            "steps": {
                "type": "integer",
                "minimum": 0,
                "maximum": 1_000_000,
                "description": "How far to count.",
            },
            "ms": duration("How long to sleep before each step, in milliseconds."),
        }),
        &["steps", "ms"],
    )
}

/// The user is a world outside, and may answer otherwise the next time.
fn asking() -> String {
    json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_and_task_support_are_a_contract() {
        use TaskSupport::{Forbidden, Optional, Required};
        let listed: Vec<_> = tools().into_iter().map(|tool| (tool.name, tool.task_support)).collect();
        let expected = [
            ("echo", Forbidden),
            ("wait", Optional),
            ("spin", Optional),
            ("fail", Optional),
            ("protocol_error", Optional),
            ("count", Optional),
            ("ask", Optional),
            ("confirm", Optional),
            ("trap", Optional),
            ("grow", Optional),
            ("flood", Optional),
            ("batch", Required),
        ];
        assert_eq!(listed, expected.map(|(name, support)| (name.to_owned(), support)));
    }

    #[test]
    fn schemas_are_closed_objects_that_explain_each_property() {
        for tool in tools() {
            let schema: Value = serde_json::from_str(&tool.input_schema).expect("the schema is JSON");
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let properties = schema["properties"].as_object().expect("properties");
            let required = schema["required"].as_array().expect("required");
            assert_eq!(properties.len(), required.len(), "{}", tool.name);
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}.{name}", tool.name);
            }
        }
    }
}
