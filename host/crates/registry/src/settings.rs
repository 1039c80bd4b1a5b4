//! Settings of the client.

use crate::credentials::Store;
use crate::error::Problem;
use crate::reference::is_loopback;
use hyper_util::client::proxy::matcher::Matcher;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a [`Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings of single registries, by host and port as references name them.
    pub registries: BTreeMap<String, Registry>,
    /// The largest component that is read, in bytes.
    pub max_component: u64,
    /// The credentials of this machine.
    pub credentials: Store,
    /// How long a connection may take, with its proxy and TLS.
    pub connect_timeout: Duration,
    /// How long a server may send nothing.
    pub read_timeout: Duration,
    /// The proxies that connections use.
    pub proxies: Proxies,
}

impl Settings {
    /// Settings with the usual timeouts, without settings of single registries and without proxies.
    #[must_use]
    pub fn new(max_component: u64, credentials: Store) -> Self {
        Self {
            registries: BTreeMap::new(),
            max_component,
            credentials,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            proxies: Proxies::none(),
        }
    }

    /// The scheme by which a host is reached.
    pub(crate) fn scheme(&self, host: &str) -> &'static str {
        match self.registries.get(host) {
            Some(registry) if registry.plain_http => "http",
            Some(registry) if registry.ca.is_some() => "https",
            _ if is_loopback(host) => "http",
            _ => "https",
        }
    }

    /// Whether this host may be reached without encryption.
    pub(crate) fn may_be_plain(&self, host: &str) -> bool {
        is_loopback(host) || self.registries.get(host).is_some_and(|registry| registry.plain_http)
    }

    pub(crate) fn check(&self) -> Result<(), Problem> {
        let both = |(_, registry): &(&String, &Registry)| registry.plain_http && registry.ca.is_some();
        match self.registries.iter().find(both) {
            None => Ok(()),
            Some((host, _)) => Err(Problem::Other(format!(
                "`registries.\"{host}\"` has both `ca` and `plain-http`; keep one of them"
            ))),
        }
    }
}

/// The settings of one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Registry {
    /// A PEM file of certificates that are trusted in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// Whether the registry is reached without TLS. A registry on this machine is, unless it has a `ca`.
    pub plain_http: bool,
}

/// The proxies that connections use, with the hosts that need none. Connections to this machine use none.
#[derive(Clone)]
pub struct Proxies(Arc<Matcher>);

impl Proxies {
    /// No proxy.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Matcher::builder().build()))
    }

    /// The proxies of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case.
    #[must_use]
    pub fn from_environment() -> Self {
        Self(Arc::new(Matcher::from_env()))
    }

    /// The same proxy for all hosts but those of `no_proxy`, a list in the form of the variable.
    #[must_use]
    pub fn all(proxy: &str, no_proxy: &str) -> Self {
        Self(Arc::new(Matcher::builder().all(proxy.to_owned()).no(no_proxy.to_owned()).build()))
    }

    pub(crate) fn matcher(&self) -> &Matcher {
        &self.0
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy may have a password.
        f.write_str("Proxies")
    }
}
