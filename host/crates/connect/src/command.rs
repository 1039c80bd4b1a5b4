//! The commands with their output.

use crate::apply::{Applied, ApplyError, apply, read};
use crate::client::{CLIENTS, Client, client};
use crate::doctor::{Facts, Finding, Severity, check, to_json, to_text};
use crate::entry::{DEFAULT_NAME, starts_toolyard};
use crate::environment::Environment;
use crate::plan::{Action, Options, plan, snippet};
use crate::refusal::Refusal;
use crate::value::Value;
use toolyard_cli::{WrongUsage, output, say, tell};

/// `toolyard connect CLIENT`: changes the client's file, or only shows the change.
///
/// # Errors
/// [`WrongUsage`] if the options do not fit the client; else if the file was left as it is. The entry is then on
/// stdout, for a person who adds it by hand.
pub fn connect(
    client: &Client,
    environment: &Environment,
    options: &Options,
    dry_run: bool,
) -> anyhow::Result<()> {
    let file = client.file(environment, options.project).map_err(failure)?;
    let planned = match read(&file) {
        Ok(former) => plan(client, environment, options, former.as_deref()).map_err(failure),
        Err(error) => Err(error.into()),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => {
            offer(client, options, &error);
            return Err(error);
        }
    };
    if !options.project && !client.is_found(environment) {
        tell!("{} was not found on this machine.", client.title);
    }
    let shown = plan.file.display();
    match &plan.action {
        Action::Nothing if options.remove => {
            say!("{shown} has no entry `{}`; nothing to remove.", options.name)
        }
        Action::Nothing => say!("{shown} already has this entry; nothing was changed."),
        Action::Write(_) => output::say_text(&plan.diff),
        Action::Run(commands) => commands.iter().for_each(|command| say!("runs: {command}")),
    }
    if dry_run {
        say!("Nothing was written, because of --dry-run.");
        return Ok(());
    }
    match apply(&plan) {
        Ok(Applied::Unchanged) => {}
        Ok(Applied::Written { backup }) => {
            say!("Wrote {shown}.");
            backup.iter().for_each(|backup| say!("The former file is {}.", backup.display()));
        }
        Ok(Applied::Ran) => say!("{} has changed its configuration.", client.title),
        Err(error) => {
            let error = error.into();
            offer(client, options, &error);
            return Err(error);
        }
    }
    if !plan.note.is_empty() {
        say!("Next: {}", plan.note);
    }
    Ok(())
}

fn failure(refusal: Refusal) -> anyhow::Error {
    if refusal.is_usage() { WrongUsage(refusal.to_string()).into() } else { refusal.into() }
}

/// Prints the entry, if a person can add it by hand.
fn offer(client: &Client, options: &Options, error: &anyhow::Error) {
    if options.remove || error.is::<WrongUsage>() {
        return;
    }
    if let Ok(snippet) = snippet(client, options) {
        tell!("Nothing was written. The entry for {} is:", client.title);
        output::say_text(&snippet);
    }
}

/// `toolyard connect` without a client: lists the clients that are found on this machine. If there are none, shows
/// the address of `toolyard serve` and the entry for other clients.
pub fn list(environment: &Environment, url: &str, options: &Options) {
    let found: Vec<&Client> = CLIENTS.iter().filter(|client| client.is_found(environment)).collect();
    if found.is_empty() {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        say!("No MCP client was found. `toolyard connect` knows {}.", names.join(", "));
        say!("While `toolyard serve` runs, any other client can connect to {url}.");
        if let Some(Ok(entry)) = client("cursor").map(|cursor| snippet(cursor, options)) {
            say!("The entry for most of them is:\n{entry}");
        }
        return;
    }
    for client in found {
        match client.file(environment, false) {
            Ok(file) => say!("{:<15} {:<14} {}", client.name, state(client, &file), file.display()),
            Err(refusal) => say!("{:<15} {:<14} {refusal}", client.name, "unclear"),
        }
    }
    say!("\n`toolyard connect NAME` adds Toolyard to one of them; --dry-run shows the change first.");
}

/// Whether a client's file has an entry of Toolyard.
fn state(client: &Client, file: &std::path::Path) -> &'static str {
    let content = match read(file) {
        Ok(content) => content.unwrap_or_default(),
        Err(ApplyError::Read { .. }) => return "unreadable",
        Err(_) => return "unclear",
    };
    let text = String::from_utf8_lossy(&content);
    match client.format.parse(text.trim_start_matches('\u{feff}')) {
        Err(_) => "unreadable",
        Ok(content) => {
            let servers = content.get(client.section).map(Value::entries).unwrap_or_default();
            let is_ours = |(name, entry): &(String, Value)| name == DEFAULT_NAME || starts_toolyard(entry);
            if servers.iter().any(is_ours) { "connected" } else { "not connected" }
        }
    }
}

/// `toolyard doctor`: prints the findings, and returns whether none of them is an error.
pub fn report(facts: &Facts, as_json: bool) -> bool {
    let findings: Vec<Finding> = check(facts);
    if as_json {
        output::json(to_json(&findings));
    } else {
        output::say_text(&to_text(&findings));
    }
    findings.iter().all(|finding| finding.severity != Severity::Error)
}
