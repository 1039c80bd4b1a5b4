//! The pages of the plugins for one list of resources.

use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::RawJson;
use toolyard_task::Provider;

/// A plugin in a listing.
pub(crate) struct PluginTurn {
    pub provider: Arc<dyn Provider>,
    /// Where its next page begins, if it has one.
    pub next: Option<Option<String>>,
    /// The number of its pages in earlier answers and this one.
    pub pages: u32,
    /// Runs for this answer.
    pub runs: u32,
    /// How long its runs for this answer may still take.
    pub time: Duration,
    pub entries: Vec<RawJson>,
    /// Entries that it may not list.
    pub foreign: usize,
}

/// A plugin's page.
pub(crate) struct PluginPage {
    pub entries: Vec<RawJson>,
    pub next: Option<String>,
}

impl PluginPage {
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.as_bytes().len()).sum()
    }
}

pub(super) fn log_uris_left_out(provider: &Arc<dyn Provider>, kind: &str, count: usize) {
    tracing::warn!(
        event = "resources.uris_left_out",
        plugin = provider.spec().plugin,
        kind,
        count,
        setting = "resources.uris",
        "resources of a plugin left out of a list"
    );
}

pub(super) fn log_plugin_left_out(plugin: &str, reason: &dyn std::fmt::Display, pause: Option<Duration>) {
    tracing::warn!(
        event = "resources.plugin_left_out", plugin, pause = pause.map(tracing::field::debug), %reason,
        "plugin left out of a list of resources"
    );
}
