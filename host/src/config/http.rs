//! The table `[http]`: the host names that are served, and the web origins that may call.

use anyhow::Context as _;
use serde::Deserialize;
use toolyard_transport::http::host_origin::AllowedNames;

/// The table as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Http {
    /// Host names besides those of this machine's loopback.
    #[serde(default)]
    hosts: Vec<String>,
    /// Origins besides pages of this machine.
    #[serde(default)]
    origins: Vec<String>,
}

impl Http {
    /// The names as the transport checks them.
    ///
    /// # Errors
    /// The name that does not fit.
    pub fn resolve(&self) -> anyhow::Result<AllowedNames> {
        AllowedNames::new(&self.hosts, &self.origins).context("in [http]")
    }
}
