//! The port to `toolyard.lock`, which says which components of the folder may be loaded, and with which grants.
//! The host implements it.

use std::fmt::Debug;
use std::sync::Arc;
use toolyard_task::wire::RawJson;

/// The name of the lock file in the plugin folder.
pub const LOCK_FILE: &str = "toolyard.lock";
/// The maximum size of the lock file, in bytes.
pub const MAX_LOCK_BYTES: u64 = 4 << 20;
/// The maximum size of a provenance file, in bytes.
pub const MAX_PROVENANCE_BYTES: u64 = 256 << 10;

/// The name of the file beside a component that has the signatures of its publisher.
#[must_use]
pub fn provenance_file(component: &str) -> String {
    format!("{component}.provenance.json")
}

/// Reads the lock file.
pub trait LockReader: Debug + Send + Sync {
    /// The entries of a lock file. `text` is `None` if there is no file, and an error says why it cannot be read;
    /// the entries then refuse every component that a lock file could restrict.
    fn read(&self, text: Result<Option<&[u8]>, String>) -> Arc<dyn LockEntries>;

    /// The number of new versions that wait for a person, for the metrics.
    fn held(&self) -> usize;
}

/// The entries of one version of the lock file.
pub trait LockEntries: Debug + Send + Sync {
    /// Whether the lock file could be read. If not, every check fails, and a plugin that serves goes on while its files
    /// stay as they are.
    fn is_readable(&self) -> bool;

    /// Whether the component in the folder is the one of the entry of `file`. If it is not, the version before
    /// goes on serving.
    ///
    /// # Errors
    /// Why not, and the command that helps.
    fn check_component(&self, file: &str, digest: &str) -> Result<(), String>;

    /// Whether a plugin may have these grants, and is signed as its entry says. `grants` are those of
    /// [`Manifest::grant_lines`](toolyard_manifest::Manifest::grant_lines), and `provenance` is the content of
    /// [`provenance_file`]. If not, no version serves.
    ///
    /// # Errors
    /// Why not, and the command that helps.
    fn check_plugin(&self, plugin: &LockedPlugin<'_>) -> Result<(), String>;
}

/// The parts of a plugin that a lock file restricts.
#[derive(Debug)]
pub struct LockedPlugin<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The digest of the component that is to serve, in hexadecimal.
    pub digest: &'a str,
    /// The grants of its manifest.
    pub grants: &'a [String],
    /// The other settings of its manifest that a lock file pins.
    pub settings: &'a [String],
    /// The definitions of its component.
    pub definitions: Vec<DeclaredDefinition>,
    /// The signatures of its publisher; an error says why they cannot be read.
    pub provenance: Result<Option<&'a [u8]>, String>,
}

/// A tool or a prompt as the component declares it.
#[derive(Debug, Clone)]
pub struct DeclaredDefinition {
    /// `tool` or `prompt`.
    pub kind: &'static str,
    /// The name of the tool or the prompt in the component.
    pub name: String,
    /// The JSON that MCP lists for it, under this name.
    pub json: RawJson,
}
