//! Tools for the scenarios of 2025-11-25, which ask the client during the call.

use fixtures::{arguments, result};
use serde_json::{Value, json};
use toolyard_plugin::raw::{CallError, Tool, ToolResult};

use crate::questions::{self, Asking, form, sampled, sampling};
use crate::tools::{none, plain};

/// The tools.
pub fn list() -> Vec<Tool> {
    let text = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    vec![
        plain("test_sampling", "Asks the client's model.", text("prompt")),
        plain("test_elicitation", "Asks the user for a name and an address.", text("message")),
        plain("test_elicitation_sep1034_defaults", "Asks the user with defaults of each type.", none()),
        plain("test_elicitation_sep1330_enums", "Asks the user with each kind of choice.", none()),
    ]
}

/// Calls one of them.
pub fn call(name: &str, given: &str) -> Option<Result<ToolResult, CallError>> {
    let given: Value = match arguments::read(given) {
        Ok(given) => given,
        Err(error) => return Some(Err(error)),
    };
    let text = |name: &str| given[name].as_str().unwrap_or_default();
    let elicited = "Elicitation completed";
    let done = match name {
        "test_sampling" => sample(text("prompt")),
        "test_elicitation" => elicit("User response", text("message"), person(), &["username", "email"]),
        "test_elicitation_sep1034_defaults" => {
            elicit(elicited, "Please check the defaults.", defaults(), &[])
        }
        "test_elicitation_sep1330_enums" => elicit(elicited, "Please choose.", choices(), &[]),
        _ => return None,
    };
    Some(done.map(result::text).or_else(Asking::end))
}

fn sample(prompt: &str) -> Result<String, Asking> {
    let [answer] = questions::ask([sampling("question", prompt, 100)])?;
    Ok(format!("LLM response: {}", sampled(&answer)))
}

fn elicit(words: &str, message: &str, properties: Value, required: &[&str]) -> Result<String, Asking> {
    let [answer] = questions::ask([form("question", message, properties, required)])?;
    let action = answer["action"].as_str().unwrap_or("(none)");
    let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
    Ok(format!("{words}: action={action}, content={content}"))
}

fn person() -> Value {
    json!({
        "username": { "type": "string", "description": "The user's response" },
        "email": { "type": "string", "description": "The user's email address" },
    })
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "description": "User name", "default": "John Doe" },
        "age": { "type": "integer", "description": "User age", "default": 30 },
        "score": { "type": "number", "description": "User score", "default": 95.5 },
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "description": "Verification status", "default": true },
    })
}

fn choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = |ordinal: &str| {
        json!([
            { "const": "value1", "title": format!("First {ordinal}") },
            { "const": "value2", "title": format!("Second {ordinal}") },
            { "const": "value3", "title": format!("Third {ordinal}") },
        ])
    };
    json!({
        "untitledSingle": { "type": "string", "description": "Choose one", "enum": options },
        "titledSingle": { "type": "string", "description": "Choose one", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "description": "Choose one",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "description": "Choose several",
            "items": { "type": "string", "enum": options },
        },
        "titledMulti": {
            "type": "array",
            "description": "Choose several",
            "items": { "anyOf": titled("Choice") },
        },
    })
}
