//! The clock of a run, which moves in steps.

use std::num::NonZeroU32;

/// The last reading, in steps since the base time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepClock {
    base_ms: u64,
    step_ms: u64,
    steps: u64,
}

impl StepClock {
    pub(crate) fn new(base_ms: u64, step: NonZeroU32) -> Self {
        Self { base_ms, step_ms: u64::from(step.get()), steps: 0 }
    }

    /// The steps from the last reading to this time; 0 if the clock of this host is behind.
    pub(crate) const fn steps_to(&self, now_ms: u64) -> u64 {
        (now_ms.saturating_sub(self.base_ms) / self.step_ms).saturating_sub(self.steps)
    }

    /// Moves the clock. A damaged journal may exceed the range, and then the clock stands still.
    pub(crate) const fn advance(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// The last reading in milliseconds since 1970.
    pub(crate) const fn now_ms(&self) -> u64 {
        self.base_ms.saturating_add(self.steps.saturating_mul(self.step_ms))
    }
}
