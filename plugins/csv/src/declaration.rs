//! What the tool says of itself.

use contract::Tool;
use contract::declaration::{object, tool};
use serde_json::{Value, json};

/// The name of the tool.
pub const NAME: &str = "csv_profile";

const MOST_TOP: usize = 50;

/// How many top values a column shows where the call does not say.
pub fn default_top() -> usize {
    5
}

/// The tool.
pub fn csv_profile() -> Tool {
    let input = object(
        json!({
            "text": { "type": "string", "description": "The CSV text." },
            "delimiter": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1,
                "description": "The character between fields. Absent: comma, semicolon, tab or vertical bar, \
                                whichever parts the first lines best.",
            },
            "header": {
                "type": "boolean",
                "description": "Whether the first row names the columns. Absent: it does if all its fields are \
                                different texts.",
            },
            "top": {
                "type": "integer",
                "minimum": 0,
                "maximum": MOST_TOP,
                "default": default_top(),
                "description": "How many of the most frequent values to show for each column.",
            },
        }),
        &["text"],
    );
    Tool {
        output_schema: Some(output().to_string()),
        ..tool(
            NAME,
            "CSV profile",
            "Describes a CSV text column by column: type (integer, number, boolean, date, text or empty), missing \
             and distinct values, smallest, largest, mean, standard deviation, quartiles and the most frequent \
             values; and names rows of the wrong length. Empty fields and NA, N/A, NaN, null count as missing.",
            input,
        )
    }
}

fn output() -> Value {
    let count = |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let number = |description: &str| json!({ "type": "number", "description": description });
    let extreme = |description: &str| json!({ "type": ["number", "string"], "description": description });
    let column = object(
        json!({
            "name": { "type": "string" },
            "type": { "enum": ["integer", "number", "boolean", "date", "text", "empty"] },
            "missing": count("Fields that are empty or say that there is no value."),
            "distinct": count("Different values, missing ones aside."),
            "distinctIsLowerBound": {
                "type": "boolean",
                "description": "Whether there were too many different values to tell all of them apart; \
                                the top values are then those of the first part.",
            },
            "min": extreme("The smallest number, the earliest date."),
            "max": extreme("The largest number, the latest date."),
            "mean": number("Of a numeric column."),
            "standardDeviation": number("Of the sample, with n - 1; absent below two values."),
            "p25": number("First quartile, interpolated."),
            "p50": number("Median, interpolated."),
            "p75": number("Third quartile, interpolated."),
            "minLength": count("Of a text column, in characters."),
            "maxLength": count("Of a text column, in characters."),
            "top": {
                "type": "array",
                "items": object(json!({ "value": { "type": "string" }, "count": count("How often.") }), &["value", "count"]),
            },
        }),
        &["name", "type", "missing", "distinct", "distinctIsLowerBound", "top"],
    );
    let ragged = object(
        json!({
            "count": count("Rows that have fewer or more fields than there are columns."),
            "examples": {
                "type": "array",
                "items": object(
                    json!({ "line": count("The line it begins on."), "fields": count("How many fields it has.") }),
                    &["line", "fields"],
                ),
            },
        }),
        &["count", "examples"],
    );
    object(
        json!({
            "rows": count("Rows, the header aside."),
            "delimiter": { "type": "string" },
            "header": { "type": "boolean" },
            "columns": { "type": "array", "items": column },
            "ragged": ragged,
        }),
        &["rows", "delimiter", "header", "columns", "ragged"],
    )
}
