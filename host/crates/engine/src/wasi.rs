//! The WASI interfaces that the host implements or bounds.

pub(crate) mod clocks;
mod context;
pub(crate) mod files;
pub(crate) mod logging;
mod name_lookup;
pub(crate) mod outgoing_handler;
pub(crate) mod recorded_clocks;
pub(crate) mod recorded_pollables;
pub(crate) mod stdio;
