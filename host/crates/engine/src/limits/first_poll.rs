//! Predicts whether the runs of a tool end or yield soon. Earlier runs are the only source of this
//! information.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The maximum length of a quick first poll. Computing beyond it is checked at each tick.
const MAX_QUICK_POLL: Duration = crate::limits::epoch::TICK;
/// No run has been observed yet.
const UNKNOWN: u32 = u32::MAX;
/// The weight of a slow first poll; a quick one has weight one.
const SLOW: u32 = 4;
/// From this score on the tool counts as slow: more than a fifth of its first polls are slow.
const THRESHOLD: u32 = 8;
/// The maximum score, which bounds how many quick polls make a tool quick again.
const MAX_SCORE: u32 = 16;

/// The history of the first polls of one tool.
#[derive(Debug)]
pub(crate) struct FirstPolls(AtomicU32);

impl Default for FirstPolls {
    fn default() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }
}

impl FirstPolls {
    /// Whether a run may start on a thread that other work waits for.
    pub fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) < THRESHOLD
    }

    /// Records the duration of a first poll.
    pub fn note(&self, first_poll: Duration) {
        let score = self.0.load(Ordering::Relaxed);
        // Two concurrent notes may count as one, which is harmless.
        let next = match (score, first_poll <= MAX_QUICK_POLL) {
            (UNKNOWN, true) => 0,
            (UNKNOWN, false) => THRESHOLD,
            (score, true) => score.saturating_sub(1),
            (score, false) => (score + SLOW).min(MAX_SCORE),
        };
        if next != score {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOWLY: Duration = Duration::from_millis(2);

    #[test]
    fn what_is_unknown_or_often_slow_is_not_quick() {
        let first_polls = FirstPolls::default();
        assert!(!first_polls.is_quick(), "unknown");
        first_polls.note(Duration::ZERO);
        assert!(first_polls.is_quick());
        first_polls.note(SLOWLY);
        assert!(first_polls.is_quick(), "once is chance");
        first_polls.note(SLOWLY);
        assert!(!first_polls.is_quick());
        for _ in 0..10 {
            first_polls.note(SLOWLY);
        }
        for _ in 0..(MAX_SCORE - THRESHOLD + 1) {
            assert!(!first_polls.is_quick());
            first_polls.note(Duration::ZERO);
        }
        assert!(first_polls.is_quick(), "it has changed");
    }

    #[test]
    fn a_slow_beginning_is_soon_forgiven() {
        let first_polls = FirstPolls::default();
        first_polls.note(SLOWLY);
        assert!(!first_polls.is_quick());
        first_polls.note(Duration::ZERO);
        assert!(first_polls.is_quick());
    }
}
