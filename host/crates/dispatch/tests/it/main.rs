//! The application over stores in memory, with tools written in Rust.

mod application;
mod approvals;
mod asking;
mod audit;
mod bridge;
mod faults;
mod kit;
mod neighbours;
mod permissions;
mod promotion;
mod recovery;
mod resuming;
mod rounds;
mod task_filters;
mod tool_search;
