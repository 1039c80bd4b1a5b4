//! The report: tables for people, and the same figures as JSON.

use crate::machine::Machine;
use serde_json::{Value, json};
use std::path::Path;

/// The results of one scenario.
#[derive(Debug, Clone)]
pub struct Section {
    title: &'static str,
    note: &'static str,
    columns: Vec<&'static str>,
    /// The rows of the table.
    pub rows: Vec<Vec<String>>,
    /// The figures, a JSON object.
    pub data: Value,
    /// The aims.
    pub aims: Vec<Aim>,
}

/// An aim, and whether it was reached.
#[derive(Debug, Clone)]
pub struct Aim {
    /// The measured quantity.
    pub what: String,
    /// The aim.
    pub aim: String,
    /// The measured value.
    pub reached: String,
    /// Whether the value meets the aim.
    pub met: bool,
}

/// The whole report.
#[derive(Debug)]
pub struct Report {
    machine: Machine,
    /// The scenarios.
    pub sections: Vec<Section>,
}

impl Section {
    /// A section without rows. Bars divide the columns.
    #[must_use]
    pub fn new(title: &'static str, note: &'static str, columns: &'static str) -> Self {
        let columns = columns.split(" | ").collect();
        Self { title, note, columns, rows: Vec::new(), data: json!({}), aims: Vec::new() }
    }

    /// Adds a row to the table.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The table below its title.
    pub fn table(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        format!("\n## {}\n\n{}\n\n{}", self.title, self.note, table(&columns, &self.rows))
    }
}

impl Report {
    /// A report without sections.
    #[must_use]
    pub const fn new(machine: Machine) -> Self {
        Self { machine, sections: Vec::new() }
    }

    /// The head of the report.
    pub fn head(&self) -> String {
        format!("# Benchmarks\n\n{}\n", self.machine.lines())
    }

    /// The table of aims.
    pub fn aims(&self) -> String {
        let aims = self.sections.iter().flat_map(|section| &section.aims);
        let rows: Vec<Vec<String>> = aims
            .map(|aim| {
                let met = if aim.met { "yes" } else { "NO" };
                vec![aim.what.clone(), aim.aim.clone(), aim.reached.clone(), met.to_owned()]
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        format!("\n## Aims\n\n{}\n", table(&["what", "aim", "reached", "met"].map(str::to_owned), &rows))
    }

    /// Writes `report.md` and `report.json` into this folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let mut text = self.head();
        for section in &self.sections {
            text.push_str(&section.table());
        }
        text.push_str(&self.aims());
        std::fs::write(folder.join("report.md"), text)?;
        let mut all = serde_json::Map::from_iter([("machine".to_owned(), self.machine.json())]);
        for section in &self.sections {
            all.extend(section.data.as_object().cloned().unwrap_or_default());
        }
        let aims = self.sections.iter().flat_map(|section| &section.aims);
        let aims =
            aims.map(|aim| json!({"what": aim.what, "aim": aim.aim, "reached": aim.reached, "met": aim.met}));
        all.insert("aims".to_owned(), aims.collect());
        Ok(std::fs::write(folder.join("report.json"), serde_json::to_vec_pretty(&all)?)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_padded() {
        let cells = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
        assert_eq!(
            table(&cells(["what", "ms"]), &[cells(["µs", "1.25"])]),
            "| what |   ms |\n| ---- | ---: |\n| µs   | 1.25 |\n"
        );
    }
}
