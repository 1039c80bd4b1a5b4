//! The metrics of the process as a whole. The crates count the rest; `assemble` collects their metrics.

use crate::system::SystemClock;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use toolyard_dispatch::Clock as _;

/// The metrics of the process as a whole.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("toolyard_build", "The version of this host", build);
    let started = Gauge::<i64>::default();
    started.set(SystemClock.now().0 / 1000);
    registry.register_with_unit(
        "process_start_time",
        "When this process started, in seconds since 1970",
        Unit::Seconds,
        started,
    );
    registry.register(
        "toolyard_log_lost_lines",
        "Lines of the log that could not be written",
        crate::log::lossy::lost_lines(),
    );
    registry
}
