//! The findings of a tap.

use super::Verdict;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

static ASIDE: AtomicBool = AtomicBool::new(false);

/// Turns the kit's checks off for this process, for programs that measure time.
pub fn stand_aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// Whether the kit's checks are off.
pub(crate) fn stands_aside() -> bool {
    ASIDE.load(Ordering::Relaxed)
}

/// A message that the host should not have sent.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The problems of the message.
    pub problems: Vec<String>,
    /// The message.
    pub message: String,
}

impl Violation {
    /// Converts the verdict on a message; `None` if it found no problem.
    pub fn of(verdict: Verdict, message: &[u8]) -> Option<Self> {
        let Verdict { problems, .. } = verdict;
        let mut message = String::from_utf8_lossy(message).into_owned();
        message.truncate(message.floor_char_boundary(2_000));
        (!problems.is_empty()).then_some(Self { problems, message })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    in {}", self.problems.join("\n    "), self.message)
    }
}

/// The findings about all messages.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The number of checked messages.
    pub checked: usize,
    /// The invalid messages.
    pub violations: Vec<Violation>,
}

impl Report {
    pub(super) fn add(&mut self, verdict: Verdict, message: &[u8]) {
        self.checked += 1;
        self.violations.extend(Violation::of(verdict, message));
    }

    /// Asserts that there were messages, and that all were valid.
    ///
    /// # Panics
    /// If that is not so.
    pub fn expect_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
        assert!(self.checked > 0, "no message passed the tap");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checked, violations } = self;
        write!(f, "{checked} messages of the host were checked, {} were wrong", violations.len())?;
        violations.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}
