wit_bindgen::generate!({ path: "wit", world: "tools-plugin" });

use exports::toolyard::plugin::tools::Guest;
use toolyard::plugin::host;
use toolyard::plugin::types::{CallError, Content, TaskSupport, TextBlock, Tool, ToolResult};

struct Greeter;

impl Guest for Greeter {
    fn list_tools() -> Vec<Tool> {
        vec![Tool {
            name: "greet".into(),
            title: Some("Greet".into()),
            description: Some("Greets a person by name, slowly enough to watch.".into()),
            icons: "[]".into(),
            input_schema: r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#.into(),
            output_schema: None,
            annotations: r#"{"readOnlyHint":true}"#.into(),
            task_support: TaskSupport::Optional, // a call may become a task; the contract has no default
            meta: None,
        }]
    }

    fn call(_tool: String, arguments: String) -> Result<ToolResult, CallError> {
        // The host has checked the arguments against the schema.
        let arguments: serde_json::Value = serde_json::from_str(&arguments).unwrap_or_default();
        let name = arguments["name"].as_str().unwrap_or("nobody");
        for step in 1..=3 {
            host::progress(f64::from(step), Some(3.0), Some("thinking of something nice"));
            host::sleep(100); // milliseconds; costs no thread
        }
        let text = TextBlock { text: format!("Hello, {name}!"), annotations: None, meta: None };
        Ok(ToolResult { content: vec![Content::Text(text)], structured_content: None, is_error: false, meta: None })
    }
}

export!(Greeter);
