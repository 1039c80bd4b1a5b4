//! `toolyard compile-component`: the child process that compiles a component for the host.

use crate::config::Flags;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// The options of `compile-component`.
#[derive(Debug, Args)]
pub struct Options {
    /// The arguments from the engine: input, output, the limits, the effort, and the nice value.
    #[arg(num_args = 6, required = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Compiles one component.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    Ok(toolyard_engine::compile_child(&options.arguments))
}
