//! `toolyard tools`.

use super::table::table;
use super::{configure, start_log};
use crate::assemble;
use crate::config::Flags;
use clap::Args;
use std::process::ExitCode;
use toolyard_engine::{PluginState, Plugins};

/// The options of `tools`.
#[derive(Debug, Args)]
pub struct Options {
    /// Print JSON, one tool, plugin with more than tools, or refused file a line.
    #[arg(long)]
    json: bool,
}

/// Lists what the folder offers, and what in it is not loaded and why. Fails if
/// anything is not.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let engine = assemble::start_engine(&config)?;
        let mut plugins = Plugins::open(engine, config.plugins.clone());
        let snapshot = plugins.load().await;
        let mut table = table(&["TOOL", "TASKS", "PLUGIN", "DIGEST", "DESCRIPTION"]);
        for tool in snapshot.catalog.tools() {
            let spec = tool.spec();
            let support = spec.task_support.as_str();
            let description = spec.description.description.as_deref().unwrap_or_default();
            if options.json {
                let line = serde_json::json!({
                    "tool": spec.name(), "taskSupport": support, "plugin": spec.plugin,
                    "digest": spec.digest.to_string(), "description": description,
                });
                println!("{line}");
            } else {
                let first = description.lines().next().unwrap_or_default().to_owned();
                table.add_row([
                    spec.name().to_owned(),
                    support.to_owned(),
                    spec.plugin.clone(),
                    spec.digest.to_string().chars().take(12).collect(),
                    first,
                ]);
            }
        }
        let providers = snapshot.catalog.providers();
        if !options.json {
            if !snapshot.catalog.is_empty() {
                println!("{table}");
            } else if providers.is_empty() {
                println!("Nothing in {}.", config.plugins.display());
            }
        }
        for provider in providers {
            let spec = provider.spec();
            let prompts: Vec<&str> = spec.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
            if options.json {
                let line = serde_json::json!({
                    "plugin": spec.plugin, "digest": spec.digest.to_string(), "prompts": prompts,
                    "resources": spec.has_resources, "completion": spec.has_completion,
                });
                println!("{line}");
                continue;
            }
            let mut offers = Vec::new();
            if !prompts.is_empty() {
                offers.push(format!("prompts: {}", prompts.join(", ")));
            }
            if spec.has_resources {
                offers.push("resources: yes".to_owned());
            }
            if spec.has_completion {
                offers.push("completion: yes".to_owned());
            }
            println!("{}  {}", spec.plugin, offers.join("; "));
        }
        let mut code = ExitCode::SUCCESS;
        for report in &snapshot.plugins {
            let (PluginState::Refused { why } | PluginState::Former { why }) = &report.state else {
                continue;
            };
            code = ExitCode::FAILURE;
            if options.json {
                println!("{}", serde_json::json!({"plugin": report.file, "refused": why.to_string()}));
            } else {
                eprintln!("not loaded: {}: {why}", report.file);
            }
        }
        Ok(code)
    })
}
