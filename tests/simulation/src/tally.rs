//! What a run contained, so that a run in which nothing happened is not taken for one
//! in which nothing went wrong.

use std::fmt;
use std::ops::AddAssign;

/// What happened, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A host was killed.
    Crash,
    /// A host was stopped for a while, and woke.
    Pause,
    /// A clock was set to another time.
    ClockStep,
    /// A run ended that had been superseded, and what it came to was refused.
    RefusedZombie,
    /// A run got an answer that an earlier attempt had asked for.
    ReplayedAnswer,
    /// A task was ended by its ttl.
    Expiry,
    /// A call of a store was made to fail before it did anything.
    FaultBefore,
    /// A call of a store was made to fail after it was done.
    FaultAfter,
    /// A call of a store was held up.
    SlowCall,
    /// A task was left to the next host by one that was shut down.
    HandOver,
    /// A cancel was acknowledged.
    Cancel,
    /// A task was run again.
    Rerun,
    /// A task was ended because its host had gone.
    Orphan,
    /// A task was created and its client was told.
    Creation,
    /// A running call became a task.
    Promotion,
    /// A task ended with a result.
    Result,
    /// A client answered a question.
    Answer,
    /// A question was answered more than once.
    SecondAnswer,
    /// A stateless client was asked by the answer to its request.
    Round,
    /// A client was told that the store failed.
    StoreError,
    /// A listing was looked at.
    Listing,
    /// A host gave up its incarnation because it could not renew its lease in time.
    LostLease,
}

const ALL: [(Happened, &str); 22] = [
    (Happened::Crash, "crashes"),
    (Happened::Pause, "pauses"),
    (Happened::ClockStep, "steps of clocks"),
    (Happened::RefusedZombie, "refused zombies"),
    (Happened::ReplayedAnswer, "replayed answers"),
    (Happened::Expiry, "expiries"),
    (Happened::FaultBefore, "store faults before the write"),
    (Happened::FaultAfter, "store faults after the write"),
    (Happened::SlowCall, "slow store calls"),
    (Happened::HandOver, "hand-overs"),
    (Happened::Cancel, "acknowledged cancels"),
    (Happened::Rerun, "re-runs"),
    (Happened::Orphan, "orphans ended"),
    (Happened::Creation, "acknowledged creations"),
    (Happened::Promotion, "promotions"),
    (Happened::Result, "results"),
    (Happened::Answer, "answers"),
    (Happened::SecondAnswer, "second answers"),
    (Happened::Round, "rounds"),
    (Happened::StoreError, "errors told to clients"),
    (Happened::Listing, "listings"),
    (Happened::LostLease, "lost leases"),
];

/// How often each thing happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally([u64; ALL.len()]);

impl Tally {
    /// It happened once more.
    pub fn count(&mut self, happened: Happened) {
        self.0[happened as usize] += 1;
    }

    /// What never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        ALL.iter().filter(|(happened, _)| self.0[*happened as usize] == 0).map(|(_, name)| *name).collect()
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        for (here, there) in self.0.iter_mut().zip(other.0) {
            *here += there;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (happened, name) in ALL {
            writeln!(f, "{:>10} {name}", self.0[happened as usize])?;
        }
        Ok(())
    }
}
