//! The structured result.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::column::{Kind, Summary};
use crate::numbers::Figures;
use crate::profile::Profile;

/// A profile in the structured result.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Described {
    /// The number of rows without the header.
    rows: u64,
    delimiter: char,
    header: bool,
    columns: Vec<Column>,
    ragged: Ragged,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["integer", "number", "boolean", "date", "text", "empty"]))]
    kind: &'static str,
    /// The number of fields that are empty or mark a missing value.
    missing: u64,
    /// The number of different values, without missing ones.
    distinct: usize,
    /// Whether the column has more different values than are counted exactly. The top values then come from
    /// the first part of the column.
    distinct_is_lower_bound: bool,
    #[serde(flatten)]
    figures: OfKind,
    top: Vec<Top>,
}

// The members of a column depend on its type.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OfKind {
    /// The smallest number or the earliest date.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Extreme>,
    /// The largest number or the latest date.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Extreme>,
    /// The mean of a numeric column.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Number>,
    /// The sample standard deviation (n - 1); absent for fewer than two values.
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_deviation: Option<Number>,
    /// The first quartile, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p25: Option<Number>,
    /// The median, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<Number>,
    /// The third quartile, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p75: Option<Number>,
    /// The length of the shortest value of a text column, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_length: Option<usize>,
    /// The length of the longest value of a text column, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_length: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Extreme {
    Number(Number),
    Date(String),
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Top {
    value: String,
    /// How often the value occurs.
    count: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Ragged {
    /// The number of rows with fewer or more fields than there are columns.
    count: u64,
    examples: Vec<RaggedRow>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RaggedRow {
    /// The line on which the row begins.
    line: u64,
    /// The number of fields in the row.
    fields: usize,
}

impl From<&Profile> for Described {
    fn from(profile: &Profile) -> Self {
        let examples = profile.ragged.examples.iter().map(|&(line, fields)| RaggedRow { line, fields });
        Self {
            rows: profile.rows,
            delimiter: char::from(profile.dialect.delimiter),
            header: profile.dialect.header,
            columns: profile.columns.iter().map(|(name, summary)| Column::of(name, summary)).collect(),
            ragged: Ragged { count: profile.ragged.count, examples: examples.collect() },
        }
    }
}

impl Column {
    fn of(name: &str, summary: &Summary) -> Self {
        let top = summary.top.iter().map(|(value, count)| Top { value: value.clone(), count: *count });
        Self {
            name: name.to_owned(),
            kind: summary.kind.name(),
            missing: summary.missing,
            distinct: summary.distinct,
            distinct_is_lower_bound: summary.distinct_is_lower_bound,
            figures: OfKind::of(&summary.kind),
            top: top.collect(),
        }
    }
}

impl OfKind {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Integer(figures) | Kind::Number(figures) => {
                let Figures { min, max, mean, standard_deviation, quartiles: [p25, p50, p75] } = *figures;
                Self {
                    min: number(min).map(Extreme::Number),
                    max: number(max).map(Extreme::Number),
                    mean: number(mean),
                    standard_deviation: standard_deviation.and_then(number),
                    p25: number(p25),
                    p50: number(p50),
                    p75: number(p75),
                    ..Self::default()
                }
            }
            Kind::Date { earliest, latest } => Self {
                min: Some(Extreme::Date(earliest.clone())),
                max: Some(Extreme::Date(latest.clone())),
                ..Self::default()
            },
            Kind::Text { shortest, longest } => {
                Self { min_length: Some(*shortest), max_length: Some(*longest), ..Self::default() }
            }
            Kind::Boolean | Kind::Empty => Self::default(),
        }
    }
}

/// Numbers without a fraction become integers, as in the text. Sums of the largest numbers can overflow to
/// infinity, which JSON cannot represent, so the value is left out.
fn number(number: f64) -> Option<Number> {
    /// The largest integer up to which all integers are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        Some((number as i64).into())
    } else {
        Number::from_f64(number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::profile::tests::{SALES, profiled};

    fn described(text: &str) -> Value {
        json!(Described::from(&profiled(text)))
    }

    #[test]
    fn each_column_has_what_its_type_allows() {
        let value = described(SALES);
        assert_eq!(value["rows"], 3);
        assert_eq!(value["delimiter"], ",");
        assert_eq!(value["header"], true);
        assert_eq!(value["ragged"], json!({"count": 0, "examples": []}));
        let [day, amount, paid, note] = [0, 1, 2, 3].map(|index| &value["columns"][index]);
        assert_eq!(
            (&day["type"], &day["min"], &day["max"]),
            (&json!("date"), &json!("2026-01-01"), &json!("2026-01-03"))
        );
        assert_eq!(
            (&amount["type"], &amount["min"], &amount["max"]),
            (&json!("number"), &json!(10), &json!(20.5))
        );
        assert_eq!(
            (&amount["missing"], &amount["mean"], &amount["p50"]),
            (&json!(1), &json!(15.25), &json!(15.25))
        );
        assert_eq!(paid["top"][0], json!({"value": "yes", "count": 2}));
        assert_eq!(
            (&note["type"], &note["minLength"], &note["min"]),
            (&json!("text"), &json!(3), &Value::Null)
        );
        let ragged = described("a\tb\n1\t2\n3\n4\t5\n");
        assert_eq!(ragged["ragged"], json!({"count": 1, "examples": [{"line": 3, "fields": 1}]}));
        assert_eq!(described("")["columns"], json!([]));
    }

    #[test]
    fn figures_beyond_json_are_left_out() {
        let value = described("x,y\n1e308,1\n-1e308,2\n");
        let column = &value["columns"][0];
        assert!(column.get("standardDeviation").is_none());
        assert_eq!(column["min"], json!(-1e308));
    }
}
