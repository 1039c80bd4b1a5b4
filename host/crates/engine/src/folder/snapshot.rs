//! The offer of the folder at one moment, for the dispatcher and the operator.

use crate::folder::grant_summary::GrantSummary;
use std::sync::Arc;
use std::time::Duration;
use toolyard_manifest::Limits;
use toolyard_task::{Catalog, Digest};

/// The offer and the state of each file.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The tools, resources, prompts and completions. It stays the same object as long as none of
    /// them changes, so `Arc::ptr_eq` tells whether a list may have changed.
    pub catalog: Arc<Catalog>,
    /// The files, by name.
    pub plugins: Vec<PluginReport>,
    /// The files whose state is still unknown because they are being loaded.
    pub loading: Vec<String>,
}

/// The state of one file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginReport {
    /// The file's name.
    pub file: String,
    /// The serving component, if any.
    pub digest: Option<Digest>,
    /// The tools that it serves, by the names that clients use.
    pub tools: Vec<String>,
    /// The limits of a run of each tool, in the order of `tools`.
    pub limits: Vec<Arc<Limits>>,
    /// The grants of the plugin beside the imports that it uses; `None` if nothing is served.
    pub grants: Option<Arc<GrantSummary>>,
    /// The maximum number of concurrent runs of the plugin, if its manifest sets one.
    pub concurrency: Option<u32>,
    /// The maximum number of its waiting tasks, if its manifest sets one.
    pub queue: Option<u32>,
    /// The prompts, by the names that clients use.
    pub prompts: Vec<String>,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it completes arguments.
    pub has_completion: bool,
    /// A sentence for each tool and prompt that the plugin does not serve because another plugin has the
    /// name.
    pub left_out: Vec<String>,
    /// Whether it serves, and if not, why.
    pub state: PluginState,
    /// How long it took to compile; `None` if its code was in the cache or it has none.
    pub compiled_in: Option<Duration>,
}

impl PluginReport {
    /// Why the version in the folder is not loaded, with the name of its file.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match &self.state {
            PluginState::Refused { why } | PluginState::KeptPrevious { why } => Some(why),
            PluginState::Serving | PluginState::Disabled => None,
        }
    }
}

/// Whether a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginState {
    /// The version in the folder serves.
    Serving,
    /// The previous version serves; the one in the folder was rejected.
    KeptPrevious {
        /// Why it was rejected.
        why: String,
    },
    /// No version serves.
    Refused {
        /// Why it was refused.
        why: String,
    },
    /// The manifest says `enabled = false`.
    Disabled,
}
