//! `toolyard accept`: takes a version of a plugin that is held, or pins the one that lies in the folder.

use super::update::{Candidate, fetch_again};
use super::{plugins, run_until_stopped};
use crate::config::{Config, Flags};
use crate::install::candidate::{self, NamedKey};
use crate::install::fetch::{self, Fetched};
use crate::install::folder::{Change, PluginFiles, PluginFolder};
use crate::install::{UNDECIDED, Undecided, grants, held};
use crate::lock_file::stem;
use crate::{assemble, prompt};
use anyhow::{Context as _, bail};
use clap::Args;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::Action;
use toolyard_engine::{Engine, LOCK_FILE};
use toolyard_registry::reference::Source;
use toolyard_trust::lock::{Decision, Entry, Signer, decide};
use toolyard_trust::provenance::Provenance;
use toolyard_trust::{Digest, definition};

/// The options of `accept`.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugins, without `.wasm`, each with the digest of the version that you have read.
    #[arg(required_unless_present = "all", value_name = "NAME[@DIGEST]", value_parser = Chosen::parse)]
    names: Vec<Chosen>,
    /// Everything that is held, and every component of the folder.
    #[arg(long, conflicts_with_all = ["names", "key"])]
    all: bool,
    /// The public key of its publisher, which is pinned in place of the signer before.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Take a component without a signature in place of a signed one; later versions may then be unsigned too.
    #[arg(long, conflicts_with_all = ["all", "key"])]
    unsigned: bool,
}

/// A plugin, and the version of it that a person has read.
#[derive(Debug, Clone)]
struct Chosen {
    name: String,
    digest: Option<Digest>,
}

impl Chosen {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        let digest = digest.map(plugins::digest).transpose()?;
        Ok(Self { name: stem(name).to_owned(), digest })
    }

    /// Refuses another version than the one that was read; asks about it on a terminal if none was named.
    async fn confirm(&self, found: &Digest) -> anyhow::Result<()> {
        let name = &self.name;
        match &self.digest {
            Some(digest) if digest == found => Ok(()),
            Some(digest) => bail!("the version here is {found}, not {digest}; nothing has changed"),
            None if !prompt::is_attended() => Ok(()),
            None if grants::agrees(&format!("Take {name}@{found}?")).await? => Ok(()),
            None => Err(Undecided("nothing has changed".to_owned()).into()),
        }
    }
}

/// Accepts the plugins.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(accept_all(&config, options))
}

async fn accept_all(config: &Config, options: &Options) -> anyhow::Result<ExitCode> {
    let named = options.key.as_deref().map(NamedKey::read).transpose()?;
    let folder = PluginFolder::open(&config.plugins).await?;
    let names = match options.all {
        true => {
            let mut names = folder.components()?;
            names.extend(held::names(&config.data));
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(|name| Chosen { name, digest: None }).collect()
        }
        false => options.names.clone(),
    };
    let engine = assemble::start_engine(config)?;
    let mut code = ExitCode::SUCCESS;
    for chosen in names {
        let signer = (named.as_ref(), options.unsigned);
        if let Err(error) = accept(config, &engine, &folder, &chosen, signer).await {
            tell!("toolyard: {}: {error:#}", chosen.name);
            code = if error.is::<Undecided>() { ExitCode::from(UNDECIDED) } else { ExitCode::FAILURE };
        }
    }
    Ok(code)
}

