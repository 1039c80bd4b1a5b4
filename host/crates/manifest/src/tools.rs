//! `[tools.NAME]`: the operator's settings for single tools.

use crate::deserializer::Error;
use crate::limits::{Limits, LimitsSection};
use crate::values;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toolyard_task::approval::{Confirm, ConfirmBy, ConfirmTerms};
use toolyard_task::task::JournalRetention;
use toolyard_task::wire::{RawJson, TaskSupport};
use toolyard_task::{Durability, OnClientTimeout, Rate};

/// The settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// Whether clients see the tool.
    pub enabled: Option<bool>,
    /// Whether it may be called as a task. Overrides the guest's declaration.
    pub task_support: Option<TaskSupport>,
    /// The title of the tool. Overrides the guest's.
    pub title: Option<String>,
    /// The description of the tool. Overrides the guest's.
    pub description: Option<String>,
    /// The annotations of the tool. Override the guest's.
    pub annotations: Option<RawJson>,
    /// The rate limit of the tool.
    pub rate: Option<Rate>,
    /// Overrides the plugin's setting.
    pub inline_for: Option<Duration>,
    /// Overrides the plugin's setting.
    pub bridge_after: Option<Duration>,
    /// Overrides the plugin's setting.
    pub on_client_timeout: Option<OnClientTimeout>,
    /// Whether a person confirms its calls.
    pub confirm: ConfirmTerms,
    /// Overrides the plugin's setting.
    pub durability: Option<Durability>,
    /// Overrides the plugin's setting.
    pub journal: Option<JournalRetention>,
    /// The tool's own limits, if any differs from the plugin's.
    pub limits: Option<Arc<Limits>>,
}

impl ToolOverride {
    /// How the tool's tasks recover when their node is gone: by the tool's key, otherwise by the
    /// plugin's, otherwise by the annotations that the operator set. The guest's own annotations do
    /// not count.
    pub fn durability(&self, plugin: Option<Durability>) -> Durability {
        let annotated = || {
            let annotations: serde_json::Value = self.annotations.as_ref()?.decode().ok()?;
            let says = |hint: &str| annotations.get(hint) == Some(&serde_json::Value::Bool(true));
            (says("idempotentHint") || says("readOnlyHint")).then_some(Durability::Rerun)
        };
        self.durability.or(plugin).or_else(annotated).unwrap_or_default()
    }
}

/// `[tools.NAME]` as in the text.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct ToolSection {
    enabled: Option<bool>,
    task_support: Option<TaskSupport>,
    #[serde(deserialize_with = "values::time")]
    inline_for: Option<Duration>,
    #[serde(deserialize_with = "values::time")]
    bridge_after: Option<Duration>,
    on_client_timeout: Option<OnClientTimeout>,
    confirm: Option<Confirm>,
    confirm_by: Option<ConfirmBy>,
    #[serde(deserialize_with = "values::text_of::<500, _>")]
    confirm_message: Option<String>,
    durability: Option<Spanned<Durability>>,
    journal: Option<JournalRetention>,
    #[serde(deserialize_with = "values::text_of::<{ 64 << 10 }, _>")]
    description: Option<String>,
    annotations: Option<Map<String, Value>>,
    #[serde(deserialize_with = "values::text_of::<{ 1 << 10 }, _>")]
    title: Option<String>,
    #[serde(deserialize_with = "rate")]
    rate: Option<Rate>,
    limits: Option<LimitsSection>,
}

impl ToolSection {
    /// Checks the section of a tool whose plugin has these limits.
    pub fn check(self, plugin: &Limits) -> Result<ToolOverride, Error> {
        let limits = self.limits.map(|section| section.of_tool(plugin)).transpose()?;
        let confirm = ConfirmTerms {
            confirm: self.confirm.unwrap_or_default(),
            by: self.confirm_by.unwrap_or_default(),
            message: self.confirm_message,
        };
        Ok(ToolOverride {
            enabled: self.enabled,
            task_support: self.task_support,
            title: self.title,
            description: self.description,
            annotations: self.annotations.map(|annotations| RawJson::of(&Value::Object(annotations))),
            rate: self.rate,
            inline_for: self.inline_for,
            bridge_after: self.bridge_after,
            on_client_timeout: self.on_client_timeout,
            confirm,
            durability: self.durability.map(Spanned::into_inner),
            journal: self.journal,
            limits: limits.map(Arc::new),
        })
    }
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let expected = "a rate such as \"10/s\" or \"600/min\"";
    values::text(deserializer, expected, |text| text.parse().ok()).map(Some)
}

impl ToolSection {
    /// The place of the word that its tasks resume.
    pub fn resume(&self) -> Option<&Spanned<Durability>> {
        self.durability.as_ref().filter(|word| *word.get_ref() == Durability::Resume)
    }
}
