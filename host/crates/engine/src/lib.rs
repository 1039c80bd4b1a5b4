//! The engine: loads a folder of WebAssembly components, watches it, and runs their functions with
//! wasmtime. Each call gets a fresh store and runs under limits.
//!
//! JSON-RPC, sessions, tasks and task storage do not belong here. The engine implements the ports
//! [`toolyard_task::Tool`] and [`toolyard_task::Provider`] and reads [`toolyard_task::RunContext`].
//! It publishes an immutable [`toolyard_task::Catalog`], which it builds completely and then swaps
//! as a whole.

mod bindings;
mod component;
mod convert;
mod error;
mod folder;
mod grant;
mod guest;
mod journal;
mod limits;
mod lock;
mod network;
mod run;
mod settings;
mod wasi;

pub use component::compile::compile_child;
pub use component::componentize::componentize;
pub use component::imports_used::ImportUse;
pub use error::{LoadError, Refusal, Skipped, StartError};
pub use folder::check::{CheckReport, CheckedArgument, CheckedPrompt, CheckedResume, CheckedTool};
pub use folder::grant_summary::{CheckedSecret, GrantSummary};
pub use folder::outsiders::{Outsiders, outsiders};
pub use folder::plugin_dir::{COMMITTED_FOLDER, FolderStep, MAX_STEPS_BYTES, STEPS_FILE};
pub use folder::plugins::Plugins;
pub use folder::snapshot::{PluginReport, PluginState, Snapshot};
pub use grant::FolderGrant;
pub use lock::{
    DeclaredDefinition, LOCK_FILE, LockEntries, LockReader, LockedPlugin, MAX_LOCK_BYTES,
    MAX_PROVENANCE_BYTES, provenance_file,
};
pub use network::error::recordable_errors;
pub use network::http_tape::request_url;
pub use run::engine::Engine;
pub use settings::{Compiler, MAX_FILES, Protected, QuickCode, Scope, SecretCommands, Settings};
