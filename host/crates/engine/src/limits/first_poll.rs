//! Whether runs of something are quick to end or to yield. Learned from the runs
//! themselves, because nothing else tells.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A first poll of this length is quick: what follows is looked at each tick.
const QUICK: Duration = crate::limits::epoch::TICK;
/// Nothing is known yet.
const UNKNOWN: u32 = u32::MAX;
/// What a slow first poll counts, against one for a quick one.
const SLOW: u32 = 4;
/// From here on it counts as slow: more than a fifth of the polls are.
const THRESHOLD: u32 = 8;
/// It never takes more quick ones than this to be trusted again.
const CEILING: u32 = 16;

/// What is known of the first polls of one tool.
#[derive(Debug)]
pub(crate) struct FirstPolls(AtomicU32);

impl Default for FirstPolls {
    fn default() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }
}

impl FirstPolls {
    /// Whether it may begin on a thread that others wait for.
    pub fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) < THRESHOLD
    }

    /// A first poll took so long.
    pub fn note(&self, first_poll: Duration) {
        let score = self.0.load(Ordering::Relaxed);
        // Two notes at once may count as one, which changes nothing that matters.
        let next = match (score, first_poll <= QUICK) {
            (UNKNOWN, true) => 0,
            (UNKNOWN, false) => THRESHOLD,
            (score, true) => score.saturating_sub(1),
            (score, false) => (score + SLOW).min(CEILING),
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
        for _ in 0..(CEILING - THRESHOLD + 1) {
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
