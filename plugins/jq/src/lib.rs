//! The tool `jq`: a jq program over a JSON value, run by `jaq`.
//!
//! `program` compiles, `run` collects the outputs within bounds, `json_text`
//! writes them, `rendering` makes the result.

mod declaration;
mod json_text;
mod program;
mod rendering;
mod run;

use std::collections::BTreeMap;

use contract::{CallError, Guest, Tool, ToolResult, arguments, host, result};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::program::Program;

/// The arguments of `jq`. Values stay text until jaq reads them, so numbers
/// keep all their digits.
#[derive(Deserialize)]
struct Arguments {
    program: String,
    input: Box<RawValue>,
    #[serde(default)]
    raw: bool,
    #[serde(default = "declaration::default_limit")]
    limit: usize,
    #[serde(default)]
    variables: BTreeMap<String, Box<RawValue>>,
}

/// How many outputs go by between two questions whether to stop.
const OUTPUTS_PER_LOOK: usize = 256;

struct Jq;

impl Guest for Jq {
    fn list_tools() -> Vec<Tool> {
        vec![declaration::jq()]
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        if name != declaration::NAME {
            return Err(arguments::unknown_tool(&name));
        }
        let Arguments { program, input, raw, limit, variables } = arguments::read(&arguments)?;
        let variables: Vec<_> = variables.iter().map(|(name, json)| (name.as_str(), json.get())).collect();
        Ok(match Program::compile(&program, variables.iter().map(|(name, _)| *name)) {
            Err(message) => result::failure(message),
            Ok(program) => {
                let values = variables.iter().map(|(_, json)| *json);
                let outcome = program.run(input.get(), values, limit, &mut |outputs| {
                    outputs % OUTPUTS_PER_LOOK == 0 && host::cancelled()
                });
                rendering::render(&outcome, raw)
            }
        })
    }
}

contract::export!(Jq with_types_in contract::bindings);
