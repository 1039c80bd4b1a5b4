//! The result for people: a Markdown table.

use std::fmt::Write;

use crate::column::{Kind, Summary};
use crate::profile::Profile;

/// Longer cells are shortened in the table, in characters.
const WIDEST_CELL: usize = 40;

/// The number of top values in the table.
const TOP_IN_TABLE: usize = 3;

/// A Markdown table with a sentence above and the problems below. Writing to a string cannot fail, so the
/// results are ignored.
pub fn table(profile: &Profile) -> String {
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
    let kind = summary.kind.name().to_owned();
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

/// A number for people: at most four digits after the point.
fn short(number: f64) -> String {
    if number != 0.0 && !(1e-4..1e15).contains(&number.abs()) {
        return format!("{number:.4e}");
    }
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value that cannot break the table.
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
    use crate::profile::tests::{SALES, profiled};

    fn rendered(text: &str) -> String {
        table(&profiled(text))
    }

    #[test]
    fn the_table_is_one_line_a_column() {
        let table = rendered(SALES);
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
    fn ragged_rows_are_told_and_an_empty_text_is_said_to_be_empty() {
        let table = rendered("a\tb\n1\t2\n3\n4\t5\n");
        assert!(table.contains("delimiter tab"));
        assert!(table.contains("1 rows do not have 2 fields: line 3 has 1\n"));
        assert_eq!(rendered(""), "0 rows, 0 columns, delimiter `,`, without header\n");
    }

    #[test]
    fn numbers_are_short_to_read() {
        let cases = [
            (0.0, "0"),
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
}