async fn accept(
    config: &Config,
    engine: &Arc<Engine>,
    folder: &PluginFolder,
    chosen: &Chosen,
    (key, is_unsigned): (Option<&NamedKey>, bool),
) -> anyhow::Result<()> {
    let name = chosen.name.as_str();
    let mut lock = folder.lock()?;
    let files = PluginFiles::of(name);
    let pinned = lock.entry(&files.component).cloned();
    let waiting = match &pinned {
        Some(entry) => match held::find(config, name, &entry.source)? {
            // A version by another signer is not held, because nothing shows who signed it.
            None if key.is_some() => Some(fetch_again(config, entry).await?),
            held => held,
        },
        None => None,
    };
    if let (Some(entry), Some(fetched)) = (&pinned, waiting) {
        let candidate = Candidate::check(config, engine, folder, fetched, entry, key).await?;
        candidate.reasons(engine, folder, entry).await?.iter().for_each(say_reason);
        let digest = candidate.entry.digest;
        chosen.confirm(&digest).await?;
        candidate.take(folder, &mut lock)?;
        held::forget(config, name)?;
        say!("{name}  accepted: {} -> {}", entry.digest.short(), digest.short());
        plugins::note(config, Action::PluginAccepted, &files.component, Some(digest)).await;
        return Ok(());
    }
    let (entry, provenance) =
        present(config, engine, folder, name, pinned.as_ref(), (key, is_unsigned)).await?;
    if let Some(before) = &pinned {
        if *before == entry {
            say!("{name}  unchanged: {}", before.digest.short());
            return Ok(());
        }
        if let Decision::Hold(reasons) = decide(before, &entry) {
            reasons.iter().for_each(say_reason);
        }
    } else {
        output::say_text(&definition::compare(&[], &entry.definitions).to_string());
    }
    let digest = entry.digest;
    chosen.confirm(&digest).await?;
    say!("{name}  accepted: {}", digest.short());
    let mut change = Change::default();
    change.set(&files.provenance, provenance.map(|provenance| provenance.to_json()));
    lock.set(entry);
    change.write(LOCK_FILE, lock.to_text());
    folder.commit(change)?;
    plugins::note(config, Action::PluginAccepted, &files.component, Some(digest)).await;
    Ok(())
}

fn say_reason(reason: &impl Display) {
    output::say_text(&format!("{}\n", reason.to_string().trim_end()));
}

/// Checks the component in the folder. Returns its entry, and its signatures if there are any to keep. It keeps its
/// source and its signer while its bytes are those that the lock file names; other bytes came by another way.
async fn present(
    config: &Config,
    engine: &Arc<Engine>,
    folder: &PluginFolder,
    name: &str,
    pinned: Option<&Entry>,
    (key, may_be_unsigned): (Option<&NamedKey>, bool),
) -> anyhow::Result<(Entry, Option<Provenance>)> {
    let files = PluginFiles::of(name);
    let limit = config.limits.component.as_u64();
    let Some(component) = folder.read(&files.component, limit)? else {
        bail!("it is neither held nor in {}", folder.path().display());
    };
    let report = engine.check(&folder.path().join(&files.component)).await?;
    let digest = Digest::of(&component);
    if let Some(before) = pinned.filter(|before| before.digest == digest) {
        let entry = Entry {
            grants: report.grant_lines.clone(),
            settings: Some(report.setting_lines.clone()),
            definitions: candidate::definitions(&report.definitions)?,
            ..before.clone()
        };
        let provenance = folder.provenance(&files.component)?;
        let provenance = provenance.as_deref().map(Provenance::parse).transpose();
        let provenance = provenance.with_context(|| files.provenance.clone())?;
        return Ok((entry, provenance));
    }
    let source = Source::File(Path::new(&files.component).to_owned());
    let fetched: Fetched = fetch::plain(&source, component)?;
    if let Some(signer) =
        pinned.map(|before| &before.signer).filter(|signer| !matches!(signer, Signer::None { .. }))
        && key.is_none()
        && !may_be_unsigned
    {
        bail!(
            "{LOCK_FILE} pins the signer {signer}, and the component in the folder has no signature; `toolyard install \
             {name}` brings the pinned version back, and --unsigned takes this one, and later ones without a signature"
        );
    }
    let verified = candidate::verify(&fetched, &config.signers, key, None)?;
    Ok((candidate::entry(&fetched, verified.signer, &report)?, verified.provenance))
}
