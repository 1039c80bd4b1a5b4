//! The bindings of the worlds in `wit/`, which `wit-bindgen` has generated. Each interface that a plugin may
//! export has a world and an export macro of its own. All share the types and the host interface of `tools`.
//!
//! A test of `toolyard-workshop` compares the files with the contract.

/// For a plugin that completes arguments.
#[rustfmt::skip]
pub mod completion;
/// For a plugin with prompts.
#[rustfmt::skip]
pub mod prompts;
/// For a plugin with resources.
#[rustfmt::skip]
pub mod resources;
#[rustfmt::skip]
mod tools;

pub use tools::*;
