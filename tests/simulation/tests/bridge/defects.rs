//! Repeats that the host does not prevent. They are tolerated and counted; with `STRICT` in the environment they
//! fail the test.

use crate::effects::Seen;

/// The host handles the equal call and the departure of the client in the same instant.
pub const AT_ONCE_AGAIN: &str = "LIMIT: an equal call in the same instant as its client leaves does not join";
/// The run ends with its host in the instant in which its client leaves.
pub const ENDED_AS_LEFT: &str =
    "LIMIT: a run that ends in the instant in which its client leaves is not kept";

/// All known defects.
pub const DEFECTS: [&str; 2] = [AT_ONCE_AGAIN, ENDED_AS_LEFT];

/// The longest time in milliseconds that a slow store takes for the writes of one event.
const SLOW: i64 = 200;

impl Seen {
    /// How long one event may take.
    const fn instant(&self) -> i64 {
        if self.promises.is_slow { SLOW } else { 0 }
    }

    /// The limit that explains why the host did not keep this call.
    pub fn ended_as_left(&self, number: usize) -> Option<&'static str> {
        let call = &self.calls[number];
        ((call.ended_at - call.left_at).abs() <= self.instant()).then_some(ENDED_AS_LEFT)
    }

    /// The limit that explains why the later call did not join the earlier one.
    pub fn defect_of_repeat(&self, earlier: usize, later: usize) -> Option<&'static str> {
        let (call, sent) = (&self.calls[earlier], self.calls[later].sent);
        match (call.is_kept, call.task) {
            (true, _) if sent - call.left_at <= self.instant() => Some(AT_ONCE_AGAIN),
            (true, None) => self.ended_as_left(earlier),
            _ => None,
        }
    }
}
