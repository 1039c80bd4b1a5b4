//! Tables for people.

use comfy_table::{ContentArrangement, presets};
use std::fmt;
use toolyard_dispatch::visible;

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
