//! The tool `csv_profile`: describes the columns of a CSV text.
//!
//! `dialect` detects the delimiter and header, `value` parses a field, `column` collects the statistics of a
//! column, and `profile` reads the whole text. `rendering` makes the result for people, `described` the
//! structured one.

mod column;
mod described;
mod dialect;
mod numbers;
mod profile;
mod rendering;
mod value;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_plugin::{Error, Tool, ToolResult, cancelled, plugin, progress};

use crate::described::Described;
use crate::dialect::Dialect;
use crate::profile::{Progress, profile};

const MOST_TOP: usize = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The CSV text.
    text: String,
    /// The character between fields; else comma, semicolon, tab or bar, by the first lines.
    #[schemars(length(min = 1, max = 1))]
    delimiter: Option<String>,
    /// Whether the first row names the columns; else yes if its fields are different texts.
    header: Option<bool>,
    /// How many of the most frequent values to show.
    #[serde(default = "default_top")]
    #[schemars(range(min = 0, max = MOST_TOP))]
    top: usize,
}

fn default_top() -> usize {
    5
}

fn csv_profile(
    Arguments { text, delimiter, header, top }: Arguments,
) -> Result<ToolResult<Described>, Error> {
    let total = text.len() as f64;
    let dialect = Dialect::settle(&text, delimiter.as_deref(), header).map_err(Error::new)?;
    let profile = profile(&text, dialect, top, &mut |Progress { bytes, rows }| {
        progress(bytes as f64, total, &format!("{rows} rows"));
        cancelled()
    });
    let profile = profile.map_err(Error::new)?;
    Ok(ToolResult::new().text(rendering::table(&profile)).structured(Described::from(&profile)))
}

plugin! {
    tools: [
        Tool::new("csv_profile", csv_profile)
            .title("CSV profile")
            .description(
                "Describes a CSV text column by column: type (integer, number, boolean, date, text or empty), \
                 missing and distinct values, smallest, largest, mean, standard deviation, quartiles and the \
                 most frequent values; and names rows of the wrong length. Empty fields and NA, N/A, NaN, null \
                 count as missing.",
            )
            .pure(),
    ]
}
