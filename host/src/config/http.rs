//! The table `[http]`: the names that are served, and the pages that may call.

use anyhow::Context as _;
use serde::Deserialize;
use toolyard_transport::http::host_origin::AllowedNames;

/// What was written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Http {
    /// Hosts beside those of this machine's loopback.
    #[serde(default)]
    hosts: Vec<String>,
    /// Origins beside pages of this machine.
    #[serde(default)]
    origins: Vec<String>,
}

impl Http {
    /// What it means.
    ///
    /// # Errors
    /// What does not fit.
    pub fn meaning(&self) -> anyhow::Result<AllowedNames> {
        AllowedNames::new(&self.hosts, &self.origins).context("in [http]")
    }
}
