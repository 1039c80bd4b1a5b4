//! The engine: loads a folder of WebAssembly components, watches it, and runs
//! their functions with wasmtime, each call in a fresh store and under limits.
//!
//! What may not live here: JSON-RPC, sessions, tasks, the store. The engine
//! implements the ports [`toolyard_task::Tool`] and [`toolyard_task::Provider`] and reads
//! [`toolyard_task::RunContext`]; it hands out an immutable
//! [`toolyard_task::Catalog`], built completely and then swapped whole.

mod bindings;
mod check;
mod codes;
mod component;
mod convert;
mod error;
mod file;
mod folder;
mod grant;
mod limits;
mod loads;
mod metrics;
mod name_file;
mod names;
mod network;
mod outsiders;
mod plugin;
mod plugins;
mod run;
mod settings;
mod snapshot;
mod wasi;
mod watch;

pub use check::{CheckReport, CheckedPrompt, CheckedTool};
pub use component::compile::compile_child;
pub use component::componentize::componentize;
pub use run::engine::Engine;
pub use error::{LoadError, Refusal, StartError};
pub use grant::FolderGrant;
pub use outsiders::{Outsiders, outsiders};
pub use plugins::Plugins;
pub use component::imports_used::Reach;
pub use settings::{Compiler, Protected, Scope, Settings};
pub use snapshot::{PluginReport, PluginState, Snapshot};
pub use convert::typed::Skipped;
