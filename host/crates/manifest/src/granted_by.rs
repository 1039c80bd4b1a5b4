//! The person or file that grants an entry of a manifest.

use serde::Deserialize;

/// The party that grants an entry of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum GrantedBy {
    /// The manifest itself grants it to every run.
    #[default]
    #[serde(rename = "always")]
    Operator,
    /// The user grants it when asked.
    #[serde(rename = "ask")]
    Person,
}

impl GrantedBy {
    /// The manifest's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "always",
            Self::Person => "ask",
        }
    }
}
