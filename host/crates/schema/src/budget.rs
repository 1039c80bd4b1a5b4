//! Bounds the cost of a check. The unit is a step: one schema applied to one value, or work that
//! takes about as long (some ten nanoseconds).

use std::time::{Duration, Instant};

/// The number of steps between two calls of the function that limits a check.
const SLICE: u64 = 16_384;
/// The bounds of a check on a thread that other work waits for: under a millisecond.
const QUICK_STEPS: u64 = 20_000;
const QUICK_TIME: Duration = Duration::from_millis(1);

/// Why a check ended without a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The budget is spent.
    Spent,
    /// The caller has cancelled or disconnected.
    Stopped,
    /// The schema leads too deep into the value for the stack.
    TooDeep,
}

/// Decides after each slice of steps whether a check continues.
pub type Look<'a> = dyn FnMut() -> Result<(), Halt> + 'a;

/// The remaining steps of a check.
pub struct Budget<'a> {
    left: u64,
    limit: Limit<'a>,
}

enum Limit<'a> {
    Quick {
        until: Option<Instant>,
    },
    Looked(&'a mut Look<'a>),
    #[cfg(test)]
    Unlimited,
}

impl<'a> Budget<'a> {
    /// A budget for a thread that serves clients.
    #[must_use]
    pub fn quick() -> Self {
        Self { left: QUICK_STEPS, limit: Limit::Quick { until: None } }
    }

    /// A budget of exactly this many steps.
    #[must_use]
    pub fn steps(steps: u64) -> Self {
        Self { left: steps, limit: Limit::Quick { until: None } }
    }

    /// A budget that calls `look` every 16,384 steps to ask whether the check may continue.
    pub fn looked_after(look: &'a mut Look<'a>) -> Self {
        Self { left: SLICE, limit: Limit::Looked(look) }
    }

    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self { left: 0, limit: Limit::Unlimited }
    }

    /// Spends steps.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Halt> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.look(),
        }
    }

    #[cold]
    fn look(&mut self) -> Result<(), Halt> {
        match &mut self.limit {
            Limit::Quick { .. } => Err(Halt::Spent),
            Limit::Looked(look) => {
                self.left = SLICE;
                look()
            }
            #[cfg(test)]
            Limit::Unlimited => Ok(()),
        }
    }

    /// Spends steps for regular expressions, whose cost depends on more than the length of the
    /// text. Checks the clock too.
    pub(crate) fn spend_on_pattern(&mut self, steps: u64) -> Result<(), Halt> {
        if let Limit::Quick { until } = &mut self.limit {
            let now = Instant::now();
            if now > *until.get_or_insert(now + QUICK_TIME) {
                return Err(Halt::Spent);
            }
            return self.spend(steps);
        }
        self.spend(steps.max(SLICE / 16))
    }
}
