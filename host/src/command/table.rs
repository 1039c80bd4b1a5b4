//! Tables for terminals.

use comfy_table::{ContentArrangement, Table, presets};

/// A table with this head, as wide as the terminal at most.
pub fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(head);
    table
}
