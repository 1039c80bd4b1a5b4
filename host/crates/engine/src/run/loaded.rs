//! A component that is ready to run, and the part of a plugin that its tools and its provider share.

use crate::component::describe::DeclaredTool;
use crate::component::exports::Exports;
use crate::component::inspect::Surface;
use crate::convert::typed::Functions;
use crate::grant::Grants;
use crate::guest::state::GuestState;
use crate::limits::run_budget::Amounts;
use crate::run::engine::Engine;
use std::sync::Arc;
use std::time::Duration;
use toolyard_manifest::Manifest;
use toolyard_task::Digest;
use toolyard_task::wire::PromptDescription;
use wasmtime::component::InstancePre;

/// A component: compiled, linked, and asked what it offers.
pub(crate) struct LoadedComponent {
    pub digest: Digest,
    pub size: u64,
    pub surface: Surface,
    pub pre: InstancePre<GuestState>,
    pub exports: Exports,
    /// Of a component that knows nothing of the contract.
    pub functions: Functions,
    /// The needs of a run, of what the machine has.
    pub needs: Amounts,
    pub declared: Vec<Arc<DeclaredTool>>,
    pub prompts: Vec<PromptDescription>,
    /// How long it took to compile; `None` if the code was in the cache.
    pub compiled_in: Option<Duration>,
}

/// The part of a plugin that all its tools and its provider share.
pub(crate) struct PluginBase {
    pub engine: Arc<Engine>,
    pub file: Arc<str>,
    pub component: Arc<LoadedComponent>,
    pub manifest: Arc<Manifest>,
    /// The grants of the manifest, found on this machine.
    pub grants: Arc<Grants>,
}
