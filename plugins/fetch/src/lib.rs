//! The tool `fetch`: a page of the web as Markdown, text or as it is.
//!
//! `journey` follows redirects, `exchange` is one request over `wasi:http`, `page` finds
//! out what came and makes text of it, `rendering` makes the result.

mod declaration;
mod exchange;
mod fault;
mod journey;
mod page;
mod rendering;

use std::collections::BTreeMap;

use contract::{CallError, Guest, Tool, ToolResult, arguments, host, result};
use serde::Deserialize;

use crate::exchange::Timer;
use crate::fault::Fault;
use crate::journey::Arrived;
use crate::page::Format;

/// The arguments of `fetch`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    url: String,
    #[serde(default)]
    format: Format,
    #[serde(default = "declaration::default_bytes")]
    max_bytes: usize,
    #[serde(default = "declaration::default_timeout")]
    timeout_ms: u64,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

struct Fetch;

impl Guest for Fetch {
    fn list_tools() -> Vec<Tool> {
        vec![declaration::fetch()]
    }

    fn call(name: String, arguments: String) -> Result<ToolResult, CallError> {
        if name != declaration::NAME {
            return Err(arguments::unknown_tool(&name));
        }
        let given: Arguments = arguments::read(&arguments)?;
        let fetched = fetch(&given).and_then(|arrived| rendering::render(&given.url, &arrived, given.format));
        Ok(fetched.unwrap_or_else(|fault| result::failure(fault.to_string())))
    }
}

fn fetch(given: &Arguments) -> Result<Arrived, Fault> {
    let timer = Timer::start(given.timeout_ms);
    journey::travel(&given.url, &given.headers, |url, headers| {
        exchange::get(url, headers, given.max_bytes, &timer, &mut |bytes, total| {
            host::progress(bytes as f64, total.map(|total| total as f64), None);
            host::cancelled()
        })
    })
}

contract::export!(Fetch with_types_in contract::bindings);
