//! The price list: how many lines of the product each feature takes. `UPDATE_DOCS=1` counts them again.

use super::{is_test, sources, without_inline_tests};
use std::collections::BTreeMap;
use toolyard_tests::guests::root;

const PAGE: &str = "host/docs/explanation/price-list.md";

/// A row of the page.
struct Row<'a> {
    feature: &'a str,
    /// The beginnings of the paths of its files, below `host`. A file counts for the first row that has it.
    paths: Vec<&'a str>,
    lines: usize,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        let [_, feature, paths, lines, _] = cells[..] else { return None };
        let paths = paths.split('`').filter(|path| !path.trim().is_empty()).collect();
        Some(Row { feature, paths, lines: lines.replace(',', "").parse().ok()? })
    };
    page.lines().filter_map(row).collect()
}

/// The lines of code of each file of the product, by its path below `host`.
fn product() -> BTreeMap<String, usize> {
    let host = root().join("host");
    let files = sources().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let files = files.filter(|path| !is_test(path) && !path.iter().any(|part| part == "benches"));
    let count = |text: &str| {
        let lines = without_inline_tests(text).lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    };
    let name = |path: &std::path::Path| Some(path.strip_prefix(&host).ok()?.display().to_string());
    files
        .filter_map(|path| Some((name(&path)?, count(&std::fs::read_to_string(&path).expect("text")))))
        .collect()
}

#[test]
fn the_price_list_is_right_within_a_tenth() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("text");
    let rows = rows(&page);
    let mut counts = vec![0; rows.len()];
    for (path, lines) in product() {
        let row = rows.iter().position(|row| row.paths.iter().any(|start| path.starts_with(start)));
        counts[row.unwrap_or_else(|| panic!("{path}: no row of {PAGE} has it"))] += lines;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let mut updated = page.clone();
        for (row, count) in rows.iter().zip(&counts) {
            let (old, new) =
                (format!("| {} |\n", thousands(row.lines)), format!("| {} |\n", thousands(*count)));
            let at = updated.find(&format!("| {} |", row.feature)).expect("a row");
            updated.replace_range(at.., &updated[at..].replacen(&old, &new, 1));
        }
        std::fs::write(root().join(PAGE), updated).expect("writable");
        return;
    }
    for (row, count) in rows.iter().zip(counts) {
        let (feature, lines) = (row.feature, row.lines);
        assert!(count.abs_diff(lines) * 10 <= lines, "{feature}: {count} lines; the page says {lines}");
    }
}

/// `1234` as `1,234`.
fn thousands(count: usize) -> String {
    match count {
        0..1_000 => count.to_string(),
        _ => format!("{},{:03}", count / 1_000, count % 1_000),
    }
}
