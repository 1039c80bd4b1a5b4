//! What is measured and seen of calls: metrics, traces, observers.

pub(crate) mod call_end;
pub(crate) mod metrics;
pub(crate) mod observer;
pub(crate) mod trace;

use metrics::Metrics;
use observer::Gallery;
use std::sync::{Arc, OnceLock};
use trace::Traces;

/// Those who look on at calls, and what is counted.
#[derive(Default)]
pub(crate) struct Observers {
    pub metrics: Metrics,
    /// Who keeps traces, if anybody does.
    traces: OnceLock<Arc<dyn Traces>>,
    /// Who looks on, if anybody does.
    gallery: Gallery,
}
