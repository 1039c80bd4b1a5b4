//! `toolyard build`: a project's component, made and looked at.

use super::{WrongUsage, configure, start_log};
use crate::assemble;
use crate::config::Flags;
use crate::output::say;
use crate::project::build::{Built, NotBuilt, build};
use crate::project::file::Project;
use crate::project::shell::Output;
use crate::signals::stop_signal;
use anyhow::Context as _;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_dispatch::visible;

/// The options of `build`.
#[derive(Debug, Args)]
pub struct Options {
    /// The project: a folder with a project.toml.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run the commands of `setup` again, though they have been run.
    #[arg(long)]
    setup: bool,
}

const CTRL_C: u8 = 130;

/// Builds the project, and says what its component offers.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    let project = open(&options.dir)?;
    config.plugins = project.plugin();
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let stop = stop_signal()?;
        let built = match build(&project, options.setup, &Output::Terminal, &stop).await {
            Ok(built) => built,
            Err(error) => return ended(&error),
        };
        let engine = assemble::start_engine(&config)?;
        let checking = engine.check(&built.component);
        let mut stopped = stop.clone();
        let report = tokio::select! {
            biased;
            report = checking => report.with_context(|| format!("{} is no plugin", shown(&project, &built)))?,
            _ = stopped.wait_for(|stop| *stop) => return Ok(ExitCode::from(CTRL_C)),
        };
        let tools: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut offers = Vec::new();
        if !tools.is_empty() {
            offers.push(tools.join(", "));
        }
        let prompts: Vec<&str> = report.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        if !prompts.is_empty() {
            offers.push(format!("the prompts {}", prompts.join(", ")));
        }
        if report.has_resources {
            offers.push("resources".to_owned());
        }
        say!("{}: {}", summary(&project, &built), visible::line(&offers.join("; ")));
        Ok(ExitCode::SUCCESS)
    })
}

/// The project in this folder.
///
/// # Errors
/// [`WrongUsage`] if there is none, or its file is wrong.
pub fn open(folder: &Path) -> Result<Project, WrongUsage> {
    Project::open(folder).map_err(WrongUsage)
}

/// How a build that made nothing ends the program.
///
/// # Errors
/// What went wrong, if it was not stopped.
pub fn ended(error: &NotBuilt) -> anyhow::Result<ExitCode> {
    match error.was_stopped() {
        true => Ok(ExitCode::from(CTRL_C)),
        false => anyhow::bail!("{error}"),
    }
}

/// What was built, in a few words.
pub fn summary(project: &Project, built: &Built) -> String {
    let changed = if built.changed { "" } else { ", the same as before" };
    format!("{} ({}{changed}) in {}", shown(project, built), size(built.bytes), time(built.took))
}

fn shown(project: &Project, built: &Built) -> String {
    built.component.strip_prefix(&project.folder).unwrap_or(&built.component).display().to_string()
}

fn size(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

/// A time for people.
pub fn time(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..1_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}
