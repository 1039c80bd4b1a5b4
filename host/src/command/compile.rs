//! `toolyard compile-component`: the child process in which the host compiles.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_engine::CompileLimits;

/// The options of `compile-component`.
#[derive(Debug, Args)]
pub struct Options {
    /// The component.
    input: PathBuf,
    /// Where the machine code goes.
    output: PathBuf,
    /// Bytes of memory.
    #[arg(long)]
    memory: u64,
    /// Seconds of CPU time.
    #[arg(long)]
    cpu_seconds: u64,
}

/// Compiles one component.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let limits = CompileLimits { memory: options.memory, cpu_seconds: options.cpu_seconds };
    toolyard_engine::compile_child(&options.input, &options.output, limits)?;
    Ok(ExitCode::SUCCESS)
}
