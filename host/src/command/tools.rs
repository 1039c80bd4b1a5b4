//! `toolyard tools`.

use super::table::{self, Column, table};
use super::{configure, start_log};
use crate::config::limits::Limits as HostLimits;
use crate::config::value::LockMode;
use crate::config::{Config, Flags};
use crate::install::folder::PluginFolder;
use crate::install::held;
use crate::lock_file::stem;
use crate::{assemble, plugin_folder};
use anyhow::bail;
use clap::Args;
use heck::ToLowerCamelCase as _;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::nearest::nearest;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::{Catalog, OnClientTimeout, RawJson, TaskSupport, ToolSpec, visible};
use toolyard_engine::{PluginReport, PluginState, Plugins};
use toolyard_manifest::{Limits, Unit};
use toolyard_trust::lock::{Entry, Signer};

const COLUMNS: [Column<ToolSpec>; 9] = [
    Column::new("TOOL", "tool", |spec| spec.name().into()),
    Column::new("TASKS", "taskSupport", |spec| spec.task_support.as_str().into()),
    Column::new("PLUGIN", "plugin", |spec| spec.plugin.as_str().into()),
    Column::shown("DIGEST", |spec| spec.digest.to_string().chars().take(12).collect::<String>().into()),
    Column::member("digest", |spec| spec.digest.to_string().into()),
    Column::shown("DESCRIPTION", |spec| description(spec).lines().next().into()),
    Column::member("description", |spec| description(spec).into()),
    Column::member("inputSchema", |spec| parsed(Some(&spec.description.input_schema))),
    Column::member("outputSchema", |spec| parsed(spec.description.output_schema.as_ref())),
];

fn description(spec: &ToolSpec) -> &str {
    spec.description.description.as_deref().unwrap_or_default()
}

/// JSON that the component gave, which was parsed before.
fn parsed(text: Option<&RawJson>) -> Value {
    text.and_then(|text| serde_json::from_str(text.as_str()).ok()).unwrap_or_default()
}

/// The options of `tools`.
#[derive(Debug, Args)]
pub struct Options {
    /// Show one tool as clients list it, with its schemas.
    #[arg(value_name = "NAME", conflicts_with_all = ["limits", "bridge"])]
    tool: Option<String>,
    /// Print JSON: one line for each tool, plugin with prompts or resources, and refused file.
    #[arg(long)]
    json: bool,
    /// Show the limits of each tool's runs, and the settings that set them.
    #[arg(long)]
    limits: bool,
    /// Show when calls of clients without tasks are handed off.
    #[arg(long, conflicts_with = "limits")]
    bridge: bool,
}

/// Lists what the folder offers, and the plugins and names that are not loaded or left out, with the reasons.
/// Fails if there are any.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "error")?;
    assemble::with_runtimes(|_| async move {
        plugin_folder::check(&config)?;
        let engine = assemble::start_engine(&config)?;
        let mut plugins = Plugins::open(engine, config.plugins.clone());
        let snapshot = plugins.load().await;
        if let Some(name) = &options.tool {
            print_tool(&snapshot.catalog, name)?;
            return Ok(ExitCode::SUCCESS);
        }
        if options.limits {
            print_limits(&snapshot.plugins, &config.limits, options.json);
            return Ok(print_refused(&snapshot.plugins, options.json));
        }
        if options.bridge {
            print_bridge(&snapshot.catalog, &config, options.json);
            return Ok(print_refused(&snapshot.plugins, options.json));
        }
        if !snapshot.catalog.is_empty() {
            table::list(&COLUMNS, snapshot.catalog.tools().map(|tool| tool.spec()), options.json);
        } else if snapshot.plugins.iter().all(|report| report.state == PluginState::Disabled) && !options.json
        {
            let folder = config.plugins.display();
            say!(
                "Nothing in {folder}. Copy a tool component there (NAME.wasm), or name another folder by --plugins."
            );
        }
        for provider in snapshot.catalog.providers() {
            let spec = provider.spec();
            let prompts: Vec<&str> = spec.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
            if options.json {
                output::json(json!({
                    "plugin": spec.plugin, "digest": spec.digest.to_string(), "prompts": prompts,
                    "resources": spec.has_resources, "completion": spec.has_completion,
                }));
                continue;
            }
            let offers = [
                (!prompts.is_empty()).then(|| format!("prompts: {}", prompts.join(", "))),
                spec.has_resources.then(|| "resources: yes".to_owned()),
                spec.has_completion.then(|| "completion: yes".to_owned()),
            ];
            let offers: Vec<String> = offers.into_iter().flatten().collect();
            say!("{}  {}", spec.plugin, visible::line(&offers.join("; ")));
        }
        print_locked(&config, options.json);
        Ok(print_refused(&snapshot.plugins, options.json))
    })
}

