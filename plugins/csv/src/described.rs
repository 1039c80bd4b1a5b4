//! The result for programs.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::column::{Kind, Summary};
use crate::numbers::Figures;
use crate::profile::Profile;

/// A profile, as programs get it.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Described {
    /// Rows, the header aside.
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
    /// Fields that are empty or say that there is no value.
    missing: u64,
    /// Different values, missing ones aside.
    distinct: usize,
    /// Whether there were too many different values to tell all of them apart; the
    /// top values are then those of the first part.
    distinct_is_lower_bound: bool,
    #[serde(flatten)]
    figures: OfKind,
    top: Vec<Top>,
}

// What there is to say of a column depends on what it holds.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OfKind {
    /// The smallest number, the earliest date.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Extreme>,
    /// The largest number, the latest date.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Extreme>,
    /// Of a numeric column.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Number>,
    /// Of the sample, with n - 1; absent below two values.
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_deviation: Option<Number>,
    /// First quartile, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p25: Option<Number>,
    /// Median, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<Number>,
    /// Third quartile, interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    p75: Option<Number>,
    /// Of a text column, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_length: Option<usize>,
    /// Of a text column, in characters.
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
    /// How often.
    count: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Ragged {
    /// Rows that have fewer or more fields than there are columns.
    count: u64,
    examples: Vec<RaggedRow>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RaggedRow {
    /// The line it begins on.
    line: u64,
    /// How many fields it has.
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

/// Whole numbers without a fraction, as the text had them. Sums of the largest
/// numbers there are can leave the range; JSON has no word for that, so the figure is
/// left out.
fn number(number: f64) -> Option<Number> {
    /// Whole numbers up to here are exact.
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
    use crate::dialect::Dialect;
    use crate::profile::profile;

    fn described(text: &str) -> Value {
        let dialect = Dialect::settle(text, None, None).expect("no delimiter is given");
        let profile = profile(text, dialect, 5, &mut |_| false).expect("the text can be read");
        json!(Described::from(&profile))
    }

    const SALES: &str =
        "day,amount,paid,note\n2026-01-02,10,yes,a|b\n2026-01-01,20.5,no,\n2026-01-03,NA,yes,\"c\nd\"\n";

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
