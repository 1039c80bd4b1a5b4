//! `toolyard install`: restores the plugin folder from its lock file, each component by its digest.

use super::update::pinned_keys;
use super::{plugins, run_until_stopped};
use crate::config::{Config, Flags};
use crate::install::candidate;
use crate::install::fetch::{self, Beside};
use crate::install::folder::{Change, PluginFiles, PluginFolder};
use crate::lock_file::stem;
use anyhow::{Context as _, bail};
use clap::Args;
use std::process::ExitCode;
use toolyard_cli::{say, tell};
use toolyard_engine::LOCK_FILE;
use toolyard_registry::reference::{Reference, Source};
use toolyard_trust::Digest;
use toolyard_trust::lock::{Entry, Signer};

/// The options of `install`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugins, without `.wasm`. [default: all that the lock file lists]
    names: Vec<String>,
    /// The public key of a plugin whose provenance file is missing; may be repeated.
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<std::path::PathBuf>,
}

/// Fetches the components that are missing or differ. Never changes the lock file or a manifest.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(async {
        let folder = PluginFolder::open(&config.plugins).await?;
        let lock = folder.lock()?;
        let mut code = ExitCode::SUCCESS;
        for name in plugins::names_in_lock(&lock, &options.names)? {
            let Some(entry) = lock.entry(&PluginFiles::of(&name).component) else { continue };
            if let Err(error) = restore(&config, &folder, entry, options).await {
                tell!("toolyard: {name}: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
        if lock.entries().next().is_none() {
            say!("{LOCK_FILE} in {} lists no plugin.", config.plugins.display());
        }
        Ok(code)
    })
}

async fn restore(
    config: &Config,
    folder: &PluginFolder,
    entry: &Entry,
    options: &Options,
) -> anyhow::Result<()> {
    let name = stem(&entry.file);
    let files = PluginFiles::of(name);
    let present = folder.read(&entry.file, config.limits.component.as_u64())?;
    let provenance = folder.provenance(&entry.file)?;
    if present.as_deref().is_some_and(|bytes| Digest::of(bytes) == entry.digest)
        && entry.check_signature(provenance.as_deref(), &config.signers).is_ok()
    {
        say!("{name}  as locked: {}", entry.digest.short());
        return Ok(());
    }
    let source: Source = entry.source.parse()?;
    let source = match (source, entry.manifest) {
        // By its digest, whatever the tag names now.
        (Source::Oci(reference), Some(digest)) => {
            Source::Oci(Reference { tag: None, digest: Some(digest), ..reference })
        }
        (Source::File(path), _) if path.is_relative() => {
            bail!(
                "{LOCK_FILE} names no source but the folder itself ({}); put the component there",
                path.display()
            )
        }
        (source, _) => source,
    };
    let beside = Beside { sha256: Some(entry.digest), bundle: None };
    let fetched = fetch::fetch(config, &source, beside).await?;
    let mut keys = pinned_keys(folder, &entry.file).unwrap_or_default();
    for path in &options.keys {
        keys.push(crate::config::plugins::public_key(path)?);
    }
    keys.extend(config.signers.for_source(&entry.source).keys.iter().cloned());
    if let Signer::Key { fingerprint, file: Some(file) } = &entry.signer
        && !keys.iter().any(|key| key.fingerprint() == *fingerprint)
    {
        // The file that the lock file names, if it was committed beside it.
        keys.extend(crate::config::plugins::public_key(&folder.path().join(file)).ok());
    }
    let verified = candidate::verify(&fetched, &config.signers, None, Some((&entry.signer, &keys)))?;
    let mut change = Change::default();
    let provenance = verified.provenance.as_ref().map(|provenance| provenance.to_json());
    entry
        .check_signature(provenance.as_deref(), &config.signers)
        .context("it is not signed as the lock file says")?;
    change.set(&files.provenance, provenance);
    change.write(&files.component, fetched.artifact.component);
    folder.commit(change)?;
    if !entry.grants.is_empty() && plugins::manifest(folder, name)?.is_none() {
        tell!(
            "toolyard: {name} has no {}, so nothing is granted; {LOCK_FILE} lists what its team granted",
            files.manifest
        );
    }
    say!("{name}  installed: {}", entry.digest.short());
    Ok(())
}
