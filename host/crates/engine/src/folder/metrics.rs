//! Metrics of the plugin folder. The resource usage of runs is counted elsewhere, by tool name: the
//! engine reports it to the caller of a run (`Report::Usage`).
//!
//! No label value comes from a client or a guest: all values are the constants below.

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
/// New versions that wait beside those that serve.
const HELD: &str = "held";

type Labels = [(&'static str, &'static str); 1];

/// The metrics of one folder.
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
            "Files of the plugin folder, by how they fare now, and new versions that wait for a person",
            self.plugins.clone(),
        );
        registry.register(
            "toolyard_plugin_loads",
            "Loads and reloads of plugin files, by outcome",
            self.loads.clone(),
        );
        registry.register(
            "toolyard_plugin_names_left_out",
            "Tools and prompts that are not served because another plugin has their names",
            self.left_out.clone(),
        );
    }

    /// Sets the number of new versions that wait for a person.
    pub fn hold(&self, count: usize) {
        self.plugins.get_or_create(&[(STATE, HELD)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the gauges from the current reports.
    pub fn stand(&self, reports: &[PluginReport]) {
        let left_out: usize = reports.iter().map(|report| report.left_out.len()).sum();
        self.left_out.set(i64::try_from(left_out).unwrap_or(i64::MAX));
        for state in STATES {
            let count = reports.iter().filter(|report| name(&report.state) == state).count();
            self.plugins.get_or_create(&[(STATE, state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts a load or reload of a file.
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
