//! The stores from outside. Tests that start this program again are in `process`: until a new process runs its program,
//! it shares the locks of the SQLite hosts here, and a host that has ended seems to live.

mod contract;
mod encryption;
mod journals;
mod keys;
mod log_pages;
#[cfg(feature = "postgres")]
mod postgres;
