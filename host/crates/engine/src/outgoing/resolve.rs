//! From a name to addresses.

use async_trait::async_trait;
use std::io;
use std::net::IpAddr;

/// Finds the addresses of a name. A test has one that changes its mind.
#[async_trait]
pub(crate) trait Resolver: Send + Sync {
    /// # Errors
    /// If there are none, or nobody can be asked.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of this machine.
pub(crate) struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip().to_canonical()).collect())
    }
}
