//! The table `[auth]`: who may call, and how it is found out.

use serde::Deserialize;

/// What was written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auth {}
