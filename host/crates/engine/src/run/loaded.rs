//! A component that is ready to run, and the part of a plugin that its tools and its provider
//! share.

use crate::component::describe::DeclaredTool;
use crate::component::exports::Exports;
use crate::component::inspect::Surface;
use crate::convert::typed::Functions;
use crate::grant::Grants;
use crate::guest::state::GuestState;
use crate::limits::run_budget::Amounts;
use crate::lock::DeclaredDefinition;
use crate::run::engine::Engine;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolyard_manifest::Manifest;
use toolyard_task::Digest;
use toolyard_task::wire::{PromptDescription, RawJson, ToolDescription};
use wasmtime::component::InstancePre;

/// A component that is compiled and linked and whose offer is known.
pub(crate) struct LoadedComponent {
    pub digest: Digest,
    pub size: u64,
    pub surface: Surface,
    pub pre: InstancePre<GuestState>,
    pub exports: Exports,
    /// The functions of a component that does not implement the contract.
    pub functions: Functions,
    /// The amounts of the machine's resources that a run needs.
    pub needs: Amounts,
    pub declared: Vec<Arc<DeclaredTool>>,
    pub prompts: Vec<PromptDescription>,
    /// How long it took to compile; `None` if the code was in the cache.
    pub compiled_in: Option<Duration>,
    /// Whether its code was compiled quickly.
    pub is_quick: bool,
    /// The code of runs with a journal, if a manifest has asked for it.
    pub journalled: OnceLock<JournalledCode>,
}

impl LoadedComponent {
    /// The tools and prompts of the component, as a lock file pins them.
    pub fn definitions(&self) -> Vec<DeclaredDefinition> {
        definitions(self.declared.iter().map(|tool| &tool.description), &self.prompts)
    }
}

/// The definitions of tools and prompts, as a lock file pins them.
pub(crate) fn definitions<'a>(
    tools: impl Iterator<Item = &'a ToolDescription>,
    prompts: &[PromptDescription],
) -> Vec<DeclaredDefinition> {
    let tools = tools.map(|tool| DeclaredDefinition {
        kind: "tool",
        name: tool.name.clone(),
        json: RawJson::of(tool),
    });
    let prompts = prompts.iter().map(|prompt| DeclaredDefinition {
        kind: "prompt",
        name: prompt.name.clone(),
        json: RawJson::of(prompt),
    });
    tools.chain(prompts).collect()
}

/// A component that is compiled and linked for runs with a journal.
pub(crate) struct JournalledCode {
    pub pre: InstancePre<GuestState>,
    pub exports: Exports,
    pub functions: Functions,
}

/// The part of a plugin that all its tools and its provider share.
pub(crate) struct PluginBase {
    pub engine: Arc<Engine>,
    pub file: Arc<str>,
    pub component: Arc<LoadedComponent>,
    pub manifest: Arc<Manifest>,
    /// The grants of the manifest, resolved on this machine.
    pub grants: Arc<Grants>,
}
