//! What is counted about the plugin folder. What runs take is told to whoever runs
//! them (`Report::Spent`) and is counted there, by the tool's name.
//!
//! No label has a value from a client or a guest: the values are the constants here.

use crate::folder::snapshot::{PluginReport, PluginState};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const STATE: &str = "state";
const SERVING: &str = "serving";
const FORMER: &str = "former";
const REFUSED: &str = "refused";
const DISABLED: &str = "disabled";
const STATES: [&str; 4] = [SERVING, FORMER, REFUSED, DISABLED];

type Labels = [(&'static str, &'static str); 1];

/// The numbers of one folder.
#[derive(Clone, Default)]
pub(crate) struct Metrics {
    plugins: Family<Labels, Gauge>,
    loads: Family<Labels, Counter>,
    left_out: Gauge,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        for state in STATES {
            drop(self.plugins.get_or_create(&[(STATE, state)]));
            drop(self.loads.get_or_create(&[(STATE, state)]));
        }
        registry.register(
            "toolyard_plugins",
            "Files of the plugin folder, by how they fare now",
            self.plugins.clone(),
        );
        registry.register(
            "toolyard_plugin_loads",
            "Files that were loaded, or loaded anew, by how they fared",
            self.loads.clone(),
        );
        registry.register(
            "toolyard_plugin_names_left_out",
            "Tools and prompts that are not served because another plugin has their names",
            self.left_out.clone(),
        );
    }

    /// How the files fare now.
    pub fn stand(&self, reports: &[PluginReport]) {
        let left_out: usize = reports.iter().map(|report| report.left_out.len()).sum();
        self.left_out.set(i64::try_from(left_out).unwrap_or(i64::MAX));
        for state in STATES {
            let count = reports.iter().filter(|report| name(&report.state) == state).count();
            self.plugins.get_or_create(&[(STATE, state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// A file was loaded, or loaded anew.
    pub fn loaded(&self, report: &PluginReport) {
        self.loads.get_or_create(&[(STATE, name(&report.state))]).inc();
    }
}

const fn name(state: &PluginState) -> &'static str {
    match state {
        PluginState::Serving => SERVING,
        PluginState::KeptPrevious { .. } => FORMER,
        PluginState::Refused { .. } => REFUSED,
        PluginState::Disabled => DISABLED,
    }
}
