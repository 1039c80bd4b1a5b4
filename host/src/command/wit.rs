//! `toolyard wit`: writes the contract with plugins into a folder.

use super::WrongUsage;
use crate::config::Flags;
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use toolyard_cli::replace::{readable, replace};
use toolyard_cli::{bail_usage, read, say};
use toolyard_workshop::contract::{self, WIT, WORLD};

/// The options of `wit`.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder for the files.
    dir: PathBuf,
    /// Write bindings for this language instead of the WIT package.
    #[arg(long)]
    lang: Option<Bindings>,
    /// The world to make bindings for.
    #[arg(long, default_value = WORLD, requires = "lang")]
    world: String,
    /// Overwrite files with other content.
    #[arg(long)]
    force: bool,
}

/// The languages with bindings.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Bindings {
    /// A header, a source file, and an object file with the component's type.
    C,
}

/// Writes the files.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<()> {
    let files = match options.lang {
        None => WIT.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).to_vec(),
        Some(Bindings::C) => {
            contract::c_bindings(&options.world).map_err(|error| WrongUsage(format!("{error:#}")))?
        }
    };
    let mut new = Vec::new();
    for (name, bytes) in files {
        let path = options.dir.join(name);
        // A link counts as another file, wherever it leads: the host replaces the link, and never writes
        // through it.
        let there = path.symlink_metadata().ok();
        match there.map(|there| {
            there.is_file() && read::bytes(&path, bytes.len() as u64).is_ok_and(|there| there == bytes)
        }) {
            Some(true) => {}
            Some(false) if !options.force => {
                bail_usage!(
                    "{} already exists with other content; nothing was written (--force overwrites it)",
                    path.display()
                );
            }
            _ => new.push((path, bytes)),
        }
    }
    for (path, bytes) in new {
        let folder = path.parent().unwrap_or(&options.dir);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        replace(&path, &bytes, readable()).with_context(|| format!("cannot write {}", path.display()))?;
        say!("{}", path.display());
    }
    Ok(())
}
