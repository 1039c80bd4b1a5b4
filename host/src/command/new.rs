//! `toolyard new`: a plugin project that builds as it stands.

use super::WrongUsage;
use crate::output::say;
use crate::project::file::check_name;
use crate::project::templates;
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
    let wrong = |what: String| anyhow::Error::from(WrongUsage(what));
    check_name(&options.name).map_err(wrong)?;
    let known = || templates::languages().map(|language| language.name).collect::<Vec<_>>().join(", ");
    let Some(said) = &options.lang else {
        return Err(wrong(format!("--lang is missing: in which language? There are {}", known())));
    };
    let said = said.to_lowercase();
    let Some(language) = templates::languages().find(|language| language.is_called(&said)) else {
        return Err(wrong(format!("there is no template for `{said}`; there are {}", known())));
    };
    let folder = options.dir.clone().unwrap_or_else(|| PathBuf::from(&options.name));
    templates::write(&folder, &language.project(&options.name)?)?;
    let shown = folder.display();
    say!("{shown} is a plugin project; its README.md says what is what. Next:");
    say!("  toolyard test {shown}   # builds it and runs its cases");
    say!("  toolyard dev {shown}    # serves it, builds and reloads it on every change, and shows its calls");
    Ok(ExitCode::SUCCESS)
}
