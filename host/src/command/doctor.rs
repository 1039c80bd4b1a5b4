//! `toolyard doctor`: checks the configuration of clients, the folders and the address of this host.

use super::configure;
use super::connect::environment;
use crate::config::Flags;
use clap::Args;
use std::process::ExitCode;
use toolyard_connect::{HostFacts, gather, report};

/// The options of `doctor`.
#[derive(Debug, Args)]
pub struct Options {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the findings. The exit code is 1 if one of them is an error.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None);
    let host = match &config {
        Ok(config) => Ok(HostFacts {
            plugins: &config.plugins,
            data: &config.data,
            listen: config.listen,
            may_data_be_open: config.limits.data_others_may_write,
        }),
        Err(error) => Err(format!("{error:#}")),
    };
    let facts = gather(&environment()?, env!("CARGO_PKG_VERSION"), host);
    Ok(if report(&facts, options.json) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
