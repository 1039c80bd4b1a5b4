//! `toolyard config`: checks the configuration, and prints the settings in force.

use super::table::table;
use super::{configure, counted, start_log};
use crate::config::{Config, Flags};
use crate::install::folder::PluginFolder;
use crate::{assemble, start_checks};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::rules::{AccessRules, Decision, Object};
use toolyard_dispatch::{Principal, Subject};
use toolyard_engine::{Plugins, Snapshot};
use toolyard_trust::policy::is_match;

/// The options of `config`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read the configuration as `serve` would, and warn of rules and patterns that match nothing.
    Check {
        /// Print the settings in force, and where each was set.
        #[arg(long)]
        print: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Checks the configuration. It fails if the configuration is not valid; warnings do not make it fail.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let Action::Check { print, json } = &options.action;
    let mut config = configure(flags, None)?;
    config.limits.audit_to.or_file();
    start_checks::check(&config)?;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let engine = assemble::start_engine(&config)?;
        let mut plugins = Plugins::open(engine, config.plugins.clone());
        let snapshot = plugins.load().await;
        plugins.end().await;
        let warnings = warnings(&config, &snapshot)?;
        if *json {
            output::json(as_json(&config, &warnings));
            return Ok(ExitCode::SUCCESS);
        }
        if *print {
            print_settings(&config);
        }
        warnings.iter().for_each(|warning| tell!("warning: {warning}"));
        let file =
            if config.file.exists() { config.file.display().to_string() } else { "no file".to_owned() };
        say!("valid ({file}), {}", counted(warnings.len() as u64, "warning"));
        Ok(ExitCode::SUCCESS)
    })
}

fn print_settings(config: &Config) {
    let mut rows = table(&["SETTING", "VALUE", "SET BY"]);
    for setting in config.settings() {
        rows.add_row([setting.key, &setting.value, setting.origin.as_deref().unwrap_or("default")]);
    }
    say!("{rows}");
}

fn as_json(config: &Config, warnings: &[String]) -> Value {
    let setting = |setting: crate::config::Setting| {
        (setting.key.to_owned(), json!({"value": setting.value, "origin": setting.origin}))
    };
    json!({
        "file": config.file.exists().then(|| config.file.display().to_string()),
        "settings": config.settings().into_iter().map(setting).collect::<BTreeMap<_, _>>(),
        "warnings": warnings,
    })
}

/// Rules and patterns that match nothing, and plugins that are not served.
fn warnings(config: &Config, snapshot: &Snapshot) -> anyhow::Result<Vec<String>> {
    let tools: Vec<&str> = snapshot.catalog.tools().map(|tool| tool.spec().name()).collect();
    let prompts: Vec<String> = snapshot
        .catalog
        .providers()
        .iter()
        .flat_map(|provider| provider.spec().prompts.iter().map(|prompt| prompt.name.clone()))
        .collect();
    let mut warnings = Vec::new();
    for (index, rule) in config.rules.iter().enumerate() {
        let name = rule.name.clone().unwrap_or_else(|| format!("rule {}", index + 1));
        let mut idle = |key: &str, pattern: &str, what: &str| {
            warnings.push(format!("[[rules]] {name}: `{key}`: `{pattern}` matches {what}"));
        };
        for pattern in rule.tools.iter().flatten() {
            if !tools.iter().any(|tool| is_about(pattern, Object::Tool(tool))) {
                idle("tools", pattern, "no tool of the plugin folder");
            }
        }
        for pattern in rule.prompts.iter().flatten() {
            if !prompts.iter().any(|prompt| is_about(pattern, Object::Prompt(prompt))) {
                idle("prompts", pattern, "no prompt of the plugin folder");
            }
        }
        for pattern in rule.principals.iter().flatten().filter(|pattern| !is_known(config, pattern)) {
            idle("principals", pattern, "no token and no issuer of [auth]");
        }
    }
    for (index, weight) in config.weights.iter().enumerate() {
        for pattern in weight.principals.iter().filter(|pattern| !is_known(config, pattern)) {
            let entry = index + 1;
            warnings
                .push(format!("[[weights]] {entry}: `{pattern}` matches no token and no issuer of [auth]"));
        }
    }
    warnings.extend(start_checks::warnings(config));
    warnings.extend(idle_signers(config));
    warnings.extend(snapshot.plugins.iter().filter_map(|report| report.refusal().map(str::to_owned)));
    Ok(warnings)
}

/// Whether a pattern is about this object. Rules judge it, so the check cannot differ from them.
fn is_about(pattern: &str, object: Object<'_>) -> bool {
    let key = if matches!(object, Object::Prompt(_)) { "prompts" } else { "tools" };
    allows(json!({"effect": "allow", key: [pattern]}), &Principal::Local, object)
}

/// Whether a pattern for principals matches a token of the configuration, or may match a subject of one of its issuers.
fn is_known(config: &Config, pattern: &str) -> bool {
    let subject = |issuer: &str, subject: &str| {
        Principal::Subject(Subject::named(issuer.to_owned(), subject.to_owned()))
    };
    let mut known = vec![Principal::Local, Principal::Anonymous];
    known.extend(config.auth.tokens.iter().map(|token| subject(Subject::TOKENS, &token.name)));
    // The subjects of an issuer are its own affair, so the pattern is tried as if it were one of them.
    let named = pattern.split_once('#').map_or("", |(_, named)| named);
    known.extend(config.auth.issuers.iter().map(|issuer| subject(&issuer.issuer.to_string(), named)));
    let rule = json!({"effect": "allow", "principals": [pattern], "tools": ["*"]});
    known.iter().any(|principal| allows(rule.clone(), principal, Object::Tool("any")))
}

/// Whether a rule, as `[[rules]]` has it, allows this.
fn allows(rule: Value, principal: &Principal, object: Object<'_>) -> bool {
    // The rules of the configuration were read before.
    let rules = serde_json::from_value(rule).ok().and_then(|rule| AccessRules::new(vec![rule]).ok());
    rules.is_some_and(|rules| matches!(rules.shows(principal, object), Decision::Allowed(_)))
}

/// Patterns of `[[plugins.signers]]` that no source of the lock file matches.
fn idle_signers(config: &Config) -> Vec<String> {
    let Ok(lock) = PluginFolder::read_only(&config.plugins).lock() else { return Vec::new() };
    let sources: Vec<&str> = lock.entries().map(|entry| entry.source.as_str()).collect();
    let patterns = config.signers.rules.iter().flat_map(|rule| &rule.from);
    let idle =
        patterns.filter(|from| !sources.is_empty() && !sources.iter().any(|source| is_match(from, source)));
    idle.map(|from| format!("[[plugins.signers]]: `{from}` matches no source of toolyard.lock")).collect()
}
