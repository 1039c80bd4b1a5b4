//! The lists that plugins offer.

use serde_json::{Value, json};

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

    /// The capabilities of a server with these offers.
    pub(crate) fn capabilities(self) -> Value {
        let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
        if self.resources {
            capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
        }
        if self.prompts {
            capabilities["prompts"] = json!({"listChanged": true});
        }
        if self.completions {
            capabilities["completions"] = json!({});
        }
        capabilities
    }

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
