//! The time of the store: the server's, except that it does not go back behind what was
//! seen here.

use std::sync::atomic::{AtomicI64, Ordering};
use toolyard_task::wire::Timestamp;

/// A time further ahead than this is not followed, as `store_time` has it.
const BELIEVABLE_MS: i64 = 24 * 60 * 60 * 1000;

/// The latest time that the server has given.
#[derive(Default)]
pub(super) struct Floor(AtomicI64);

impl Floor {
    /// What `store_time` is to be given.
    pub(super) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The server gave this time.
    pub(super) fn saw(&self, now: i64) -> Timestamp {
        let latest = self.0.fetch_max(now, Ordering::Relaxed);
        // It was wrong by more than that, and has been set right.
        if latest.saturating_sub(now) > BELIEVABLE_MS {
            // Else somebody was faster.
            let _ = self.0.compare_exchange(latest, now, Ordering::Relaxed, Ordering::Relaxed);
        }
        Timestamp(now)
    }
}
