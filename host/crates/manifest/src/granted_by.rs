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
