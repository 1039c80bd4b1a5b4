//! `toolyard test`: runs a plugin's recorded cases and compares their results.

use super::{configure, start_log};
use crate::assemble::{self, Assembled, Start};
use crate::config::{Flags, StoreChoice};
use crate::signals::stop_signal;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use toolyard_engine::QuickCode;
use toolyard_workshop::{TestOptions, Tests};

/// The options of `test`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// A project, which is built first, or a plugin folder.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run only the cases whose names contain one of these.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Test the last build of the project.
    #[arg(long)]
    no_build: bool,
    /// Where a case fails, write the actual result into its file as the expected one.
    #[arg(long)]
    update: bool,
    /// The number of cases that run at once.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Send HTTP requests that have no entry in their case, and allow raw sockets. Without this, the tools use
    /// no network.
    #[arg(long)]
    network: bool,
    /// Print one JSON object after all cases have run.
    #[arg(long)]
    json: bool,
}

/// Runs the cases. Fails if one fails.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    start_log(&config, "error")?;
    let Options { dir, patterns, no_build, update, jobs, network, json } = options.clone();
    let tests = Tests::open(TestOptions { dir, patterns, no_build, update, jobs, network, json })?;
    config.set_plugins(tests.plugins());
    config.quick_code = QuickCode::Make;
    config.uses_placeholder_secrets = true;
    config.store = StoreChoice::Memory;
    config.limits.tasks = true;
    // Anyone who can start this command can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        if let Some(code) = tests.build(&stop).await? {
            return Ok(code);
        }
        let began = Instant::now();
        let assembled = Assembled::start(&config, guests, &stop, Start::for_operator(None)).await?;
        let code = tests
            .run(&assembled.server.dispatch, &assembled.first_load().await.plugins, began, &stop)
            .await?;
        assembled.shut_down().await;
        Ok(code)
    })
}
