//! The interfaces of WASI that the host implements or bounds.

pub(crate) mod clocks;
pub(crate) mod files;
pub(crate) mod logging;
pub(crate) mod stdio;
