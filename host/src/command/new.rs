//! `toolyard new`: writes a plugin project that builds unchanged.

use crate::config::Flags;
use clap::Args;
use std::path::PathBuf;

/// The options of `new`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project's name: 1 to 64 of a-z, 0-9 and `-`, starting with a letter.
    name: String,
    /// The language: rust, c, js, ts, python or go.
    #[arg(long)]
    lang: Option<String>,
    /// The engine of a plugin in JavaScript or TypeScript: starlingmonkey has `fetch` and the other interfaces of
    /// the Web; quickjs is small and built quickly, and has none. [default: starlingmonkey]
    #[arg(long)]
    engine: Option<String>,
    /// The project's folder; existing files in it are not overwritten. [default: a new folder with the
    /// project's name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the project, and prints the next steps.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<()> {
    let Options { name, lang, engine, dir } = options;
    toolyard_workshop::create(name, lang.as_deref(), engine.as_deref(), dir.as_deref())
}
