//! `toolyard update`: fetches new versions of plugins, and holds those that change what a tool says of itself or what it
//! reaches for.

use super::{plugins, run_until_stopped};
use crate::assemble;
use crate::config::{Config, Flags};
use crate::install::candidate::{self, Verified};
use crate::install::fetch::{self, Beside, Fetched};
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::install::{UNDECIDED, Undecided, held};
use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use semver::Version;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::Action;
use toolyard_engine::{CheckReport, Engine, ImportUse, LOCK_FILE};
use toolyard_registry::reference::{Reference, Source};
use toolyard_trust::key::PublicKey;
use toolyard_trust::lock::{Decision, Entry, Lock, decide};
use toolyard_trust::provenance::Provenance;

/// The options of `update`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugins, without `.wasm`. [default: all that the lock file lists]
    names: Vec<String>,
    /// Show what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take versions that would be held.
    #[arg(long)]
    yes: bool,
}

/// Updates the plugins. Fails if one of them cannot be updated; the others are updated nevertheless.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(update_all(&config, options))
}

async fn update_all(config: &Config, options: &Options) -> anyhow::Result<ExitCode> {
    let names = plugins::names_in_lock(&PluginFolder::open(&config.plugins).await?.lock()?, &options.names)?;
    if names.is_empty() {
        say!("{LOCK_FILE} in {} lists no plugin; `toolyard add` adds one.", config.plugins.display());
    }
    let engine = assemble::start_engine(config)?;
    let (mut code, mut is_failed) = (0, false);
    for name in names {
        match update(config, &engine, &name, options).await {
            Ok(false) => {}
            Ok(true) => code = UNDECIDED,
            Err(error) => {
                tell!("toolyard: {name}: {error:#}");
                is_failed |= !error.is::<Undecided>();
                code = UNDECIDED;
            }
        }
    }
    // A failure says more than a version that waits.
    Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::from(code) })
}

/// Updates a plugin. Returns whether the new version is held.
async fn update(
    config: &Config,
    engine: &Arc<Engine>,
    name: &str,
    options: &Options,
) -> anyhow::Result<bool> {
    let files = PluginFiles::of(name);
    let pinned =
        |lock: &Lock| lock.entry(&files.component).cloned().context("the lock file no longer lists it");
    let entry = pinned(&PluginFolder::read_only(&config.plugins).lock()?)?;
    if let Source::Https(_) = entry.source.parse()? {
        say!(
            "{name}  unchanged: {} has no versions; remove it, and add it with its new --sha256",
            entry.source
        );
        return Ok(false);
    }
    let fetched = fetch_again(config, &entry).await?;
    let folder = PluginFolder::open(&config.plugins).await?;
    let mut lock = folder.lock()?;
    if pinned(&lock)? != entry {
        return Err(Undecided("another command changed it meanwhile; run the update again".to_owned()).into());
    }
    let candidate = Candidate::check(config, engine, &folder, fetched, &entry, None).await?;
    if candidate.entry.digest == entry.digest && candidate.entry.manifest == entry.manifest {
        let withdrawn = if options.dry_run { false } else { held::forget(config, name)? };
        let withdrawn = if withdrawn { "; the version that was held is withdrawn" } else { "" };
        say!("{name}  unchanged: {}{withdrawn}", entry.digest.short());
        return Ok(false);
    }
    let reasons = candidate.reasons(engine, &folder, &entry).await?;
    if !reasons.is_empty() {
        say!("{name}  {} -> {}", entry.digest.short(), candidate.entry.digest.short());
        reasons.iter().for_each(|reason| output::say_text(&format!("{}\n", reason.trim_end())));
    }
    if !reasons.is_empty() && !options.yes {
        if !options.dry_run {
            held::hold(config, name, &candidate.fetched)?;
            plugins::note(config, Action::PluginHeld, &files.component, Some(candidate.entry.digest)).await;
        }
        tell!(
            "toolyard: {name} is held; `toolyard accept {name}@{}` takes the new version, and the old one serves until \
             then",
            candidate.entry.digest
        );
        return Ok(true);
    }
    if options.dry_run {
        say!("{name}  would become {}", candidate.entry.digest.short());
        return Ok(false);
    }
    let digest = candidate.entry.digest;
    candidate.take(&folder, &mut lock)?;
    held::forget(config, name)?;
    say!("{name}  updated: {} -> {}", entry.digest.short(), digest.short());
    plugins::note(config, Action::PluginAccepted, &files.component, Some(digest)).await;
    Ok(false)
}

/// Fetches the version that the source of an entry has now.
///
/// # Errors
/// If it cannot be fetched.
pub async fn fetch_again(config: &Config, entry: &Entry) -> anyhow::Result<Fetched> {
    let source = match entry.source.parse()? {
        // A digest in the source would give the same version for ever.
        Source::Oci(reference) if reference.tag.is_some() => {
            Source::Oci(Reference { digest: None, ..reference })
        }
        Source::File(path) => Source::File(config.plugins.join(path)),
        source => source,
    };
    let beside = Beside { sha256: matches!(source, Source::Https(_)).then_some(entry.digest), bundle: None };
    Ok(Fetched { source: entry.source.clone(), ..fetch::fetch(config, &source, beside).await? })
}

