//! A deterministic clock and source of ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use toolyard_dispatch::{Clock, Ids, Timestamp};

/// A clock that advances by a millisecond at each reading, so that no two events have the same time.
pub struct TickingClock(AtomicI64);

impl TickingClock {
    /// A clock that starts at this time.
    pub fn at(start: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(start)))
    }

    /// Advances the clock by this many milliseconds.
    pub fn advance(&self, by: i64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Ids in order, distinct over all dispatchers of the process.
pub struct CountingIds;

impl Ids for CountingIds {
    fn uuid(&self) -> uuid::Uuid {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = u128::from(NEXT.fetch_add(1, Ordering::SeqCst));
        uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
    }
}
