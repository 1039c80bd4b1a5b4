//! The host, as far as pages show it.

use crate::audit::{AuditHits, AuditSearch};
use futures_util::future::BoxFuture;

/// The state of the host that only its assembly knows.
pub trait HostState: Send + Sync + 'static {
    /// The names of the health checks that fail now.
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>>;

    /// The components of the plugin folder.
    fn plugins(&self) -> Vec<PluginState>;

    /// The component of the plugin folder with this file name.
    fn plugin(&self, file: &str) -> Option<PluginDetail>;

    /// Searches the audit log, the newest entries first.
    fn search_audit(&self, search: AuditSearch) -> BoxFuture<'_, AuditHits>;
}

/// A component of the plugin folder.
#[derive(Debug, Clone)]
pub struct PluginState {
    /// The file name of the plugin.
    pub file: String,
    /// The digest of the component that is served.
    pub digest: Option<String>,
    /// The number of its tools; `None` if it is not served.
    pub tools: Option<usize>,
    /// Why it is not served, or why the version before is served.
    pub problem: Option<String>,
    /// The folders and hosts that its manifest leaves to the person who calls (`grant = "ask"`).
    pub asks: Vec<String>,
}

/// The source and the signer of a plugin, as the lock file names them.
#[derive(Debug, Clone)]
pub struct LockedPlugin {
    /// The source.
    pub source: String,
    /// The signer; `None` if it is not signed.
    pub signer: Option<String>,
    /// Whether a new version waits for a person.
    pub is_held: bool,
}

/// A component of the plugin folder with its grants and limits.
#[derive(Debug, Clone)]
pub struct PluginDetail {
    /// The state of the plugin.
    pub state: PluginState,
    /// The entry of the lock file, if it lists it.
    pub locked: Option<LockedPlugin>,
    /// The names of its tools that it does not serve, and why.
    pub left_out: Vec<String>,
    /// The grants of the plugin, one line each.
    pub granted: Vec<String>,
    /// The uses that its imports allow and its manifest does not grant.
    pub missing: Vec<String>,
    /// The grants that it never uses.
    pub unused: Vec<String>,
    /// The limits of its tools: the name of a tool, and the keys and values of its limits.
    pub limits: Vec<(String, Vec<(&'static str, String)>)>,
    /// The maximum number of concurrent runs, and of waiting tasks, if its manifest sets them.
    pub bounds: (Option<u32>, Option<u32>),
}