/// Prints a tool as clients list it.
fn print_tool(catalog: &Catalog, name: &str) -> anyhow::Result<()> {
    let Some(tool) = catalog.get(name) else {
        let nearest = nearest(name, catalog.tools().map(|tool| tool.spec().name()));
        let hint = nearest
            .map_or("`toolyard tools` lists them".to_owned(), |name| format!("did you mean `{name}`?"));
        bail!("no tool `{}` in the plugin folder; {hint}", visible::line(name));
    };
    let shown = serde_json::to_value(&tool.spec().description)?;
    say!("{}", serde_json::to_string_pretty(&shown)?);
    Ok(())
}

/// An entry of the lock file, and whether a new version waits.
type Locked<'a> = (&'a Entry, bool);

const fn locked_columns<'a>() -> [Column<Locked<'a>>; 4] {
    [
        Column::new("PLUGIN", "plugin", |(entry, _)| entry.file.as_str().into()),
        Column::new("SOURCE", "source", |(entry, _)| entry.source.as_str().into()),
        Column::new("SIGNER", "signer", |(entry, _)| match &entry.signer {
            Signer::Key { fingerprint, .. } => fingerprint.as_str().into(),
            Signer::Identity { identity, .. } => identity.as_str().into(),
            Signer::None { .. } => "none".into(),
        }),
        Column::member("held", |(_, is_held)| (*is_held).into()),
    ]
}

/// Prints the sources and the signers of the plugins that the lock file lists, and the versions that wait.
fn print_locked(config: &Config, json: bool) {
    if config.limits.lock == LockMode::Off {
        return;
    }
    // A lock file that cannot be read refuses the plugins, which says why.
    let Ok(lock) = PluginFolder::read_only(&config.plugins).lock() else { return };
    let rows: Vec<Locked<'_>> =
        lock.entries().map(|entry| (entry, held::is_held(&config.data, &entry.file))).collect();
    if json {
        return table::list(&locked_columns(), &rows, true);
    }
    for (entry, _) in rows.iter().filter(|(_, is_held)| *is_held) {
        let name = stem(&entry.file);
        tell!("held: a new version of {name} waits; `toolyard accept {name}` takes it");
    }
    if !rows.is_empty() {
        say!("\n{}", table::of_rows(&locked_columns(), &rows));
    }
}

/// A tool, and the terms of its hand-off: after which time, and the fate of a call whose client gives up. Else why its
/// calls are never handed off.
type HandOff<'a> = (&'a ToolSpec, Result<(Duration, OnClientTimeout), &'static str>);

const fn hand_off_columns<'a>() -> [Column<HandOff<'a>>; 5] {
    [
        Column::new("TOOL", "tool", |(spec, _)| spec.name().into()),
        Column::new("TASKS", "taskSupport", |(spec, _)| spec.task_support.as_str().into()),
        Column::shown("HANDED OFF", |(_, terms)| match terms {
            Ok((after, _)) => format!("after {after:?}").into(),
            Err(why) => format!("never: {why}").into(),
        }),
        Column::member("handedOffAfterMs", |(_, terms)| {
            terms.ok().map(|(after, _)| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)).into()
        }),
        Column::new("ON CLIENT TIMEOUT", "onClientTimeout", |(_, terms)| {
            json!(terms.ok().map(|(_, on_client_timeout)| on_client_timeout))
        }),
    ]
}

