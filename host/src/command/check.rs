//! `toolyard check`.

use super::{configure, start_log};
use crate::assemble;
use crate::config::Flags;
use bytesize::ByteSize;
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_engine::CheckReport;

/// The options of `check`.
#[derive(Debug, Args)]
pub struct Options {
    /// The component; its manifest, NAME.toml beside it, is taken into account.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Says what a component offers and needs, or why it is not a plugin.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let engine = assemble::start_engine(&config)?;
        let report = engine.check(&options.file).await?;
        if options.json {
            println!("{}", as_json(&report));
        } else {
            print!("{}", as_text(&report));
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string().replace(".0 ", " ")
}

fn as_text(report: &CheckReport) -> String {
    let mut out = String::new();
    let limits = &report.limits;
    let mut line = |name: &str, text: String| {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name:<11}{text}");
    };
    line("plugin", format!("{} ({})", report.file, size(report.size)));
    line("digest", report.digest.to_string());
    line(
        "manifest",
        match (report.has_manifest, report.enabled) {
            (false, _) => "none: nothing is granted, every limit is the host's".to_owned(),
            (true, true) => "valid".to_owned(),
            (true, false) => "valid; it says `enabled = false`, so the plugin does not serve".to_owned(),
        },
    );
    for (index, tool) in report.tools.iter().enumerate() {
        let description = first_line(tool.description.as_deref());
        let text = format!("{} (tasks {}): {description}", tool.name, tool.task_support.as_str());
        line(if index == 0 { "tools" } else { "" }, text);
    }
    for (index, prompt) in report.prompts.iter().enumerate() {
        let arguments: Vec<String> = prompt
            .arguments
            .iter()
            .map(|(name, required)| if *required { name.clone() } else { format!("[{name}]") })
            .collect();
        let description = first_line(prompt.description.as_deref());
        let text = format!("{} ({}): {description}", prompt.name, arguments.join(", "));
        line(if index == 0 { "prompts" } else { "" }, text);
    }
    if report.has_resources {
        line("resources", "yes".to_owned());
    }
    if report.has_completion {
        line("completion", "yes".to_owned());
    }
    for (index, import) in report.imports.iter().enumerate() {
        let note = if report.ungranted.contains(import) { "  nothing of it is granted" } else { "" };
        line(if index == 0 { "imports" } else { "" }, format!("{import}{note}"));
    }
    line("exports", report.exports.join(", "));
    let mut granted: Vec<String> = report
        .folders
        .iter()
        .map(|folder| format!("{} {} as {}", folder.mode.as_str(), folder.host.display(), folder.guest))
        .collect();
    if !report.env.is_empty() {
        granted.push(format!("environment: {}", report.env.join(", ")));
    }
    if granted.is_empty() {
        granted.push("nothing".to_owned());
    }
    for (index, grant) in granted.into_iter().enumerate() {
        line(if index == 0 { "granted" } else { "" }, grant);
    }
    line(
        "limits",
        format!(
            "memory {}, CPU {:?}, elapsed {:?}, output {}, table {}, host call {}",
            size(limits.memory),
            limits.cpu,
            limits.wall,
            size(limits.output),
            limits.table,
            size(limits.hostcall)
        ),
    );
    out
}

fn first_line(description: Option<&str>) -> &str {
    description.unwrap_or_default().lines().next().unwrap_or_default()
}

fn as_json(report: &CheckReport) -> serde_json::Value {
    let limits = &report.limits;
    serde_json::json!({
        "plugin": report.file,
        "digest": report.digest.to_string(),
        "bytes": report.size,
        "tools": report.tools.iter().map(|tool| serde_json::json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "taskSupport": tool.task_support.as_str(),
        })).collect::<Vec<_>>(),
        "prompts": report.prompts.iter().map(|prompt| serde_json::json!({
            "name": prompt.name,
            "description": prompt.description,
            "arguments": prompt.arguments.iter().map(|(name, required)| serde_json::json!({
                "name": name,
                "required": required,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "resources": report.has_resources,
        "completion": report.has_completion,
        "imports": report.imports,
        "exports": report.exports,
        "ungranted": report.ungranted,
        "environment": report.env,
        "folders": report.folders.iter().map(|folder| serde_json::json!({
            "guest": folder.guest,
            "host": folder.host,
            "mode": folder.mode.as_str(),
        })).collect::<Vec<_>>(),
        "manifest": report.has_manifest,
        "enabled": report.enabled,
        "limits": {
            "memoryBytes": limits.memory,
            "cpuMs": limits.cpu.as_millis() as u64,
            "wallMs": limits.wall.as_millis() as u64,
            "outputBytes": limits.output,
            "tableElements": limits.table,
            "hostcallBytes": limits.hostcall,
        },
    })
}
