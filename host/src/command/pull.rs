//! `toolyard pull`: fetches a plugin into a file, for machines without a network.

use super::{plugins, run_until_stopped};
use crate::config::Flags;
use crate::install::fetch::{self, Beside};
use anyhow::Context as _;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_cli::{replace, say};
use toolyard_registry::layout;
use toolyard_registry::reference::Source;
use toolyard_trust::Digest;

/// The options of `pull`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugin, such as oci://ghcr.io/acme/fetch:1.2.0.
    source: Source,
    /// The OCI image layout to write, with the signatures; `toolyard add FILE.tar`, oras and skopeo read it.
    #[arg(long, short, value_name = "FILE.tar")]
    output: PathBuf,
    /// The digest that the component must have.
    #[arg(long, value_name = "DIGEST", value_parser = plugins::digest)]
    sha256: Option<Digest>,
}

/// Fetches the plugin and writes the file.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(async {
        let beside = Beside { sha256: options.sha256, bundle: None };
        let fetched = fetch::fetch(&config, &options.source, beside).await?;
        plugins::say_fetched(&fetched);
        let path = &options.output;
        let cannot = || format!("cannot write {}", path.display());
        let mut tar = Vec::new();
        let tag = match &options.source {
            Source::Oci(reference) => reference.tag.as_deref(),
            Source::File(_) | Source::Layout(_) | Source::Https(_) => None,
        };
        layout::write(&fetched.artifact, tag, &mut tar).with_context(cannot)?;
        replace::replace(path, &tar, replace::readable()).with_context(cannot)?;
        let signatures = fetched.artifact.signatures.len();
        say!("wrote      {} with {signatures} signatures, unverified", path.display());
        Ok(ExitCode::SUCCESS)
    })
}
