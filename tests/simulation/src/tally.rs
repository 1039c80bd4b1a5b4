//! Counts the events of a run, so that a run in which nothing happened does not pass for one in which nothing
//! went wrong.

use std::fmt;
use std::ops::AddAssign;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A host was killed.
    Crash,
    /// A host was paused and woken.
    Pause,
    /// A clock was set to another time.
    ClockStep,
    /// A superseded run ended, and its result was refused.
    RefusedZombie,
    /// A run got an answer to a question of an earlier attempt.
    ReplayedAnswer,
    /// A task ended because its ttl passed.
    Expiry,
    /// A store call failed before the store acted.
    FaultBefore,
    /// A store call failed after the store acted.
    FaultAfter,
    /// A store call was delayed.
    SlowCall,
    /// A host that shut down left a task to the next host.
    HandOver,
    /// A cancellation was acknowledged.
    Cancel,
    /// A task ran again.
    Rerun,
    /// A task ended because its host died.
    Orphan,
    /// A task was created, and its client got the reply.
    Creation,
    /// A running call became a task.
    Promotion,
    /// A task ended with a result.
    Result,
    /// A client answered a question.
    Answer,
    /// A question was answered more than once.
    SecondAnswer,
    /// A stateless client got questions in the reply to its request.
    Round,
    /// A client got a store error.
    StoreError,
    /// A listing was checked.
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

/// The counts of all kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally([u64; ALL.len()]);

impl Tally {
    /// Counts one event.
    pub fn count(&mut self, happened: Happened) {
        self.0[happened as usize] += 1;
    }

    /// The kinds that never happened.
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
