//! `toolyard remove`: takes a plugin out of the folder and the lock file.

use super::{plugins, run_until_stopped};
use crate::config::{Config, Flags};
use crate::install::folder::{Change, PluginFiles, PluginFolder};
use crate::install::held;
use crate::lock_file::stem;
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use toolyard_cli::say;
use toolyard_dispatch::Action;
use toolyard_engine::LOCK_FILE;

/// The options of `remove`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugin, without `.wasm`.
    name: String,
    /// Leave its manifest.
    #[arg(long)]
    keep_manifest: bool,
}

/// Removes the component, its manifest, its provenance and its entry. Folders that the plugin wrote stay.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(remove(&config, options))
}

async fn remove(config: &Config, options: &Options) -> anyhow::Result<ExitCode> {
    let name = stem(&options.name);
    let files = PluginFiles::of(name);
    let folder = PluginFolder::open(&config.plugins).await?;
    let mut lock = folder.lock()?;
    let was_locked = lock.remove(&files.component);
    let is_there = folder.path().join(&files.component).exists();
    if !was_locked && !is_there {
        bail!("{} has no plugin `{name}`", folder.path().display());
    }
    let mut change = Change::default();
    change.remove(&files.component);
    change.remove(&files.provenance);
    if !options.keep_manifest {
        change.remove(&files.manifest);
    }
    if was_locked {
        change.write(LOCK_FILE, lock.to_text());
    }
    folder.commit(change)?;
    held::forget(config, name)?;
    say!("{name}  removed");
    plugins::note(config, Action::PluginRemoved, &files.component, None).await;
    Ok(ExitCode::SUCCESS)
}
