//! The time of a store: its clock's time, except that it never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use toolyard_task::Clock;
use toolyard_task::wire::Timestamp;

/// A stored time further ahead of the clock than this came from a clock that was wrong. Following
/// it would stop time until the right clock catches up, and no ttl would pass meanwhile.
/// `store_time` of PostgreSQL has the same bound.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;

/// The clocks of two machines differ by less. The log reports a store whose time is further ahead
/// than this.
pub(crate) const MAX_SKEW_MS: u64 = 60 * 1000;

/// Logs a warning if a time of the store is ahead of its clock.
pub(crate) fn warn_if_ahead(stored: Timestamp, now: Timestamp) {
    let ahead = stored.since(now);
    if ahead > MAX_AHEAD_MS {
        tracing::warn!(
            event = "clock.store_far_ahead", %stored, %now,
            "store holds times far in the future; the host ignores them"
        );
    } else if ahead > MAX_SKEW_MS {
        tracing::warn!(
            event = "clock.store_ahead", %stored, %now,
            "store is ahead of the clock; no task expires until the clock catches up"
        );
    }
}

/// The latest time that a clock has shown.
#[derive(Default)]
pub(crate) struct LatestTime(AtomicI64);

impl LatestTime {
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a time of the clock and returns it.
    pub(crate) fn saw(&self, now: i64) -> Timestamp {
        self.note(now);
        Timestamp(now)
    }

    /// Records a time of the clock and returns the latest one.
    pub(crate) fn note(&self, now: i64) -> Timestamp {
        let now = Timestamp(now);
        let latest = Timestamp(self.0.fetch_max(now.0, Ordering::Relaxed)).max(now);
        if latest.since(now) <= MAX_AHEAD_MS {
            return latest;
        }
        // The clock was wrong and has been corrected. As after a restart, it is trusted from now
        // on.
        if self.0.compare_exchange(latest.0, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(
                event = "clock.set_back", latest = %latest, %now,
                "clock was far ahead and was set back"
            );
        }
        now
    }
}

/// A clock whose times never decrease, so that a step back of the wall clock does not place a new
/// task before one that was already listed.
pub(crate) struct MonotonicClock {
    clock: Arc<dyn Clock>,
    latest: LatestTime,
}

impl MonotonicClock {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, latest: LatestTime::default() }
    }

    /// Continues from a time that the store used before a restart.
    pub(crate) fn resume(&self, from: Timestamp) {
        let now = self.clock.now();
        warn_if_ahead(from, now);
        if from.since(now) <= MAX_AHEAD_MS {
            self.latest.0.fetch_max(from.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.latest.note(self.clock.now().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_store_contract::ManualClock;

    #[test]
    fn time_does_not_go_back_and_a_wrong_future_is_not_followed() {
        let clock = ManualClock::at(1_000);
        let monotonic = MonotonicClock::new(clock.clone());
        assert_eq!(monotonic.now(), Timestamp(1_000));
        clock.set(400);
        assert_eq!(monotonic.now(), Timestamp(1_000));
        monotonic.resume(Timestamp(5_000));
        assert_eq!(monotonic.now(), Timestamp(5_000));
        monotonic.resume(Timestamp(5_000 + MAX_AHEAD_MS as i64));
        assert_eq!(monotonic.now(), Timestamp(5_000));
        clock.set(6_000);
        assert_eq!(monotonic.now(), Timestamp(6_000));
        clock.set(7_000 + MAX_AHEAD_MS as i64);
        assert_eq!(monotonic.now(), Timestamp(7_000 + MAX_AHEAD_MS as i64));
        clock.set(7_000);
        assert_eq!(monotonic.now(), Timestamp(7_000 + MAX_AHEAD_MS as i64));
        clock.set(6_999);
        assert_eq!(monotonic.now(), Timestamp(6_999), "it was wrong by more than a day");
        clock.set(6_000);
        assert_eq!(monotonic.now(), Timestamp(6_999));
    }
}
