//! x
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use toolyard_task::Clock;
use toolyard_task::wire::Timestamp;
/// A clock that tests set.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);
impl ManualClock {
    /// x
    #[must_use]
    pub fn at(ms: i64) -> Arc<Self> { Arc::new(Self(AtomicI64::new(ms))) }
    /// x
    pub fn set(&self, ms: i64) { self.0.store(ms, Ordering::Relaxed); }
}
impl Clock for ManualClock {
    fn now(&self) -> Timestamp { Timestamp(self.0.load(Ordering::Relaxed)) }
}
