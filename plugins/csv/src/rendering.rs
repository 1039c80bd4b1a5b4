//! The result: a table for people, an object for programs.

use std::fmt::Write;

use contract::{ToolResult, result};
use serde_json::{Map, Value, json};

use crate::column::{Kind, Summary};
use crate::numbers::Figures;
use crate::profile::Profile;

/// Longer cells are cut in the table.
const WIDEST_CELL: usize = 40;

/// Top values that the table has room for.
const TOP_IN_TABLE: usize = 3;

/// Makes the result.
pub fn render(profile: &Profile) -> ToolResult {
    result::structured(table(profile), &structured(profile))
}

fn structured(profile: &Profile) -> Value {
    let examples =
        profile.ragged.examples.iter().map(|(line, fields)| json!({ "line": line, "fields": fields }));
    json!({
        "rows": profile.rows,
        "delimiter": char::from(profile.dialect.delimiter).to_string(),
        "header": profile.dialect.header,
        "columns": profile.columns.iter().map(|(name, summary)| column(name, summary)).collect::<Vec<_>>(),
        "ragged": { "count": profile.ragged.count, "examples": examples.collect::<Vec<_>>() },
    })
}

fn column(name: &str, summary: &Summary) -> Value {
    let top = summary.top.iter().map(|(value, count)| json!({ "value": value, "count": count }));
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("name", json!(name));
    put("type", json!(kind_name(&summary.kind)));
    put("missing", json!(summary.missing));
    put("distinct", json!(summary.distinct));
    put("distinctIsLowerBound", json!(summary.distinct_is_lower_bound));
    match &summary.kind {
        Kind::Integer(figures) | Kind::Number(figures) => {
            for (name, number) in named_figures(figures) {
                put(name, number_value(number));
            }
        }
        Kind::Date { earliest, latest } => {
            put("min", json!(earliest));
            put("max", json!(latest));
        }
        Kind::Text { shortest, longest } => {
            put("minLength", json!(shortest));
            put("maxLength", json!(longest));
        }
        Kind::Boolean | Kind::Empty => {}
    }
    put("top", top.collect());
    Value::Object(members)
}

fn named_figures(figures: &Figures) -> Vec<(&'static str, f64)> {
    let Figures { min, max, mean, standard_deviation, quartiles: [p25, p50, p75] } = figures;
    let mut named = vec![("min", *min), ("max", *max), ("mean", *mean)];
    named.extend(standard_deviation.map(|deviation| ("standardDeviation", deviation)));
    named.extend([("p25", *p25), ("p50", *p50), ("p75", *p75)]);
    // Sums of the largest numbers there are can leave the range; JSON has no
    // word for that, so the figure is left out.
    named.retain(|(_, number)| number.is_finite());
    named
}

/// Whole numbers without a fraction, as the text had them.
fn number_value(number: f64) -> Value {
    /// Whole numbers up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT { json!(number as i64) } else { json!(number) }
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Integer(_) => "integer",
        Kind::Number(_) => "number",
        Kind::Boolean => "boolean",
        Kind::Date { .. } => "date",
        Kind::Text { .. } => "text",
        Kind::Empty => "empty",
    }
}

/// A Markdown table with a sentence above and what is wrong below. Writing into
/// a string cannot fail, hence the ignored results.
fn table(profile: &Profile) -> String {
    let delimiter = match profile.dialect.delimiter {
        b'\t' => "tab".to_owned(),
        byte => format!("`{}`", char::from(byte)),
    };
    let header = if profile.dialect.header { "with" } else { "without" };
    let mut text = format!(
        "{} rows, {} columns, delimiter {delimiter}, {header} header\n",
        profile.rows,
        profile.columns.len()
    );
    if !profile.columns.is_empty() {
        text.push_str(
            "\n| column | type | missing | distinct | min | p25 | median | p75 | max | mean | std dev | most frequent |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
        );
    }
    for (name, summary) in &profile.columns {
        let _ = writeln!(text, "| {} |", row(name, summary).join(" | "));
    }
    if profile.ragged.count > 0 {
        let examples: Vec<String> = profile
            .ragged
            .examples
            .iter()
            .map(|(line, fields)| format!("line {line} has {fields}"))
            .collect();
        let more = if profile.ragged.count > examples.len() as u64 { ", …" } else { "" };
        let _ = write!(
            text,
            "\n{} rows do not have {} fields: {}{more}\n",
            profile.ragged.count,
            profile.columns.len(),
            examples.join(", ")
        );
    }
    text
}

