//! `toolyard new`: a plugin project that builds as it is.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `new`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project's name: 1 to 64 of a-z, 0-9 and `-`, the first a letter.
    name: String,
    /// The language: rust, c, js, ts, python or go.
    #[arg(long)]
    lang: Option<String>,
    /// The project's folder; nothing that is in it is written over. [default: a new
    /// folder of the project's name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the project, and says what to do next.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    toolyard_workshop::create(&options.name, options.lang.as_deref(), options.dir.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
