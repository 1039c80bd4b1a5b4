//! The plugin folder: its files, their plugins, and the catalog built from them.

pub(crate) mod check;
mod component_loader;
pub(crate) mod component_registry;
mod former;
pub(crate) mod grant_summary;
pub(crate) mod loader;
pub(crate) mod loads;
pub(crate) mod metrics;
pub(crate) mod name_file;
pub(crate) mod names;
pub(crate) mod outsiders;
mod pending;
pub(crate) mod plugin;
pub(crate) mod plugin_dir;
pub(crate) mod plugins;
mod report;
pub(crate) mod scan;
mod serving;
pub(crate) mod snapshot;
mod verdict;
pub(crate) mod watch;
