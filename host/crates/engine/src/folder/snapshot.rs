//! What the folder offers at one moment, for the dispatcher and for people.

use std::sync::Arc;
use std::time::Duration;
use toolyard_manifest::Limits;
use toolyard_task::{Catalog, Digest};

/// What is on offer, and how each file fares.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The tools, and what else there is. As long as all that stays the same it is
    /// the same object, so `Arc::ptr_eq` tells whether a list may have changed.
    pub catalog: Arc<Catalog>,
    /// The files, by name.
    pub plugins: Vec<PluginReport>,
    /// The files that are not known yet, because they are being loaded.
    pub loading: Vec<String>,
}

/// How one file of the folder fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginReport {
    /// The file's name.
    pub file: String,
    /// The component that serves, if one does.
    pub digest: Option<Digest>,
    /// The tools that it serves, by the names that clients use.
    pub tools: Vec<String>,
    /// What a run of each of the tools may use, in the order of `tools`.
    pub limits: Vec<Arc<Limits>>,
    /// How many runs of the plugin there may be at once, where its manifest says.
    pub concurrency: Option<u32>,
    /// How many of its tasks may wait for their turn, where its manifest says.
    pub queue: Option<u32>,
    /// The prompts, by the names that clients use.
    pub prompts: Vec<String>,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it completes arguments.
    pub has_completion: bool,
    /// Its tools and prompts that it does not serve because another plugin has their names,
    /// a sentence each.
    pub left_out: Vec<String>,
    /// Whether it serves, and if not, why.
    pub state: PluginState,
    /// How long it took to compile; `None` if its code was in the cache, or if
    /// there is none.
    pub compiled_in: Option<Duration>,
}

/// Whether a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginState {
    /// As it is in the folder.
    Serving,
    /// In the version before; the one in the folder is not taken.
    KeptPrevious {
        /// Why not.
        why: String,
    },
    /// Not at all.
    Refused {
        /// Why not.
        why: String,
    },
    /// Its manifest says `enabled = false`.
    Disabled,
}
