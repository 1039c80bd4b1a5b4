//! Components that do not implement the plugin contract: each ordinary function that they export
//! becomes a tool.
//!
//! `shape` describes types, `export` finds the functions, `schema` turns types into JSON Schema,
//! `read` reads arguments, `write` writes results, and `docs` reads a component's `package-docs`
//! section. Driving a run and the manifest's settings for a tool do not belong here.
//!
//! Values have these forms in JSON:
//!
//! | WIT | JSON |
//! | --- | --- |
//! | `bool`, `string`, `char` | boolean, string, string of one character |
//! | `s8` to `u32` | integer |
//! | `s64`, `u64` | integer; beyond ±(2^53 − 1) a string of digits without leading zeros; either is taken |
//! | `f32`, `f64` | number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `list<u8>` | string, base64; an array of integers is taken as well |
//! | `list<T>`, `list<T, N>`, `tuple` | array |
//! | `map<string, V>`; other maps | object; array of pairs |
//! | `record` | object; fields of `option` type may be left out |
//! | `option<T>` | `null` or T; where T itself may be `null`, `{"some": T}` |
//! | `enum` | string |
//! | `flags` | array of strings |
//! | `variant` | `"case"`, or `{"case": payload}` |
//! | `result` within a value | as a variant with the cases `ok` and `err` |

mod argument;
mod docs;
mod export;
mod read;
mod schema;
mod shape;
mod write;

pub(crate) use export::Functions;

use crate::bindings::toolyard::plugin::types::ToolResult;
use crate::convert::encode;
use crate::limits::failure::Failure;
use shape::{Field, Shape};
use toolyard_task::ArgumentValue;
use toolyard_task::wire::RawJson;
use wasmtime::component::{ComponentExportIndex, Val};

/// The largest integer that every JSON reader represents exactly: 2^53 − 1.
const MAX_EXACT: u64 = (1 << 53) - 1;
/// The member that holds a result which is not an object.
const RESULT: &str = "result";

/// An exported function.
#[derive(Debug)]
pub(crate) struct Function {
    pub index: ComponentExportIndex,
    pub params: Vec<Field>,
    pub result: Option<Shape>,
}

impl Function {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// The argument that does not fit, and its path.
    pub fn arguments(&self, arguments: &RawJson) -> Result<Vec<Val>, String> {
        read::fields(&self.params, arguments.as_str())
    }

    /// The arguments of a call as the function receives them, in one form for each value. `None` if
    /// they do not fit.
    pub fn seen_arguments(&self, arguments: &RawJson) -> Option<ArgumentValue<'static>> {
        argument::of_fields(&self.params, &self.arguments(arguments).ok()?)
    }

    /// Converts the function's return value into a tool result; an `err` is a failure of the tool.
    pub fn result(&self, returned: Option<&Val>, limit: u64) -> Result<ToolResult, Failure> {
        let (shape, value) = match (&self.result, returned) {
            (None, _) => return Ok(success(String::new(), None)),
            (Some(Shape::Result(cases)), Some(Val::Result(outcome))) => match outcome {
                Ok(value) => (cases[0].payload.as_ref(), value.as_deref()),
                Err(value) => return failure(cases[1].payload.as_ref(), value.as_deref(), limit),
            },
            (Some(shape), value) => (Some(shape), value),
        };
        match (shape, value) {
            (None, None) => Ok(success(String::new(), None)),
            (Some(shape), Some(value)) => {
                let json = write::json(shape, value, limit)?;
                let structured = if shape.is_object() { json } else { format!("{{\"{RESULT}\":{json}}}") };
                // For other values the encoder adds their JSON text.
                let text = if let Val::String(text) = value { text.clone() } else { String::new() };
                Ok(success(text, Some(structured)))
            }
            _ => Err(write::mismatch()),
        }
    }

    /// The type of a successful result.
    fn success(&self) -> Option<&Shape> {
        match &self.result {
            Some(Shape::Result(cases)) => cases[0].payload.as_ref(),
            other => other.as_ref(),
        }
    }
}

fn success(text: String, structured_content: Option<String>) -> ToolResult {
    let content = if text.is_empty() { Vec::new() } else { vec![encode::text(text)] };
    ToolResult { content, structured_content, is_error: false, meta: None }
}

fn failure(shape: Option<&Shape>, value: Option<&Val>, limit: u64) -> Result<ToolResult, Failure> {
    let text = match (shape, value) {
        (_, Some(Val::String(text))) => text.clone(),
        (Some(shape), Some(value)) => write::json(shape, value, limit)?,
        _ => "The tool failed and says no more.".to_owned(),
    };
    Ok(ToolResult { content: vec![encode::text(text)], structured_content: None, is_error: true, meta: None })
}

#[cfg(test)]
mod tests;
