//! What the tool says of itself.

use contract::Tool;
use contract::declaration::{object, tool};
use serde_json::json;

/// The name of the tool.
pub const NAME: &str = "jq";

const MOST_OUTPUTS: usize = 100_000;

/// The limit on outputs where the call gives none.
pub fn default_limit() -> usize {
    1_000
}

/// The tool.
pub fn jq() -> Tool {
    let input = object(
        json!({
            "program": {
                "type": "string",
                "description": "The jq program, for example `.items[] | {name, total: (.price * .count)}`.",
            },
            "input": { "description": "The JSON value that the program runs over; any type." },
            "raw": {
                "type": "boolean",
                "default": false,
                "description": "Show outputs that are strings as they are in the text, without quotes. \
                                The structured result is the same either way.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_OUTPUTS,
                "default": default_limit(),
                "description": "Stop after so many outputs.",
            },
            "variables": {
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
                "default": {},
                "description": "Values that the program finds under their names: \
                                {\"year\": 2026} is $year.",
            },
        }),
        &["program", "input"],
    );
    let output = object(
        json!({
            "outputs": { "type": "array", "items": {}, "description": "The outputs, in order." },
            "truncated": {
                "type": "boolean",
                "description": "Whether there were more outputs than the limits let through.",
            },
            "error": {
                "type": "string",
                "description": "Why the program failed after these outputs; absent if it did not.",
            },
        }),
        &["outputs", "truncated"],
    );
    Tool {
        output_schema: Some(output.to_string()),
        ..tool(
            NAME,
            "jq",
            "Runs a jq program over a JSON value: select, reshape, count, group, sort. Gives every output on a \
             line of its own, and all of them as a structured result. Nothing but the value and the given \
             variables is there to read: no files, no environment, no modules.",
            input,
        )
    }
}
