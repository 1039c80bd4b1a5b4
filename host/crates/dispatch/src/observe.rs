//! Observation of calls: metrics, traces, observers, the history of plain calls.

pub(crate) mod call_end;
pub(crate) mod call_history;
pub(crate) mod call_log;
pub(crate) mod event;
pub(crate) mod host_call_log;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod observer;
pub(crate) mod run_sinks;
pub(crate) mod run_timeline;
pub(crate) mod trace;

use call_history::CallHistory;
use call_log::CallLog;
use metrics::Metrics;
use observer::ObserverHandle;
use std::sync::{Arc, OnceLock};
use trace::Traces;

/// The observers of calls, and the counters.
#[derive(Default)]
pub struct Observers {
    pub(crate) metrics: Metrics,
    pub(crate) call_log: Arc<CallLog>,
    /// The collector of traces, if tracing is on.
    traces: OnceLock<Arc<dyn Traces>>,
    /// The observer of calls, if one is set.
    observer: ObserverHandle,
    /// The history of plain calls, if it is kept.
    pub history: OnceLock<Arc<CallHistory>>,
}

impl Observers {
    /// `log_rate` is the most lines about calls and sessions in a second.
    pub(crate) fn new(log_rate: u32) -> Self {
        Self { call_log: Arc::new(CallLog::new(log_rate)), ..Self::default() }
    }
}