/// Prints when a call of each tool is handed off, if its client knows no tasks.
fn print_bridge(catalog: &Catalog, config: &Config, json: bool) {
    let bridge = config.bridge.as_ref().filter(|_| config.limits.tasks);
    let terms = |spec: &ToolSpec| match bridge {
        None => Err("the bridge is off"),
        Some(_) if spec.task_support == TaskSupport::Forbidden => Err("its task support is forbidden"),
        Some(bridge) => Ok((
            spec.bridge_after.unwrap_or(bridge.after),
            spec.on_client_timeout.unwrap_or(bridge.on_client_timeout),
        )),
    };
    let rows: Vec<HandOff<'_>> = catalog.tools().map(|tool| (tool.spec(), terms(tool.spec()))).collect();
    table::list(&hand_off_columns(), &rows, json);
}

/// Prints the plugins that are not loaded or left out, with the reasons.
fn print_refused(plugins: &[PluginReport], json: bool) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for report in plugins {
        let left_out = report.left_out.iter().map(|why| ("leftOut", "left out", why.as_str()));
        let refused = report.refusal().map(|why| ("refused", "not loaded", why));
        for (member, words, why) in left_out.chain(refused) {
            code = ExitCode::FAILURE;
            match json {
                true => output::json(json!({"plugin": report.file, member: why})),
                false => tell!("{words}: {why}"),
            }
        }
    }
    code
}

/// Prints a table for each group of a plugin's tools that have the same limits; in JSON, a line for each
/// tool.
fn print_limits(plugins: &[PluginReport], host: &HostLimits, json: bool) {
    for report in plugins {
        let mut groups: Vec<(&Limits, Vec<&str>)> = Vec::new();
        for (name, limits) in report.tools.iter().zip(&report.limits) {
            if json {
                output::json(limits_of(report, name, limits, host));
                continue;
            }
            match groups.iter_mut().find(|(shared, _)| *shared == &**limits) {
                Some((_, names)) => names.push(name),
                None => groups.push((limits, vec![name])),
            }
        }
        for (limits, names) in groups {
            say!("{}: {}", report.file, visible::line(&names.join(", ")));
            let mut table = table(&["LIMIT", "VALUE", "SET BY", "WHAT IT BOUNDS"]);
            for row in Limits::ROWS {
                let by = format!("limits.{}", row.key);
                table.add_row([row.key, &row.shown(limits), &by, row.sentence]);
            }
            for ((key, _, by, sentence), value) in SHARED.into_iter().zip(shared(report, host)) {
                let value = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
                table.add_row([key, &value, by, sentence]);
            }
            say!("{table}\n");
        }
    }
}

/// The limits that count over several runs: the name, the member in JSON, the setting, and a sentence.
const SHARED: [(&str, &str, &str, &str); 5] = [
    ("concurrency", "concurrency", "limits.concurrency", "Runs of the plugin at once."),
    ("queue", "queue", "limits.queue", "Tasks of the plugin that wait for their turn."),
    ("principal", "runningPerPrincipal", "calls.running-per-principal", "Runs of one principal at once."),
    (
        "waiting",
        "waitingPerPrincipal",
        "tasks.waiting-per-principal",
        "Tasks of one principal that wait for their turn.",
    ),
    ("host", "running", "calls.running", "Runs of this host at once, if the machine has room."),
];

/// The values of [`SHARED`]. `None` is no limit.
fn shared(report: &PluginReport, host: &HostLimits) -> [Option<u32>; 5] {
    let of_host = [host.running_per_principal, host.waiting_per_principal, host.running];
    let [running, waiting, all] = of_host.map(Some);
    [report.concurrency, report.queue, running, waiting, all]
}

fn limits_of(report: &PluginReport, name: &str, limits: &Limits, host: &HostLimits) -> Value {
    let mut shown = limits_as_json(limits);
    let shared = SHARED.into_iter().zip(shared(report, host));
    shown.extend(shared.map(|((_, member, ..), value)| (member.to_owned(), value.into())));
    json!({"tool": name, "plugin": report.file, "limits": shown})
}

/// Each limit as a member whose name ends in its unit.
pub fn limits_as_json(limits: &Limits) -> Map<String, Value> {
    let unit = |unit: Unit| match unit {
        Unit::Bytes => "Bytes",
        Unit::Time => "Ms",
        Unit::Count => "",
    };
    Limits::ROWS
        .iter()
        .map(|row| (row.key.to_lower_camel_case() + unit(row.unit), row.of(limits).into()))
        .collect()
}
