//! The parts that the commands on plugins share: `add`, `update`, `accept`, `verify`, `install`, `remove`, `pull` and
//! `push`.

use super::table::paragraphs;
use super::{configure, operator, start_log};
use crate::config::{Config, Flags};
use crate::install::fetch::Fetched;
use crate::install::folder::{PluginFiles, PluginFolder};
use crate::lock_file::stem;
use anyhow::{Context as _, anyhow, bail};
use bytesize::ByteSize;
use std::sync::Arc;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Action, By, Entry as AuditEntry, visible};
use toolyard_engine::{CheckReport, CheckedTool, Engine, LOCK_FILE, Plugins};
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
    config.uses_placeholder_secrets = true;
    start_log(&config, "error")?;
    Ok(config)
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

/// Prints the tools of a component, and the uses of its imports.
pub fn say_tools(report: &CheckReport) {
    let tool = |tool: &CheckedTool| format!("{} (task: {})", tool.name, tool.task_support.as_str());
    let tools = report.tools.iter().map(tool).collect();
    let uses: Vec<&str> = report.grants.imports_used.iter().map(|used| used.does()).collect();
    let reaches = if uses.is_empty() { "nothing outside its sandbox".to_owned() } else { uses.join(" · ") };
    output::say_text(&paragraphs(&[("tools", tools), ("reaches", vec![reaches])]));
}

/// Prints the grants of a component.
pub fn say_grants(report: &CheckReport) {
    let lines = report.grant_lines.clone();
    let lines = if lines.is_empty() { vec!["nothing".to_owned()] } else { lines };
    output::say_text(&paragraphs(&[("granted", lines)]));
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
    for CheckedTool { name, .. } in &report.tools {
        if let Some(owner) = others.clone().find(|other| other.tools.contains(name)) {
            let (file, owner) = (&report.file, &owner.file);
            bail!(
                "the tool `{name}` of {file} has the name of a tool of {owner}; --prefix NAME gives its tools other names"
            );
        }
    }
    folder.end().await;
    Ok(())
}

/// Records a decision in the audit log. A store that cannot be reached loses the entry, not the decision.
pub async fn note(config: &Config, action: Action, plugin: &str, digest: Option<Digest>) {
    if config.store.is_seen_by_other_processes() {
        let entry = AuditEntry {
            plugin: Some(plugin.to_owned()),
            digest: digest.map(|digest| toolyard_dispatch::Digest(digest.hex())),
            ..AuditEntry::new(action, &By::principal("operator", None))
        };
        operator::note(config, entry).await;
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
