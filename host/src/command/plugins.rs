//! The parts that the commands on plugins share: `add`, `update`, `accept`, `verify`, `install`, `remove`, `pull` and
//! `push`.

use super::{configure, start_log};
use crate::assemble;
use crate::config::{Config, Flags};
use crate::install::fetch::Fetched;
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::lock_file::stem;
use crate::signals::stop_signal;
use anyhow::{Context as _, anyhow, bail};
use bytesize::ByteSize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use toolyard_cli::{INTERRUPTED, say, tell};
use toolyard_dispatch::{Action, By, Entry as AuditEntry, visible};
use toolyard_engine::{CheckReport, Engine, LOCK_FILE, Plugins};
use toolyard_trust::Digest;
use toolyard_trust::lock::{Lock, Signer};

/// The configuration of such a command.
///
/// # Errors
/// As [`configure`].
pub fn configured(flags: &Flags) -> anyhow::Result<Config> {
    let mut config = configure(flags, None)?;
    config.limits.audit_to.or_file();
    // The host that serves the plugin has its secrets; this command need not.
    config.stand_ins = true;
    start_log(&config, "error")?;
    Ok(config)
}

/// Awaits the work or Ctrl-C, which leaves the folder as it was.
///
/// # Errors
/// The error of the work.
pub async fn until_stopped(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    tokio::select! {
        biased;
        done = work => done,
        () = stop.cancelled() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// A digest, with or without `sha256:` before it.
///
/// # Errors
/// The expected form.
pub fn digest(text: &str) -> Result<Digest, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    let wrong = |_| format!("expected 64 hexadecimal digits, not `{text}`");
    format!("sha256:{hex}").parse().map_err(wrong)
}

/// The parts of a report to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The tools, and the uses of its imports.
    Tools,
    /// The grants.
    Grants,
}

/// Prints what was fetched.
pub fn say_fetched(fetched: &Fetched) {
    let Fetched { source, artifact, is_oci } = fetched;
    let size = ByteSize(artifact.component.len() as u64).display().iec().to_string();
    let digest = if *is_oci { artifact.digest() } else { Digest::of(&artifact.component) };
    let source = source.split('@').next().unwrap_or(source);
    say!("fetched    {}@{} ({size})", visible::line(source), digest.short());
}

/// Prints the signer of a component. A `new` one is pinned from now on.
pub fn say_signer(signer: &Signer, new: bool) {
    let pinned = if new { "; pinned from now on" } else { "" };
    match signer {
        Signer::Key { fingerprint, .. } => say!("signed by  key {fingerprint}{pinned}"),
        Signer::None { .. } => say!("signed by  none: the digest alone is pinned"),
        Signer::Identity { identity, issuer } => say!("signed by  {identity} ({issuer})"),
    }
}

/// Prints parts of a report.
pub fn say_report(report: &CheckReport, shown: Shown) {
    let rows: Vec<(&str, Vec<String>)> = match shown {
        Shown::Tools => {
            let tools = report.tools.iter();
            let tools = tools.map(|tool| format!("{} (task: {})", tool.name, tool.task_support.as_str()));
            let uses: Vec<&str> = report.grants.imports_used.iter().map(|used| used.does()).collect();
            let reaches =
                if uses.is_empty() { "nothing outside its sandbox".to_owned() } else { uses.join(" · ") };
            vec![("tools", tools.collect()), ("reaches", vec![reaches])]
        }
        Shown::Grants => {
            let lines = report.grant_lines.clone();
            vec![("granted", if lines.is_empty() { vec!["nothing".to_owned()] } else { lines })]
        }
    };
    for (name, lines) in rows {
        for (index, line) in lines.iter().enumerate() {
            say!("{:<11}{}", if index == 0 { name } else { "" }, visible::line(line));
        }
    }
}

/// Refuses a plugin that has a tool of the same name as another plugin of the folder, before anything is written.
///
/// # Errors
/// The tool, and the way out.
pub async fn refuse_collisions(
    config: &Config,
    engine: &Arc<Engine>,
    report: &CheckReport,
) -> anyhow::Result<()> {
    let mut folder = Plugins::open(engine.clone(), config.plugins.clone());
    let snapshot = folder.load().await;
    let others = snapshot.plugins.iter().filter(|other| other.file != report.file);
    let owners: BTreeMap<&str, &str> = others
        .flat_map(|other| other.tools.iter().map(|tool| (tool.as_str(), other.file.as_str())))
        .collect();
    for tool in &report.tools {
        if let Some(owner) = owners.get(tool.name.as_str()) {
            bail!(
                "the tool `{}` of {} has the name of a tool of {owner}; --prefix NAME gives its tools other names",
                tool.name,
                report.file
            );
        }
    }
    folder.end().await;
    Ok(())
}

/// Records a decision in the audit log. A store that cannot be reached loses the entry, not the decision.
pub async fn note(config: &Config, action: Action, plugin: &str, digest: Option<Digest>) {
    if !config.store.is_seen_by_other_processes() {
        return;
    }
    let noted = async {
        let store = assemble::open_store(config).await?;
        let exporter = assemble::exporter(config, &assemble::stores_in(&store))?;
        let by = By::principal("operator", None);
        store.note(AuditEntry {
            plugin: Some(plugin.to_owned()),
            digest: digest.map(|digest| toolyard_dispatch::Digest(digest.hex())),
            ..AuditEntry::new(action, &by)
        });
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        store.shut_down().await;
        anyhow::Ok(())
    };
    if let Err(error) = noted.await {
        tell!("toolyard: the audit log does not record this: {error:#}");
    }
}

/// The names of plugins that the lock file lists, or those of `names`.
///
/// # Errors
/// A name that it does not list.
pub fn names_in_lock(lock: &Lock, names: &[String]) -> anyhow::Result<Vec<String>> {
    if names.is_empty() {
        return Ok(lock.entries().map(|entry| stem(&entry.file).to_owned()).collect());
    }
    let known = |name: &String| {
        let name = stem(name);
        match lock.entry(&PluginFiles::of(name).component) {
            Some(_) => Ok(name.to_owned()),
            None => Err(anyhow!("{LOCK_FILE} lists no plugin `{name}`")),
        }
    };
    names.iter().map(known).collect()
}

/// The manifest of a plugin in the folder.
///
/// # Errors
/// If it cannot be read.
pub fn manifest(folder: &PluginFolder, name: &str) -> anyhow::Result<Option<String>> {
    let file = PluginFiles::of(name).manifest;
    let text = folder.read(&file, toolyard_manifest::MAX_BYTES)?.map(String::from_utf8).transpose();
    text.with_context(|| format!("{file} is not UTF-8"))
}
