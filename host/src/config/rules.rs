//! The tables `[[rules]]`: who may use what.

use serde::Deserialize;

/// One rule, as it was written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {}
