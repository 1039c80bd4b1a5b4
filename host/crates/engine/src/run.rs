//! An execution of a guest: the engine, the linker, the call, and its outcome.

mod backtrace;
pub(crate) mod engine;
pub(crate) mod host_functions;
pub(crate) mod invoke;
pub(crate) mod linker;
mod listing;
pub(crate) mod loaded;
pub(crate) mod prefault;
pub(crate) mod provider;
mod recorded_host_functions;
mod recorded_linker;
pub(crate) mod schema_checker;
pub(crate) mod tool;
