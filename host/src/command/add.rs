//! `toolyard add`: fetches a plugin, verifies it, asks what to grant, and writes it into the plugin folder.

use super::{plugins, run_until_stopped};
use crate::assemble;
use crate::config::Flags;
use crate::install::candidate::{self, NamedKey};
use crate::install::fetch::{self, Beside};
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::install::grants::{self, Grant};
use crate::install::{held, is_name};
use anyhow::{Context as _, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_cli::{bail_usage, output, say, tell};
use toolyard_dispatch::Action;
use toolyard_engine::LOCK_FILE;
use toolyard_registry::reference::{Reference, Source};
use toolyard_trust::{Digest, definition};

/// The options of `add`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugin: oci://HOST/REPOSITORY:TAG, a component, an OCI image layout (.tar), or https://….
    source: Source,
    /// The name in the folder. [default: the last part of the repository, or the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The public key of its publisher, which is pinned.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The signature of a component that is not in a registry (`cosign sign-blob --bundle`).
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// The digest that the component must have.
    #[arg(long, value_name = "DIGEST", value_parser = plugins::digest)]
    sha256: Option<Digest>,
    /// A grant: http=HOST, fs:GUEST=PATH:read, fs:GUEST=PATH:write, tcp=HOST:PORT, udp=HOST:PORT,
    /// env:NAME=VALUE or none; may be repeated. [default: ask on a terminal]
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<Grant>,
    /// Ask the person who calls before a run uses a folder or a host (`grant = "ask"`).
    #[arg(long)]
    ask: bool,
    /// A prefix for the names of its tools.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

/// Adds the plugin.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    let name = name(options)?;
    run_until_stopped(add(&config, &name, options))
}

fn name(options: &Options) -> anyhow::Result<String> {
    if let Source::File(path) = &options.source
        && !path.exists()
        && let Ok(reference) = path.to_string_lossy().parse::<Reference>()
    {
        bail_usage!("there is no file {}; did you mean {reference}?", path.display());
    }
    let name = options.name.clone().unwrap_or_else(|| source_name(&options.source));
    if !is_name(&name) {
        bail_usage!(
            "`{name}` cannot be the name of a plugin: 1 to 64 of a-z, 0-9 and -; choose one by --name"
        );
    }
    Ok(name)
}

/// The source with a path that does not depend on the current folder: the lock file keeps it.
fn absolute(source: &Source) -> anyhow::Result<Source> {
    let absolute = |path: &std::path::Path| {
        std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
    };
    Ok(match source {
        Source::File(path) => Source::File(absolute(path)?),
        Source::Layout(path) => Source::Layout(absolute(path)?),
        Source::Oci(_) | Source::Https(_) => source.clone(),
    })
}

/// The name that a source suggests.
fn source_name(source: &Source) -> String {
    let stem = |path: &std::path::Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match source {
        Source::Oci(reference) => reference.name().to_owned(),
        Source::File(path) | Source::Layout(path) => stem(path),
        Source::Https(address) => stem(address.path().as_ref()),
    }
}

/// Refuses a name that a plugin of the folder has.
fn refuse_taken(folder: &PluginFolder, name: &str) -> anyhow::Result<()> {
    let file = PluginFiles::of(name).component;
    let way_out = if folder.lock()?.entry(&file).is_some() {
        format!("`toolyard update {name}` fetches a new version of it")
    } else if folder.path().join(&file).exists() {
        format!("`toolyard accept {name}` pins it as it is")
    } else {
        return Ok(());
    };
    let place = folder.path().display();
    bail!("{file} is in {place} already; {way_out}, and --name gives this one another name")
}

async fn add(config: &crate::config::Config, name: &str, options: &Options) -> anyhow::Result<ExitCode> {
    let source = &options.source;
    if let Source::Oci(reference) = source
        && reference.tag.is_none()
        && reference.digest.is_none()
    {
        tell!("toolyard: {source} names no tag; `latest` is fetched, which its publisher may move");
    }
    let named = options.key.as_deref().map(NamedKey::read).transpose()?;
    let beside = Beside { sha256: options.sha256, bundle: options.bundle.as_deref() };
    let source = &absolute(source)?;
    let fetched = fetch::fetch(config, source, beside).await;
    if let (Err(_), Source::File(path)) = (&fetched, source)
        && path.is_file()
    {
        // It explains better what is wrong with a component.
        assemble::start_engine(config)?.check(path).await?;
    }
    let fetched = fetched?;
    let folder = PluginFolder::open(&config.plugins).await?;
    refuse_taken(&folder, name)?;
    plugins::say_fetched(&fetched);
    let verified = candidate::verify(&fetched, &config.signers, named.as_ref(), None)?;
    plugins::say_signer(&verified.signer, true);
    // A manifest that a person left there goes on to hold.
    let kept = plugins::manifest(&folder, name)?;
    let engine = assemble::start_engine(config)?;
    let component = &fetched.artifact.component;
    let report = folder.check(&engine, name, component, kept.as_deref()).await?;
    plugins::say_tools(&report);
    // All that it says of itself, hidden characters too.
    output::say_text(&definition::compare(&[], &candidate::definitions(&report.definitions)?).to_string());
    if let Some(suggested) = fetched.artifact.suggested_manifest() {
        say!("suggests   (its publisher's words; nothing is granted yet)");
        suggested.lines().for_each(|line| say!("             {line}"));
    }
    // While a person answers, other commands have their turn.
    drop(folder);
    let granted = grants::decide(&report, &options.grants, options.ask).await?;
    let folder = PluginFolder::open(&config.plugins).await?;
    refuse_taken(&folder, name)?;
    let mut lock = folder.lock()?;
    if plugins::manifest(&folder, name)? != kept {
        bail!("{name}.toml was changed meanwhile; add the plugin again");
    }
    let changes_manifest =
        !granted.grants.iter().all(|grant| *grant == Grant::Nothing) || options.prefix.is_some();
    let manifest = match changes_manifest {
        true => Some(grants::add_to(kept.as_deref(), &granted, options.prefix.as_deref())?),
        false => None,
    };
    let report = match &manifest {
        Some(manifest) => folder.check(&engine, name, component, Some(manifest)).await?,
        None => report,
    };
    plugins::refuse_collisions(config, &engine, &report).await?;
    let entry = candidate::entry(&fetched, verified.signer, &report)?;
    let digest = entry.digest;
    let change =
        candidate::change(&fetched, verified.provenance.as_ref(), manifest.as_deref(), &mut lock, entry);
    folder.commit(change)?;
    held::forget(config, name)?;
    plugins::say_grants(&report);
    let files = PluginFiles::of(name);
    let at = |file: &str| folder.path().join(file).display().to_string();
    let manifest = manifest.map(|_| format!(", {}", at(&files.manifest))).unwrap_or_default();
    say!("wrote      {}{manifest}, {}", at(&files.component), at(LOCK_FILE));
    plugins::note(config, Action::PluginAccepted, &files.component, Some(digest)).await;
    Ok(ExitCode::SUCCESS)
}
