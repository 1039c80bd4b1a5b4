//! The report: tables, and the aims with whether they were reached.

use crate::stats::shown;
use std::path::Path;

/// The results of one scenario.
#[derive(Debug, Clone)]
pub struct Section {
    title: &'static str,
    note: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Each aim, with the value that was reached, and whether that meets it.
    aims: Vec<[String; 4]>,
}

/// The whole report.
#[derive(Debug)]
pub struct Report {
    /// The description of the machine.
    pub machine: String,
    /// The scenarios.
    pub sections: Vec<Section>,
}

impl Section {
    /// A section without rows. Bars divide the columns.
    #[must_use]
    pub fn new(title: &'static str, note: &'static str, columns: &'static str) -> Self {
        let columns = columns.split(" | ").map(str::to_owned).collect();
        Self { title, note, columns, rows: Vec::new(), aims: Vec::new() }
    }

    /// Adds a row to the table.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Adds the aim that a figure is at least this.
    pub fn at_least(&mut self, what: String, reached: f64, least: f64, unit: &str) {
        self.aim(what, reached, format!("at least {}", shown(least)), unit, reached >= least);
    }

    /// Adds the aim that a figure is at most this.
    pub fn at_most(&mut self, what: String, reached: f64, most: f64, unit: &str) {
        self.aim(what, reached, format!("at most {}", shown(most)), unit, reached <= most);
    }

    fn aim(&mut self, what: String, reached: f64, aim: String, unit: &str, is_met: bool) {
        let met = if is_met { "yes" } else { "NO" };
        self.aims.push([what, format!("{aim} {unit}"), format!("{} {unit}", shown(reached)), met.to_owned()]);
    }

    /// The table below its title.
    pub fn table(&self) -> String {
        format!("\n## {}\n\n{}\n\n{}", self.title, self.note, table(&self.columns, &self.rows))
    }
}

impl Report {
    /// The head of the report.
    pub fn head(&self) -> String {
        format!("# Benchmarks\n\n{}\n", self.machine)
    }

    /// The table of aims.
    pub fn aims(&self) -> String {
        let aims = self.sections.iter().flat_map(|section| &section.aims);
        let rows: Vec<Vec<String>> = aims.map(|aim| aim.to_vec()).collect();
        if rows.is_empty() {
            return String::new();
        }
        format!("\n## Aims\n\n{}\n", table(&["what", "aim", "reached", "met"].map(str::to_owned), &rows))
    }

    /// Writes `report.md` into this folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let tables: String = self.sections.iter().map(Section::table).collect();
        let text = self.head() + &tables + &self.aims();
        Ok(std::fs::write(folder.join("report.md"), text)?)
    }
}

/// A Markdown table, padded so that its source is readable.
fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    let width = |index: usize| {
        let cells = std::iter::once(&columns[index]).chain(rows.iter().map(|row| &row[index]));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(index, (cell, width))| {
            // The first column is text, the others are mostly numbers.
            if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(index, width)| {
        if index == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    let mut out = line(columns);
    out.push_str(&line(&rule.collect::<Vec<_>>()));
    out.extend(rows.iter().map(|row| line(row)));
    out
}
