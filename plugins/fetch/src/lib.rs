//! The tool `fetch`: returns a web page as Markdown, as text or unchanged.
//!
//! `journey` follows redirects, `exchange` sends one request, `page` detects the type and
//! converts the page to text, and `rendering` makes the result.

mod exchange;
mod fault;
mod journey;
mod page;
mod rendering;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_plugin::{Error, Tool, ToolResult, cancelled, plugin, progress};

use crate::exchange::Timer;
use crate::page::Format;
use crate::rendering::Fetched;

const MOST_BYTES: usize = 4 << 20;
const MOST_TIMEOUT: u64 = 110_000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The URL of the page, with http or https.
    #[schemars(url)]
    url: String,
    /// How an HTML page is returned.
    #[serde(default)]
    format: Format,
    /// The most bytes to read.
    #[serde(default = "default_bytes")]
    #[schemars(range(min = 1, max = MOST_BYTES))]
    max_bytes: usize,
    /// In milliseconds, with redirects.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = MOST_TIMEOUT))]
    timeout_ms: u64,
    /// Headers of the request, such as Accept-Language.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 32))]
    headers: BTreeMap<String, String>,
}

fn default_bytes() -> usize {
    512 << 10
}

/// In milliseconds.
fn default_timeout() -> u64 {
    30_000
}

fn fetch(given: Arguments) -> Result<ToolResult<Fetched>, Error> {
    let timer = Timer::start(given.timeout_ms);
    let arrived = journey::travel(&given.url, &given.headers, |url, headers| {
        exchange::get(url, headers, given.max_bytes, &timer, &mut |bytes, total| {
            progress(bytes as f64, total.map(|total| total as f64), "");
            cancelled()
        })
    })?;
    Ok(rendering::render(&given.url, &arrived, given.format)?)
}

plugin! {
    tools: [
        Tool::new("fetch", fetch)
            .title("Fetch a page")
            .description(
                "Fetches a web page and returns it as Markdown, as text, or unchanged. Follows redirects. \
                 Only hosts that the manifest grants can be reached.",
            )
            .read_only()
            .open_world(true),
    ]
}
