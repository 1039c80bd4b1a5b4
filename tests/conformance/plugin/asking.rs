//! Tools for the scenarios of 2025-11-25, which ask the client during the call.

use fixtures::{arguments, result};
use serde_json::{Value, json};
use toolyard_plugin::raw::{CallError, Question, Tool, ToolResult, host};

use crate::questions::{sampled, why};
use crate::tools::{none, plain};

const ELICITATION: &str = "elicitation/create";

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
    let elicited = "Elicitation completed";
    Some(Ok(match name {
        "test_sampling" => sample(&given["prompt"]),
        "test_elicitation" => elicit("User response", &given["message"], person()),
        "test_elicitation_sep1034_defaults" => {
            elicit(elicited, &json!("Please check the defaults."), defaults())
        }
        "test_elicitation_sep1330_enums" => elicit(elicited, &json!("Please choose."), choices()),
        _ => return None,
    }))
}

fn sample(prompt: &Value) -> ToolResult {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    });
    match ask("sampling/createMessage", &params) {
        Ok(answer) => result::text(format!("LLM response: {}", sampled(&answer))),
        Err(why) => result::failure(why),
    }
}

fn elicit(words: &str, message: &Value, schema: Value) -> ToolResult {
    match ask(ELICITATION, &json!({ "message": message, "requestedSchema": schema })) {
        Ok(answer) => {
            let action = answer["action"].as_str().unwrap_or("(none)");
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            result::text(format!("{words}: action={action}, content={content}"))
        }
        Err(why) => result::failure(why),
    }
}

fn ask(method: &str, params: &Value) -> Result<Value, String> {
    let question =
        Question { key: "question".to_owned(), method: method.to_owned(), params: params.to_string() };
    let answers = host::ask(&[question]).map_err(|error| why(method, &error))?;
    let answer = answers.into_iter().next().ok_or_else(|| format!("{method}: there is no answer"))?;
    let json = answer.outcome.map_err(|error| why(method, &error))?;
    serde_json::from_str(&json).map_err(|error| format!("{method}: the answer cannot be read: {error}"))
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "The user's response" },
            "email": { "type": "string", "description": "The user's email address" },
        },
        "required": ["username", "email"],
    })
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
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
        },
        "required": [],
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
        "type": "object",
        "properties": {
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
        },
        "required": [],
    })
}
