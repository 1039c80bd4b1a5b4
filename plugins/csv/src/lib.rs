//! The tool `csv_profile`: what the columns of a CSV text hold.
//!
//! `dialect` finds out how the text is written, `value` what one field is,
//! `column` gathers a column, `profile` reads the whole, `rendering` makes the
//! result.

mod column;
mod declaration;
mod dialect;
mod numbers;
mod profile;
mod rendering;
mod value;

use contract::{CallError, Guest, Tool, ToolResult, arguments, host, result};
use serde::Deserialize;

use crate::dialect::Dialect;
use crate::profile::{Progress, profile};

/// The arguments of `csv_profile`.
#[derive(Deserialize)]
struct Arguments {
    text: String,
    delimiter: Option<String>,
    header: Option<bool>,
    #[serde(default = "declaration::default_top")]
    top: usize,
}

struct Csv;

impl Guest for Csv {
    fn list_tools() -> Vec<Tool> {
        vec![declaration::csv_profile()]
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        if name != declaration::NAME {
            return Err(arguments::unknown_tool(&name));
        }
        let Arguments { text, delimiter, header, top } = arguments::read(&arguments)?;
        let total = text.len() as f64;
        let profiled = Dialect::settle(&text, delimiter.as_deref(), header).and_then(|dialect| {
            profile(&text, dialect, top, &mut |Progress { bytes, rows }| {
                host::progress(bytes as f64, Some(total), Some(&format!("{rows} rows")));
                host::cancelled()
            })
        });
        Ok(match profiled {
            Ok(profile) => rendering::render(&profile),
            Err(message) => result::failure(message),
        })
    }
}

contract::export!(Csv with_types_in contract::bindings);
