//! `toolyard build`: builds a project's component and inspects it.

use super::{configure, start_log};
use crate::assemble;
use crate::config::Flags;
use crate::signals::stop_signal;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_engine::QuickCode;
use toolyard_workshop::{Project, build};

/// The options of `build`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project: a folder with a project.toml.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run the commands of `setup` again, even if they ran before.
    #[arg(long)]
    setup: bool,
}

/// Builds the project, and reports what its component offers.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    let project = Project::open(&options.dir)?;
    config.set_plugins(project.plugin());
    config.quick_code = QuickCode::Make;
    config.uses_placeholder_secrets = true;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        build(&project, options.setup, || assemble::start_engine(&config), &stop_signal()?).await
    })
}
