//! The tool `jq`: runs a jq program over a JSON value with `jaq`.
//!
//! `program` compiles, `run` collects the outputs within limits, `json_text` writes them, and `rendering`
//! makes the result.

mod json_text;
mod program;
mod rendering;
mod run;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolyard_plugin::{Error, Tool, ToolResult, cancelled, plugin};

use crate::program::Program;
use crate::rendering::Outputs;

const MOST_OUTPUTS: usize = 100_000;

/// Values stay text until jaq parses them, so numbers keep all their digits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The jq program, for example `.items[] | {name, total: (.price * .count)}`.
    program: String,
    /// The JSON value that it runs over.
    input: Box<RawValue>,
    /// Show strings without quotes.
    #[serde(default)]
    raw: bool,
    /// The most outputs; the program stops after them.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = MOST_OUTPUTS))]
    limit: usize,
    /// Variables of the program: {"year": 2026} defines $year.
    #[serde(default)]
    #[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }))]
    variables: BTreeMap<String, Box<RawValue>>,
}

fn default_limit() -> usize {
    1_000
}

/// The number of outputs between two checks for cancellation.
const OUTPUTS_PER_LOOK: usize = 256;

fn jq(Arguments { program, input, raw, limit, variables }: Arguments) -> Result<ToolResult<Outputs>, Error> {
    let program = Program::compile(&program, variables.keys().map(String::as_str)).map_err(Error::new)?;
    let values = variables.values().map(|json| json.get());
    let outcome = program
        .run(input.get(), values, limit, &mut |outputs| outputs % OUTPUTS_PER_LOOK == 0 && cancelled());
    Ok(rendering::render(outcome, raw)?)
}

plugin! {
    tools: [
        Tool::new("jq", jq)
            .title("jq")
            .description(
                "Runs a jq program over a JSON value: select, reshape, count, group, sort. Gives every output \
                 on a line of its own, and all of them as a structured result. Nothing but the value and the \
                 given variables is there to read: no files, no environment, no modules.",
            )
            .pure(),
    ]
}
