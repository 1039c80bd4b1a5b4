//! `[tools.NAME]`: what the operator says of single tools.

use super::limits;
use super::read::{Entry, Section};
use crate::error::ManifestError;
use crate::limits::Limits;
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::wire::{RawJson, TaskSupport};
use toolyard_task::{Durability, Rate};

/// What it says of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// Whether clients see the tool.
    pub enabled: Option<bool>,
    /// Whether it may be called as a task, in place of what the guest says.
    pub task_support: Option<TaskSupport>,
    /// Its title, in place of the guest's.
    pub title: Option<String>,
    /// Its description, in place of the guest's.
    pub description: Option<String>,
    /// Its annotations, in place of the guest's.
    pub annotations: Option<RawJson>,
    /// How often it may be called.
    pub rate: Option<Rate>,
    /// In place of the plugin's.
    pub inline_for: Option<Duration>,
    /// In place of the plugin's.
    pub durability: Option<Durability>,
    /// Its own, where any differs from the plugin's.
    pub limits: Option<Arc<Limits>>,
}

impl ToolOverride {
    /// What becomes of the tool's tasks when their host is gone: what the tool's key
    /// says, else the plugin's, else the annotations that the operator gave. What a
    /// guest says of itself does not count.
    pub fn durability(&self, plugin: Option<Durability>) -> Durability {
        let annotated = || {
            let annotations: serde_json::Value = self.annotations.as_ref()?.decode().ok()?;
            let says = |hint: &str| annotations.get(hint) == Some(&serde_json::Value::Bool(true));
            (says("idempotentHint") || says("readOnlyHint")).then_some(Durability::Rerun)
        };
        self.durability.or(plugin).or_else(annotated).unwrap_or_default()
    }
}

/// Reads what becomes of tasks when their host is gone.
pub(super) fn durability(entry: &Entry<'_>) -> Result<Durability, ManifestError> {
    match entry.text()? {
        "none" => Ok(Durability::None),
        "rerun" => Ok(Durability::Rerun),
        "resume" => Err(entry.error(
            "\"resume\" is reserved for a later version; \"rerun\" runs an unfinished task again from the start"
                .to_owned(),
        )),
        _ => Err(entry.expected("\"none\" or \"rerun\"")),
    }
}

/// Reads the section of one tool of a plugin with these limits.
pub(super) fn said(section: &Section<'_>, plugin: &Limits) -> Result<ToolOverride, ManifestError> {
    const KEYS: &[&str] = &[
        "enabled",
        "task-support",
        "inline-for",
        "durability",
        "description",
        "annotations",
        "title",
        "rate",
        "limits",
    ];
    let mut tool = ToolOverride::default();
    for entry in section.entries() {
        match entry.key() {
            "enabled" => tool.enabled = Some(entry.boolean()?),
            "task-support" => {
                tool.task_support = Some(match entry.text()? {
                    "forbidden" => TaskSupport::Forbidden,
                    "optional" => TaskSupport::Optional,
                    "required" => TaskSupport::Required,
                    _ => return Err(entry.expected("\"forbidden\", \"optional\" or \"required\"")),
                });
            }
            "inline-for" => tool.inline_for = Some(entry.time()?),
            "durability" => tool.durability = Some(durability(&entry)?),
            "title" => tool.title = Some(entry.text_of(1 << 10)?),
            "description" => tool.description = Some(entry.text_of(64 << 10)?),
            "annotations" => tool.annotations = Some(RawJson::of(&entry.section()?.json())),
            "rate" => {
                let rate = entry.text()?.parse();
                tool.rate = Some(rate.map_err(|_| entry.expected("a rate such as \"10/s\" or \"600/min\""))?);
            }
            "limits" => tool.limits = Some(Arc::new(limits::of_tool(&entry.section()?, plugin)?)),
            _ => return Err(entry.unknown(KEYS)),
        }
    }
    Ok(tool)
}