fn row(name: &str, summary: &Summary) -> [String; 12] {
    let least = if summary.distinct_is_lower_bound { "≥ " } else { "" };
    let [mut min, mut p25, mut median, mut p75, mut max, mut mean, mut deviation] =
        [const { String::new() }; 7];
    match &summary.kind {
        Kind::Integer(figures) | Kind::Number(figures) => {
            min = short(figures.min);
            max = short(figures.max);
            mean = short(figures.mean);
            deviation = figures.standard_deviation.map(short).unwrap_or_default();
            [p25, median, p75] = figures.quartiles.map(short);
        }
        Kind::Date { earliest, latest } => {
            min = cell(earliest);
            max = cell(latest);
        }
        Kind::Text { .. } | Kind::Boolean | Kind::Empty => {}
    }
    let top: Vec<String> = summary
        .top
        .iter()
        .take(TOP_IN_TABLE)
        .map(|(value, count)| format!("{} ({count})", cell(value)))
        .collect();
    let distinct = format!("{least}{}", summary.distinct);
    let kind = kind_name(&summary.kind).to_owned();
    let top = top.join(", ");
    [
        cell(name),
        kind,
        summary.missing.to_string(),
        distinct,
        min,
        p25,
        median,
        p75,
        max,
        mean,
        deviation,
        top,
    ]
}

/// A number for reading: at most four digits after the point.
fn short(number: f64) -> String {
    if number != 0.0 && !(1e-4..1e15).contains(&number.abs()) {
        return format!("{number:.4e}");
    }
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value that does not break the table.
fn cell(value: &str) -> String {
    let mut cell = String::new();
    for (index, character) in value.chars().enumerate() {
        if index == WIDEST_CELL {
            cell.push('…');
            break;
        }
        match character {
            '|' => cell.push_str("\\|"),
            control if control.is_control() => cell.push(' '),
            other => cell.push(other),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::profile::profile;

    fn rendered(text: &str) -> (String, Value) {
        let dialect = Dialect::settle(text, None, None).expect("no delimiter is given");
        let profile = profile(text, dialect, 5, &mut |_| false).expect("the text can be read");
        (table(&profile), structured(&profile))
    }

    const SALES: &str =
        "day,amount,paid,note\n2026-01-02,10,yes,a|b\n2026-01-01,20.5,no,\n2026-01-03,NA,yes,\"c\nd\"\n";

    #[test]
    fn the_object_has_what_each_type_allows() {
        let (_, value) = rendered(SALES);
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
    }

    #[test]
    fn the_table_is_one_line_a_column() {
        let (table, _) = rendered(SALES);
        assert!(table.starts_with("3 rows, 4 columns, delimiter `,`, with header\n"));
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 2 + 4);
        assert_eq!(
            rows[3],
            "| amount | number | 1 | 2 | 10 | 12.625 | 15.25 | 17.875 | 20.5 | 15.25 | 7.4246 | 10 (1), 20.5 (1) |"
        );
        assert!(rows[5].contains("a\\|b (1), c d (1)"));
    }

    #[test]
    fn ragged_rows_are_told() {
        let (table, value) = rendered("a\tb\n1\t2\n3\n4\t5\n");
        assert!(table.contains("delimiter tab"));
        assert!(table.contains("1 rows do not have 2 fields: line 3 has 1\n"));
        assert_eq!(value["ragged"], json!({"count": 1, "examples": [{"line": 3, "fields": 1}]}));
    }

    #[test]
    fn an_empty_text_is_said_to_be_empty() {
        let (table, value) = rendered("");
        assert_eq!(table, "0 rows, 0 columns, delimiter `,`, without header\n");
        assert_eq!(value["columns"], json!([]));
    }

    #[test]
    fn numbers_are_short_to_read() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.3333"),
            (1e20, "1.0000e20"),
            (1e-9, "1.0000e-9"),
            (100.0, "100"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn figures_beyond_json_are_left_out() {
        let (_, value) = rendered("x,y\n1e308,1\n-1e308,2\n");
        let column = &value["columns"][0];
        assert!(column.get("standardDeviation").is_none());
        assert_eq!(column["min"], json!(-1e308));
    }
}
