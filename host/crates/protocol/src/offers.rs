//! The lists that plugins offer.

/// The lists that plugins offer besides tools. A list that no plugin offers is not declared (R-1,
/// PR-1, CO-1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// Resources are offered.
    pub resources: bool,
    /// Prompts are offered.
    pub prompts: bool,
    /// Arguments can be completed.
    pub completions: bool,
}

impl Offers {
    /// All of them.
    pub const ALL: Self = Self { resources: true, prompts: true, completions: true };

    /// The union of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
        }
    }
}
