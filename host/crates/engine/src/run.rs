//! One execution of a guest: the engine, the linker, the call, and what came of it.

pub(crate) mod backtrace;
pub(crate) mod engine;
pub(crate) mod host_functions;
pub(crate) mod invoke;
pub(crate) mod provider;
pub(crate) mod schema_checker;
pub(crate) mod tool;
