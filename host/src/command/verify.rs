//! `toolyard verify`: compares the plugin folder with its lock file, without a network.

use super::{plugins, run_until_stopped};
use crate::assemble;
use crate::config::value::LockMode;
use crate::config::{Config, Flags};
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::install::{UNDECIDED, candidate, held};
use crate::lock_file::stem;
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::{output, say, tell};
use toolyard_engine::{Engine, LOCK_FILE};
use toolyard_trust::Digest;
use toolyard_trust::lock::{Entry, Signer};

/// The options of `verify`.
#[derive(Debug, Args)]
pub struct Options {
    /// Print one JSON object a component.
    #[arg(long)]
    json: bool,
}

/// The state of one component.
#[derive(Default)]
struct Finding {
    file: String,
    digest: Option<Digest>,
    signer: Option<String>,
    /// Why a person has to look at it.
    problems: Vec<String>,
    /// Remarks, which do not refuse it.
    notes: Vec<String>,
}

/// Verifies the folder. The exit code is 3 if a component is not as the lock file says.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    run_until_stopped(async {
        let findings = verify(&config).await?;
        findings.iter().for_each(|finding| show(finding, options.json));
        if findings.is_empty() && !options.json {
            say!("Nothing in {}.", config.plugins.display());
        }
        let is_fine = findings.iter().all(|finding| finding.problems.is_empty());
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(UNDECIDED) })
    })
}

async fn verify(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let folder = PluginFolder::read_only(&config.plugins);
    if folder.is_changing() {
        let path = folder.path().display();
        bail!("a change of {path} is half made; run this as the user who owns the folder, which finishes it");
    }
    let lock = folder.lock()?;
    let engine = assemble::start_engine(config)?;
    let mut findings = Vec::new();
    for entry in lock.entries() {
        let mut finding = compare(config, &engine, &folder, entry).await?;
        if held::is_held(&config.data, &entry.file) {
            let name = stem(&entry.file);
            finding.problems.push(format!("a new version is held; `toolyard accept {name}` takes it"));
        }
        findings.push(finding);
    }
    for name in folder.components()? {
        let file = PluginFiles::of(&name).component;
        if lock.entry(&file).is_some() {
            continue;
        }
        let why = format!("{LOCK_FILE} does not list it; `toolyard accept {name}` pins it");
        let digest = folder.read(&file, config.limits.component.as_u64())?.map(|bytes| Digest::of(&bytes));
        let (problems, notes) = match config.limits.lock {
            LockMode::Enforce => (vec![why], Vec::new()),
            LockMode::Auto | LockMode::Off => (Vec::new(), vec![why]),
        };
        findings.push(Finding { file, digest, signer: None, problems, notes });
    }
    Ok(findings)
}

async fn compare(
    config: &Config,
    engine: &Arc<Engine>,
    folder: &PluginFolder,
    entry: &Entry,
) -> anyhow::Result<Finding> {
    let signer = match &entry.signer {
        Signer::Key { fingerprint, .. } => format!("key {fingerprint}"),
        Signer::None { .. } => "none".to_owned(),
        Signer::Identity { identity, .. } => identity.clone(),
    };
    let mut finding = Finding { file: entry.file.clone(), signer: Some(signer), ..Finding::default() };
    let Some(bytes) = folder.read(&entry.file, config.limits.component.as_u64())? else {
        finding.problems.push("is not in the folder; `toolyard install` fetches it".to_owned());
        return Ok(finding);
    };
    let digest = Digest::of(&bytes);
    finding.digest = Some(digest);
    if let Err(why) = entry.check_component(digest) {
        finding.problems.push(why.to_string());
        return Ok(finding);
    }
    let provenance = folder.provenance(&entry.file)?;
    if let Err(why) = entry.check_signature(provenance.as_deref(), &config.signers) {
        finding.problems.push(why.to_string());
    }
    match engine.check(&folder.path().join(&entry.file)).await {
        Err(error) => finding.problems.push(error.why.to_string()),
        Ok(report) => {
            let checks = [
                entry.check_grants(&report.grant_lines),
                entry.check_settings(&report.setting_lines),
                entry.check_definitions(&candidate::definitions(&report.definitions)?),
            ];
            let refusals = checks.into_iter().filter_map(Result::err);
            finding.problems.extend(refusals.map(|why| why.to_string()));
            if entry.settings.is_none() {
                let name = stem(&entry.file);
                finding.notes.push(format!(
                    "an earlier version of Toolyard pinned it, without its limits and words; `toolyard accept {name}` \
                     adds them"
                ));
            }
        }
    }
    Ok(finding)
}

fn show(finding: &Finding, json: bool) {
    let Finding { file, digest, signer, problems, notes } = finding;
    if json {
        output::json(serde_json::json!({
            "plugin": file,
            "digest": digest.map(|digest| digest.to_string()),
            "signer": signer,
            "problems": problems,
            "notes": notes,
        }));
        return;
    }
    let digest = digest.map_or_else(|| "-".to_owned(), |digest| digest.short());
    let state = if problems.is_empty() { "ok" } else { "NOT OK" };
    say!("{file}  {state}  {digest}  signer {}", signer.as_deref().unwrap_or("none"));
    for problem in problems {
        tell!("  {problem}");
    }
    for note in notes {
        tell!("  note: {}", note.trim_end());
    }
}
