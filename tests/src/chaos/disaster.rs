//! What can happen to a host that shares a database, or to the database: which kinds there
//! are, and in which order they come.

use crate::dice::Dice;
use crate::fault_proxy::{Fault, Way};
use std::time::Duration;

/// How long a host counts as living after it was last heard of.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// A kind of disaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// kill -9 of a host; another one is started in its place.
    Kill,
    /// SIGSTOP of a host for longer than its lease, then SIGCONT.
    Pause,
    /// kill -9 of PostgreSQL; it is started again.
    Restart,
    /// What comes from and to the database comes late.
    Delay,
    /// Connections to the database break off after so many bytes.
    Cut,
    /// Nothing passes, and no connection breaks.
    Hole,
    /// Every connection to the database is reset once.
    Reset,
    /// They are, and so is each new one.
    Refuse,
    /// The database hears the host, and not the other way round: a commit comes, its answer
    /// does not.
    Unanswered,
    /// The host hears the database, and not the other way round.
    Unheard,
}

impl Kind {
    pub const ALL: [Self; 10] = [
        Self::Kill,
        Self::Pause,
        Self::Restart,
        Self::Delay,
        Self::Cut,
        Self::Hole,
        Self::Reset,
        Self::Refuse,
        Self::Unanswered,
        Self::Unheard,
    ];

    /// As it stands in a report.
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

    /// What is wrong with the way to the database meanwhile.
    pub fn fault(self, dice: &mut Dice) -> Fault {
        match self {
            Self::Delay => Fault::Delay(Duration::from_millis(5 + dice.roll(300))),
            Self::Cut => {
                let way = dice.pick(&[Way::ToServer, Way::ToClient]);
                // From "not even a greeting" to "some hundred statements".
                let most = 1 << (4 + dice.roll(14));
                Fault::Cut(way, dice.roll(most))
            }
            Self::Hole => Fault::Hole,
            Self::Refuse => Fault::Refuse,
            Self::Unanswered => Fault::Only(Way::ToServer),
            Self::Unheard => Fault::Only(Way::ToClient),
            Self::Kill | Self::Pause | Self::Restart | Self::Reset => Fault::None,
        }
    }

    /// Whether a host that it happens to for longer than its lease has lost that for sure.
    pub const fn takes_the_lease(self) -> bool {
        matches!(self, Self::Hole | Self::Refuse | Self::Unanswered | Self::Unheard)
    }
}

/// So long it lasts: well within the lease, or well beyond it.
pub(super) fn lasts(is_long: bool, dice: &mut Dice) -> Duration {
    let part = LEASE / 8;
    part * if is_long { 12 + dice.roll(8) as u32 } else { 1 + dice.roll(4) as u32 }
}

/// Kinds in an order by chance, each as often as any other. Every other time that one
/// comes, it comes for long.
pub(super) struct Bag {
    left: Vec<Kind>,
    is_long: [bool; Kind::ALL.len()],
    /// So often every kind has come.
    rounds: u32,
}

impl Bag {
    pub fn new(dice: &mut Dice) -> Self {
        Self { left: Vec::new(), is_long: Kind::ALL.map(|_| dice.roll(2) == 0), rounds: 0 }
    }

    /// Whether every kind has come.
    pub fn was_emptied(&self) -> bool {
        self.rounds > 1 || (self.rounds == 1 && self.left.is_empty())
    }

    /// The next one, and whether it is for long.
    pub fn draw(&mut self, dice: &mut Dice) -> (Kind, bool) {
        if self.left.is_empty() {
            self.left = Kind::ALL.to_vec();
            self.rounds += 1;
        }
        let kind = self.left.swap_remove(dice.roll(self.left.len() as u64) as usize);
        let number = Kind::ALL.iter().position(|other| *other == kind).expect("it is one of them");
        self.is_long[number] = !self.is_long[number];
        (kind, self.is_long[number])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_and_in_both_lengths() {
        let mut dice = Dice(7);
        let mut bag = Bag::new(&mut dice);
        let mut drawn = Vec::new();
        for _ in 0..2 * Kind::ALL.len() {
            assert_eq!(bag.was_emptied(), drawn.len() >= Kind::ALL.len());
            drawn.push(bag.draw(&mut dice));
        }
        for kind in Kind::ALL {
            for is_long in [false, true] {
                assert!(drawn.contains(&(kind, is_long)), "{kind:?} {is_long}");
            }
        }
        for _ in 0..100 {
            assert!(lasts(false, &mut dice) < LEASE * 2 / 3);
            assert!(lasts(true, &mut dice) >= LEASE * 3 / 2);
        }
    }
}
