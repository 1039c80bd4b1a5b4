//! `toolyard check`.

use super::table::paragraphs;
use super::tools::limits_as_json;
use super::{configure, start_log};
use crate::assemble;
use crate::config::Flags;
use bytesize::ByteSize;
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_cli::{bail_usage, output};
use toolyard_dispatch::TaskSupport;
use toolyard_engine::{CheckReport, CheckedArgument, CheckedPrompt, CheckedResume, CheckedTool, ImportUse};
use toolyard_manifest::{LimitRow, Limits};

/// The options of `check`.
#[derive(Debug, Args)]
pub struct Options {
    /// The component. Its manifest, NAME.toml beside it, is taken into account.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "suggest")]
    json: bool,
    /// Print a minimal manifest for it instead.
    #[arg(long)]
    suggest: bool,
}

/// Reports what a component offers and needs, or why it is not a plugin.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    if options.file.is_dir() {
        let folder = options.file.display();
        bail_usage!("{folder} is a folder; `toolyard tools --plugins {folder}` checks the plugins in it");
    }
    let mut config = configure(flags, None)?;
    config.uses_placeholder_secrets = true;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        let engine = assemble::start_engine(&config)?;
        let report = engine.check(&options.file).await?;
        if options.suggest {
            output::result(&suggestion(&report)?, false)?;
        } else if options.json {
            output::json(as_json(&report));
        } else {
            output::say_text(&as_text(&report));
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string().replace(".0 ", " ")
}

fn as_text(report: &CheckReport) -> String {
    let manifest = match (report.manifest.is_some(), report.enabled) {
        (false, _) => "none: nothing is granted, every limit is the host's",
        (true, true) => "valid",
        (true, false) => "valid; it says `enabled = false`, so the plugin does not serve",
    };
    let tool = |tool: &CheckedTool| {
        format!("{} ({}): {}", tool.name, tasks_of(tool), first_line(tool.description.as_deref()))
    };
    let fault = |tool: &CheckedTool| {
        let what = tool.header_fault.as_ref()?;
        Some(format!("{}: clients that come over HTTP will leave it out: {what}", tool.name))
    };
    let prompt = |prompt: &CheckedPrompt| {
        let argument = |CheckedArgument { name, required }: &CheckedArgument| match required {
            true => name.clone(),
            false => format!("[{name}]"),
        };
        let arguments: Vec<String> = prompt.arguments.iter().map(argument).collect();
        format!("{} ({}): {}", prompt.name, arguments.join(", "), first_line(prompt.description.as_deref()))
    };
    let resources = match report.claims_uris {
        true => "yes",
        false => "yes; claim their URIs in [resources] uris, else other plugins may be asked for them first",
    };
    let if_so = |is_so: bool, says: &str| is_so.then(|| says.to_owned()).into_iter().collect();
    let needed = |used: ImportUse| format!("[{}], if a tool {}", used.section(), used.does());
    let unused =
        |used: ImportUse| format!("[{}]: nothing in it {}; take the grant away", used.section(), used.does());
    let shown = |row: &LimitRow| format!("{} {}", row.key, row.shown(&report.limits).replace(".0 ", " "));
    let limits: Vec<String> = Limits::ROWS.iter().map(shown).collect();
    paragraphs(&[
        ("plugin", vec![format!("{} ({})", report.file, size(report.size))]),
        ("digest", vec![report.digest.to_string()]),
        ("manifest", vec![manifest.to_owned()]),
        ("tools", report.tools.iter().map(tool).collect()),
        ("warnings", report.tools.iter().filter_map(fault).collect()),
        ("skipped", report.skipped.iter().map(|one| format!("{}: {}", one.function, one.why)).collect()),
        ("prompts", report.prompts.iter().map(prompt).collect()),
        ("resources", if_so(report.has_resources, resources)),
        ("completion", if_so(report.has_completion, "yes")),
        (
            "imports",
            report.imports.iter().map(|import| format!("{import}{}", beside(report, import))).collect(),
        ),
        ("exports", vec![report.exports.join(", ")]),
        ("granted", grants(report)),
        ("may need", report.grants.ungranted().map(needed).collect()),
        ("unused", report.grants.unused().map(unused).collect()),
        ("durability", report.resume.iter().flat_map(|one| resume_lines(one, report.tools.len())).collect()),
        ("limits", limits.chunks(6).map(|some| some.join(", ")).collect()),
    ])
}

/// The task support of a tool, and the reason if no call of it can become a task.
fn tasks_of(tool: &CheckedTool) -> String {
    let support = format!("tasks {}", tool.task_support.as_str());
    match (tool.task_support, tool.declared_task_support) {
        (TaskSupport::Forbidden, TaskSupport::Forbidden) => {
            format!("{support}; never handed off: the tool declares forbidden")
        }
        (TaskSupport::Forbidden, _) => format!("{support}; never handed off: the manifest says forbidden"),
        (TaskSupport::Optional | TaskSupport::Required, _) => support,
    }
}

/// How tasks resume, in lines. `count` is the number of tools.
fn resume_lines(resume: &CheckedResume, count: usize) -> Vec<String> {
    let which = match resume.tools.len() == count {
        true => "resume".to_owned(),
        false => format!("resume (only {})", resume.tools.join(", ")),
    };
    let listed = |list: &[String]| if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
    vec![
        which,
        format!("replayed: {}", listed(&resume.replayed)),
        format!("the same each time: {}", listed(&resume.same)),
        // A plugin with another grant is not loaded, so there is no report of it.
        "refused: none".to_owned(),
    ]
}

