//! The disasters that can happen to a host that shares a database, or to the database: their kinds and their
//! order.

use crate::dice::Dice;
use crate::fault_proxy::{Fault, Way};
use std::time::Duration;

/// The time for which a host counts as living after its last heartbeat.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// A kind of disaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// kill -9 of a host; a replacement starts.
    Kill,
    /// SIGSTOP of a host for longer than its lease, then SIGCONT.
    Pause,
    /// kill -9 of PostgreSQL; it starts again.
    Restart,
    /// Data from and to the database arrives late.
    Delay,
    /// Connections to the database break after a number of bytes.
    Cut,
    /// No data passes, and no connection breaks.
    Hole,
    /// Every connection to the database is reset once.
    Reset,
    /// All connections are reset, and so is each new one.
    Refuse,
    /// Data passes to the database only: a commit arrives, and its answer does not.
    Unanswered,
    /// Data passes from the database only.
    Unheard,
}

impl Kind {
    pub const ALL: [Self; 10] = {
        use Kind::*;
        [Kill, Pause, Restart, Delay, Cut, Hole, Reset, Refuse, Unanswered, Unheard]
    };

    /// The name in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kills -9",
            Self::Pause => "hosts paused for longer than their lease",
            Self::Restart => "kills -9 of PostgreSQL",
            Self::Delay => "connections to PostgreSQL delayed",
            Self::Cut => "cut off after so many bytes",
            Self::Hole => "black holes",
            Self::Reset => "reset once",
            Self::Refuse => "refused for a while",
            Self::Unanswered => "one way, to PostgreSQL",
            Self::Unheard => "one way, from PostgreSQL",
        }
    }

    /// The fault of the proxy during the disaster.
    pub fn fault(self, dice: &mut Dice) -> Fault {
        match self {
            Self::Delay => Fault::Delay(Duration::from_millis(5 + dice.below(300))),
            Self::Cut => {
                let way = dice.pick(&[Way::ToServer, Way::ToClient]);
                // The limit ranges from less than a greeting to some hundred statements.
                let most = 1 << (4 + dice.below(14));
                Fault::Cut(way, dice.below(most))
            }
            Self::Hole => Fault::Hole,
            Self::Refuse => Fault::Refuse,
            Self::Unanswered => Fault::Only(Way::ToServer),
            Self::Unheard => Fault::Only(Way::ToClient),
            Self::Kill | Self::Pause | Self::Restart | Self::Reset => Fault::None,
        }
    }

    /// Whether a host certainly loses its lease if this lasts longer than the lease.
    pub const fn takes_the_lease(self) -> bool {
        matches!(self, Self::Hole | Self::Refuse | Self::Unanswered | Self::Unheard)
    }
}

/// The duration of a disaster: well within the lease, or well beyond it.
pub(super) fn lasts(is_long: bool, dice: &mut Dice) -> Duration {
    let part = LEASE / 8;
    part * if is_long { 12 + dice.below(8) as u32 } else { 1 + dice.below(4) as u32 }
}

/// Kinds in random order, each as often as any other. Every other time, a kind lasts long.
pub(super) struct Schedule {
    left: Vec<Kind>,
    is_long: [bool; Kind::ALL.len()],
    /// How often every kind has been drawn.
    rounds: u32,
}

impl Schedule {
    pub fn new(dice: &mut Dice) -> Self {
        Self { left: Vec::new(), is_long: Kind::ALL.map(|_| dice.below(2) == 0), rounds: 0 }
    }

    /// Whether every kind has been drawn.
    pub fn was_emptied(&self) -> bool {
        self.rounds > 1 || (self.rounds == 1 && self.left.is_empty())
    }

    /// The next kind, and whether it lasts long.
    pub fn draw(&mut self, dice: &mut Dice) -> (Kind, bool) {
        if self.left.is_empty() {
            self.left = Kind::ALL.to_vec();
            self.rounds += 1;
        }
        let kind = self.left.swap_remove(dice.below(self.left.len() as u64) as usize);
        let number = Kind::ALL.iter().position(|other| *other == kind).expect("it is one of them");
        self.is_long[number] = !self.is_long[number];
        (kind, self.is_long[number])
    }
}
