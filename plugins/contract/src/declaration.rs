//! Declaring tools and prompts.

use serde_json::{Value, json};

use crate::prompts::{Argument, Prompt};
use crate::{TaskSupport, Tool};

/// A tool that only reads its arguments and computes: no effects, nothing
/// outside touched. What differs is said by struct update:
/// `Tool { task_support: TaskSupport::Required, ..tool(…) }`.
pub fn tool(name: &str, title: &str, description: &str, input_schema: Value) -> Tool {
    Tool {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: Some(description.to_owned()),
        icons: "[]".to_owned(),
        input_schema: input_schema.to_string(),
        output_schema: None,
        annotations: json!({
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        })
        .to_string(),
        task_support: TaskSupport::Optional,
        meta: None,
    }
}

/// The schema of an object that has these properties and no others.
pub fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A prompt.
pub fn prompt(name: &str, title: &str, description: &str, arguments: Vec<Argument>) -> Prompt {
    Prompt {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: Some(description.to_owned()),
        arguments,
        icons: "[]".to_owned(),
        meta: None,
    }
}

/// An argument that must be given.
pub fn argument(name: &str, description: &str) -> Argument {
    Argument { name: name.to_owned(), title: None, description: Some(description.to_owned()), required: true }
}
