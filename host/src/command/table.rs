//! Lists for people as tables, and for programs as JSON.

use comfy_table::{ContentArrangement, presets};
use serde_json::Value;
use std::fmt;
use toolyard_cli::{output, say};
use toolyard_dispatch::visible;

/// A column of a list: its head in the table, and the name of its member in JSON. One without a head is for programs
/// alone, one without a member for people.
pub struct Column<T> {
    head: Option<&'static str>,
    member: Option<&'static str>,
    value: fn(&T) -> Value,
}

impl<T> Column<T> {
    /// A column for people and for programs.
    pub const fn new(head: &'static str, member: &'static str, value: fn(&T) -> Value) -> Self {
        Self { head: Some(head), member: Some(member), value }
    }

    /// A column of the table.
    pub const fn shown(head: &'static str, value: fn(&T) -> Value) -> Self {
        Self { head: Some(head), member: None, value }
    }

    /// A member of the JSON.
    pub const fn member(member: &'static str, value: fn(&T) -> Value) -> Self {
        Self { head: None, member: Some(member), value }
    }
}

/// A row for programs.
pub fn object<T>(columns: &[Column<T>], row: &T) -> Value {
    columns.iter().filter_map(|column| Some((column.member?.to_owned(), (column.value)(row)))).collect()
}

/// Prints rows: as JSON one object a line, else as a table.
pub fn list<'a, T: 'a>(columns: &[Column<T>], rows: impl IntoIterator<Item = &'a T>, json: bool) {
    match json {
        true => rows.into_iter().for_each(|row| output::json(object(columns, row))),
        false => say!("{}", of_rows(columns, rows)),
    }
}

/// Prints rows like [`list`]. If there are none, a person reads `none`, and a program nothing.
pub fn list_or<T>(columns: &[Column<T>], rows: &[T], json: bool, none: fmt::Arguments<'_>) {
    match rows {
        [] if !json => output::say_line(none),
        rows => list(columns, rows, json),
    }
}

/// The table of rows.
pub fn of_rows<'a, T: 'a>(columns: &[Column<T>], rows: impl IntoIterator<Item = &'a T>) -> Table {
    let shown: Vec<_> = columns.iter().filter_map(|column| Some((column.head?, column.value))).collect();
    let mut table = table(&shown.iter().map(|(head, _)| *head).collect::<Vec<_>>());
    for row in rows {
        table.add_row(shown.iter().map(|(_, value)| match value(row) {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        }));
    }
    table
}

/// Names, each with its lines beside it. A name without lines is left out.
pub fn paragraphs(all: &[(&str, Vec<String>)]) -> String {
    let mut out = String::new();
    for (name, lines) in all {
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            out.push_str(&format!("{name:<11}{}\n", visible::line(line)));
        }
    }
    out
}

/// A table whose cells have one line each, whatever they contain.
pub struct Table(comfy_table::Table);

/// A table with this header, at most as wide as the terminal.
pub fn table(head: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(head);
    Table(table)
}

impl Table {
    /// Adds a row. A line end in a cell is escaped, because it would look like a row of its own.
    pub fn add_row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| visible::line(cell.as_ref()).into_owned());
        self.0.add_row(cells.collect::<Vec<_>>());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_starts_no_row_and_steers_nothing() {
        let mut table = table(&["NAME", "SAID"]);
        table.add_row(["a", "x\r\nFAKE\u{1b}[2J\u{202e}\t"]);
        let shown = table.to_string();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("x\\r\\nFAKE\\u{1b}[2J\\u{202e}\\t"), "{shown}");
    }
}
