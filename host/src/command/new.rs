//! `toolyard new`: writes a plugin project that builds unchanged.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `new`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project's name: 1 to 64 of a-z, 0-9 and `-`, starting with a letter.
    name: String,
    /// The language: rust, c, js, ts, python or go.
    #[arg(long)]
    lang: Option<String>,
    /// The project's folder; existing files in it are not overwritten. [default: a new folder with the
    /// project's name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the project, and prints the next steps.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    toolyard_workshop::create(&options.name, options.lang.as_deref(), options.dir.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
