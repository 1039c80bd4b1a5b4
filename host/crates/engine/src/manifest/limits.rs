//! `[limits]`, of a plugin and of single tools.

use super::Manifest;
use super::read::{Entry, Section};
use crate::error::ManifestError;
use crate::limits::{LimitRow, Limits, Unit};
use std::sync::Arc;

/// What counts over all runs of a plugin and so is no limit of a run.
const OF_PLUGINS: [&str; 2] = ["concurrency", "queue"];

impl Manifest {
    /// Reads the section of the plugin.
    pub(super) fn read_limits(&mut self, section: &Section<'_>) -> Result<(), ManifestError> {
        let mut limits = (*self.limits).clone();
        for entry in section.entries() {
            match entry.key() {
                "concurrency" => self.concurrency = Some(count(&entry, 1)?),
                "queue" => self.queue = Some(count(&entry, 0)?),
                _ => set(&mut limits, &entry, &OF_PLUGINS)?,
            }
        }
        self.limits = Arc::new(limits);
        Ok(())
    }
}

/// Reads the section of a tool; what it does not say is as for its plugin.
pub(super) fn of_tool(section: &Section<'_>, plugin: &Limits) -> Result<Limits, ManifestError> {
    let mut limits = plugin.clone();
    for entry in section.entries() {
        if OF_PLUGINS.contains(&entry.key()) {
            return Err(entry.error("counts all runs of the plugin; set it in its `[limits]`".to_owned()));
        }
        set(&mut limits, &entry, &[])?;
    }
    Ok(limits)
}

fn count(entry: &Entry<'_>, least: u64) -> Result<u32, ManifestError> {
    entry.number(least, u64::from(u32::MAX)).map(|number| number as u32)
}

fn set(limits: &mut Limits, entry: &Entry<'_>, others: &[&str]) -> Result<(), ManifestError> {
    let Some(row) = Limits::ROWS.iter().find(|row| row.key == entry.key()) else {
        let keys: Vec<&str> = Limits::ROWS.iter().map(|row| row.key).chain(others.iter().copied()).collect();
        return Err(entry.unknown(&keys));
    };
    row.set(limits, figure(row, entry)?);
    Ok(())
}

fn figure(row: &LimitRow, entry: &Entry<'_>) -> Result<u64, ManifestError> {
    match row.unit {
        Unit::Bytes => entry.size(row.least, row.most),
        Unit::Count => entry.number(row.least, row.most),
        Unit::Time => entry.duration().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    }
}
