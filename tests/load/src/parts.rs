//! Collects the results of criterion in the report.

use crate::report::Section;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The figures that are newer than `since`, in seconds since 1970. `None` if there are none.
pub fn collect(out: &Path, since: u64) -> anyhow::Result<Option<Section>> {
    let mut found = Vec::new();
    if let Some(target) = out.parent() {
        look(&target.join("criterion"), 0, &mut found)?;
    }
    let mut section = Section::new(
        "Parts",
        "By criterion, short measurements: the median of one iteration and the bounds of its 95 % confidence interval.",
        &["what", "median µs", "from", "to"],
    );
    let since = UNIX_EPOCH + Duration::from_secs(since);
    let mut data = serde_json::Map::new();
    found.sort();
    for folder in found {
        let file = folder.join("estimates.json");
        if std::fs::metadata(&file)?.modified()? < since {
            continue;
        }
        let read = |path: PathBuf| anyhow::Ok(serde_json::from_slice::<Value>(&std::fs::read(path)?)?);
        let (estimates, about) = (read(file)?, read(folder.join("benchmark.json"))?);
        let name = about["full_id"].as_str().unwrap_or_default().to_owned();
        let median = &estimates["median"];
        let bounds = &median["confidence_interval"];
        let nanoseconds = [&median["point_estimate"], &bounds["lower_bound"], &bounds["upper_bound"]]
            .map(|value| value.as_f64().unwrap_or(f64::NAN));
        let mut row = vec![name.clone()];
        row.extend(nanoseconds.map(|ns| format!("{:.3}", ns / 1e3)));
        section.row(row);
        data.insert(name, json!(nanoseconds[0]));
    }
    section.data = json!({ "parts_median_ns": data });
    Ok((!section.rows.is_empty()).then_some(section))
}

/// Finds folders named `new` with estimates, as deep as criterion makes them.
fn look(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    const DEEPEST: u32 = 5;
    if depth > DEEPEST || !folder.is_dir() {
        return Ok(());
    }
    if folder.ends_with("new") && folder.join("estimates.json").is_file() {
        found.push(folder.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        look(&entry?.path(), depth + 1, found)?;
    }
    Ok(())
}
