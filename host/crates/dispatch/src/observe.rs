//! What is measured and seen of calls: metrics, traces, observers.

pub(crate) mod call_end;
pub(crate) mod metrics;
pub(crate) mod observer;
pub(crate) mod trace;