/// A new version of a plugin that the lock file lists, checked with the manifest in the folder.
pub struct Candidate {
    pub fetched: Fetched,
    pub entry: Entry,
    provenance: Option<Provenance>,
    report: CheckReport,
}

impl Candidate {
    /// Verifies and checks a version that was fetched. A key that a person names replaces the pinned signer.
    ///
    /// # Errors
    /// If it is not signed as the lock file or the policy demands, or the engine refuses it.
    pub async fn check(
        config: &Config,
        engine: &Arc<Engine>,
        folder: &PluginFolder,
        fetched: Fetched,
        pinned: &Entry,
        key: Option<&candidate::NamedKey>,
    ) -> anyhow::Result<Self> {
        let name = crate::lock_file::stem(&pinned.file);
        let keys = pinned_keys(folder, &pinned.file)?;
        let Verified { signer, provenance } =
            candidate::verify(&fetched, &config.signers, key, Some((&pinned.signer, &keys)))?;
        let manifest = plugins::manifest(folder, name)?;
        let report = folder.check(engine, name, &fetched.artifact.component, manifest.as_deref()).await?;
        let entry = candidate::entry(&fetched, signer, &report)?;
        Ok(Self { fetched, entry, provenance, report })
    }

    /// Why a person has to look at it: changed definitions, grants that the lock file does not list, another signer, uses
    /// of imports that the version in the folder does not have, and an age that is greater.
    ///
    /// # Errors
    /// If the version in the folder cannot be checked.
    pub async fn reasons(
        &self,
        engine: &Arc<Engine>,
        folder: &PluginFolder,
        pinned: &Entry,
    ) -> anyhow::Result<Vec<String>> {
        let mut reasons: Vec<String> = match decide(pinned, &self.entry) {
            Decision::Unchanged | Decision::Take => Vec::new(),
            Decision::Hold(reasons) => reasons.iter().map(ToString::to_string).collect(),
        };
        let before =
            folder.provenance(&pinned.file)?.and_then(|bytes| Provenance::parse(&bytes).ok()?.manifest);
        let before = before.map(|manifest| Published::of_manifest(&manifest)).unwrap_or_default();
        reasons.extend(Published::of(&self.fetched.artifact.annotations).is_older_than(&before));
        let path = folder.path().join(&pinned.file);
        if path.exists() {
            let before =
                engine.check(&path).await.map(|report| report.grants.imports_used).unwrap_or_default();
            let is_new = |used: &&ImportUse| !before.contains(used) && **used != ImportUse::Environment;
            let uses = self.report.grants.imports_used.iter().filter(is_new);
            reasons.extend(uses.map(|used| format!("it {}, which the version before does not", used.does())));
        }
        Ok(reasons)
    }

    /// Makes it the plugin.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn take(self, folder: &PluginFolder, lock: &mut Lock) -> anyhow::Result<()> {
        let change = candidate::change(&self.fetched, self.provenance.as_ref(), None, lock, self.entry);
        folder.commit(change)
    }
}

/// The version and the time of an image, by its annotations.
#[derive(Default)]
struct Published {
    version: Option<Version>,
    created: Option<Timestamp>,
}

impl Published {
    fn of(annotations: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| annotations.get(&format!("org.opencontainers.image.{name}"));
        Self {
            version: text("version").and_then(|text| Version::parse(text.trim_start_matches('v')).ok()),
            created: text("created").and_then(|text| text.parse().ok()),
        }
    }

    fn of_manifest(manifest: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Manifest {
            annotations: BTreeMap<String, String>,
        }
        serde_json::from_slice::<Manifest>(manifest)
            .map_or_else(|_| Self::default(), |read| Self::of(&read.annotations))
    }

    /// A tag can be moved back to a version with a known fault, whose signature stays good.
    fn is_older_than(&self, other: &Self) -> Option<String> {
        if let (Some(new), Some(old)) = (&self.version, &other.version)
            && new < old
        {
            return Some(format!("it is the older version {new}; the plugin is {old}"));
        }
        let (new, old) = (self.created?, other.created?);
        (new < old).then(|| format!("it is older, made at {new}; the plugin was made at {old}"))
    }
}

/// The public keys that were kept with the version in the folder.
///
/// # Errors
/// If the provenance file cannot be read.
pub fn pinned_keys(folder: &PluginFolder, file: &str) -> anyhow::Result<Vec<PublicKey>> {
    let Some(bytes) = folder.provenance(file)? else { return Ok(Vec::new()) };
    let provenance = Provenance::parse(&bytes);
    Ok(provenance.with_context(|| toolyard_engine::provenance_file(file))?.keys)
}
