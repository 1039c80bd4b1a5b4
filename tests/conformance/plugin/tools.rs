//! Tools that answer without questions.

use fixtures::declaration::tool;
use fixtures::result;
use serde_json::{Value, json};
use toolyard_plugin::raw::{CallError, Change, Content, LogLevel, TaskSupport, Tool, ToolResult, host};

use crate::media;

/// The pause between two messages, so that they are sent separately.
const PAUSE_MS: u64 = 50;
/// The time for which a call continues after its stream was released.
const AWAY_MS: u64 = 200;
/// The retry time for the client.
const RETRY_MS: u64 = 100;

/// A schema that must come back unchanged.
const JSON_SCHEMA_2020_12: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"##;

/// A tool that cannot be a task.
pub fn plain(name: &str, description: &str, input: Value) -> Tool {
    Tool { task_support: TaskSupport::Forbidden, ..tool(name, name, description, input) }
}

/// The schema for no arguments.
pub fn none() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// A tool without arguments: its name, its description, and what it does.
type Row = (&'static str, &'static str, fn() -> ToolResult);

const TOOLS: [Row; 12] = [
    ("test_simple_text", "Returns one text.", || result::text("This is a simple text response for testing.")),
    ("test_image_content", "Returns an image.", || of(vec![media::image()])),
    ("test_audio_content", "Returns a sound.", || of(vec![media::audio()])),
    ("test_embedded_resource", "Returns an embedded resource.", || {
        let text = "This is an embedded resource content.";
        of(vec![embedded("test://embedded-resource", "text/plain", text)])
    }),
    ("test_multiple_content_types", "Returns a text, an image and a resource.", || {
        let json = r#"{"test":"data","value":123}"#;
        of(vec![
            result::block("Multiple content types test:"),
            media::image(),
            embedded("test://mixed-content-resource", "application/json", json),
        ])
    }),
    ("test_error_handling", "Fails.", || {
        result::failure("This tool intentionally returns an error for testing")
    }),
    ("test_tool_with_progress", "Reports progress three times.", || {
        with_pauses([0.0, 50.0, 100.0], |progress| host::progress(progress, Some(100.0), None));
        result::text("The progress is complete.")
    }),
    ("test_tool_with_logging", "Logs three messages.", || {
        let messages = ["Tool execution started", "Tool processing data", "Tool execution completed"];
        with_pauses(messages, log);
        result::text("Three messages were logged.")
    }),
    ("test_reconnection", "Lets go of its stream and answers later.", || {
        host::release_stream(RETRY_MS);
        host::sleep(AWAY_MS);
        result::text("The result after the reconnection.")
    }),
    ("test_logging_tool", "Logs a message.", || {
        log("The tool logs a message");
        result::text("A message was logged.")
    }),
    ("test_trigger_tool_change", "Says that the list of tools has changed.", || {
        host::changed(&Change::Tools);
        result::text("The list of tools has changed, it says.")
    }),
    ("test_trigger_prompt_change", "Says that the list of prompts has changed.", || {
        host::changed(&Change::Prompts);
        result::text("The list of prompts has changed, it says.")
    }),
];

fn with_pauses<T>(steps: [T; 3], run: impl Fn(T)) {
    for (index, step) in steps.into_iter().enumerate() {
        if index > 0 {
            host::sleep(PAUSE_MS);
        }
        run(step);
    }
}

fn log(message: &str) {
    host::log(LogLevel::Info, None, &json!(message).to_string());
}

/// The tools.
pub fn list() -> Vec<Tool> {
    let mut tools: Vec<Tool> =
        TOOLS.iter().map(|(name, description, _)| plain(name, description, none())).collect();
    tools.push(plain("test_parameter_headers", "Has parameters that are headers as well.", mirrored()));
    tools.push(Tool {
        input_schema: JSON_SCHEMA_2020_12.to_owned(),
        ..plain("json_schema_2020_12_tool", "Has an input schema that uses much of JSON Schema.", none())
    });
    tools
}

/// Parameters that clients also send as headers (26XH-1).
fn mirrored() -> Value {
    json!({
        "type": "object",
        "properties": {
            "priority": { "type": "integer", "x-mcp-header": "Priority" },
            "region": { "type": "string", "x-mcp-header": "Region" },
            "urgent": { "type": "boolean", "x-mcp-header": "Urgent" },
        },
    })
}

/// Calls one of them.
pub fn call(name: &str, arguments: &str) -> Option<Result<ToolResult, CallError>> {
    Some(Ok(match name {
        "test_parameter_headers" => result::text(format!("The arguments: {arguments}")),
        "json_schema_2020_12_tool" => result::text("The arguments fit."),
        _ => TOOLS.iter().find(|(known, ..)| *known == name)?.2(),
    }))
}

fn of(content: Vec<Content>) -> ToolResult {
    ToolResult { content, ..result::text("") }
}

/// An embedded resource of text.
pub fn embedded(uri: &str, mime_type: &str, text: &str) -> Content {
    let block = json!({ "resource": { "uri": uri, "mimeType": mime_type, "text": text } });
    Content::EmbeddedResource(block.to_string())
}