/// The grants, one line each.
fn grants(report: &CheckReport) -> Vec<String> {
    let granted = report.grants.lines();
    if granted.is_empty() { vec!["nothing".to_owned()] } else { granted }
}

/// The note after an import: its use, and whether a grant covers it.
fn beside(report: &CheckReport, import: &str) -> String {
    let name = import.split('@').next().unwrap_or_default();
    let used = report.grants.imports_used.iter().find(|used| used.interface() == name);
    used.map_or_else(String::new, |used| {
        let granted = report.grants.granted.contains(used);
        let granted = if granted { "granted by" } else { "nothing is granted by" };
        format!("  {}; {granted} [{}]", used.does(), used.section())
    })
}

/// A minimal manifest for the component: its current one without the grants that it never uses, and examples
/// of grants that it may want.
fn suggestion(report: &CheckReport) -> anyhow::Result<String> {
    let stem = report.file.strip_suffix(".wasm").unwrap_or(&report.file);
    let mut manifest: toml::Table = report.manifest.as_deref().unwrap_or_default().parse()?;
    let useless = |used: &ImportUse| {
        !report.grants.granted.contains(used) || !report.grants.imports_used.contains(used)
    };
    for used in ImportUse::ALL.into_iter().filter(useless) {
        match used.section().split_once('.') {
            None => drop(manifest.remove(used.section())),
            Some((table, key)) => {
                if let Some(table) = manifest.get_mut(table).and_then(toml::Value::as_table_mut) {
                    table.remove(key);
                }
            }
        }
    }
    manifest.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
    let mut out = format!(
        "# {stem}.toml: a minimal manifest for {} ({}).\n# Lines that are commented out grant nothing yet.\n",
        report.file,
        report.digest.to_string().chars().take(12).collect::<String>()
    );
    if !manifest.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(out, "\n{}", toml::to_string(&manifest)?);
    }
    for used in report.grants.ungranted() {
        let (table, _) = used.section().split_once('.').unwrap_or((used.section(), ""));
        let _ = write!(out, "\n# If a tool {}:\n# [{table}]\n# {}\n", used.does(), used.example());
    }
    Ok(out)
}

fn first_line(description: Option<&str>) -> &str {
    description.unwrap_or_default().lines().next().unwrap_or_default()
}

fn as_json(report: &CheckReport) -> serde_json::Value {
    let names = |uses: &[ImportUse]| uses.iter().map(|used| used.section()).collect::<Vec<_>>();
    serde_json::json!({
        "plugin": report.file,
        "digest": report.digest.to_string(),
        "bytes": report.size,
        "tools": report.tools,
        "skipped": report.skipped,
        "prompts": report.prompts,
        "resources": report.has_resources,
        "claimsUris": report.claims_uris,
        "completion": report.has_completion,
        "imports": report.imports,
        "exports": report.exports,
        "reaches": names(&report.grants.imports_used),
        "granted": names(&report.grants.granted),
        "mayNeed": names(&report.grants.ungranted().collect::<Vec<_>>()),
        "unused": names(&report.grants.unused().collect::<Vec<_>>()),
        "hosts": report.grants.hosts,
        "peers": report.grants.peers,
        "secrets": report.grants.secrets.iter().map(|secret| &secret.name).collect::<Vec<_>>(),
        "environment": report.grants.env,
        "folders": report.grants.folders.iter().map(|folder| serde_json::json!({
            "guest": folder.guest,
            "host": folder.host,
            "mode": folder.mode.as_str(),
        })).collect::<Vec<_>>(),
        "resume": report.resume,
        "manifest": report.manifest.is_some(),
        "enabled": report.enabled,
        "limits": limits_as_json(&report.limits),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_dispatch::TaskSupport::{Forbidden, Optional, Required};

    #[test]
    fn the_block_about_resuming_says_what_is_replayed_and_which_tools_resume() {
        let resume = CheckedResume {
            tools: vec!["order".to_owned()],
            replayed: vec!["clocks (1 ms)".to_owned(), "HTTP to api.example.com".to_owned()],
            same: vec!["random numbers".to_owned(), "environment".to_owned()],
        };
        let expected = "resume\nreplayed: clocks (1 ms), HTTP to api.example.com\n\
                        the same each time: random numbers, environment\nrefused: none";
        assert_eq!(resume_lines(&resume, 1).join("\n"), expected);
        assert_eq!(resume_lines(&resume, 2)[0], "resume (only order)");
    }

    #[test]
    fn a_tool_that_is_never_handed_off_has_the_reason_in_its_line() {
        let by_tool = "tasks forbidden; never handed off: the tool declares forbidden";
        let by_manifest = "tasks forbidden; never handed off: the manifest says forbidden";
        for (declared_task_support, task_support, says) in [
            (Forbidden, Forbidden, by_tool),
            (Forbidden, Optional, "tasks optional"),
            (Forbidden, Required, "tasks required"),
            (Optional, Optional, "tasks optional"),
            (Required, Required, "tasks required"),
            (Optional, Forbidden, by_manifest),
            (Required, Forbidden, by_manifest),
        ] {
            let (name, title, description, header_fault) = ("t".to_owned(), None, None, None);
            let tool =
                CheckedTool { name, title, description, task_support, declared_task_support, header_fault };
            assert_eq!(tasks_of(&tool), says);
        }
    }
}
