//! `toolyard status`: asks the host that runs on this configuration how it is.

use super::table::{self, Column};
use super::{configure, operator, start_log};
use crate::config::{Config, Flags};
use crate::{assemble, http_client};
use anyhow::{Context as _, bail};
use bytes::Bytes;
use bytesize::ByteSize;
use clap::Args;
use http::Request;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::{output, say};
use toolyard_dispatch::{PrincipalUse, TaskStatus, Tasks, owner_name, visible};

/// How long the host may take to answer. `/readyz` itself gives the store two seconds.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The largest answer: metrics of many tools.
const MAX_ANSWER: usize = 16 << 20;
/// The principals that are shown.
const MAX_PRINCIPALS: usize = 10;
/// The beginning of the text that the MCP listener has for browsers.
const GREETING: &str = "Toolyard serves";

/// The live tasks of a principal, and what it holds.
type Largest = (u64, PrincipalUse);

const LARGEST_COLUMNS: [Column<Largest>; 6] = [
    Column::new("PRINCIPAL", "principal", |(_, held)| held.principal.as_str().into()),
    Column::new("TASKS", "liveTasks", |(tasks, _)| (*tasks).into()),
    Column::shown("MESSAGES", |(_, held)| ByteSize(held.message_bytes as u64).to_string().into()),
    Column::member("messageBytes", |(_, held)| held.message_bytes.into()),
    Column::new("WAITING", "waitingRequests", |(_, held)| held.waiting_requests.into()),
    Column::new("CONNECTIONS", "connections", |(_, held)| held.connections.into()),
];

/// The options of `status`.
#[derive(Debug, Args)]
pub struct Options {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The state of the host. `None` where no listener and no store could be asked.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// Why the MCP listener does not answer.
    unreachable: Option<String>,
    /// The failed checks of `/readyz`.
    failed_checks: Option<Vec<String>>,
    figures: Option<Figures>,
    /// The principals that hold the most, and how much.
    #[serde(skip)]
    principals: Vec<PrincipalUse>,
    tasks: Option<LiveTasks>,
    /// Why the store cannot be read.
    store_error: Option<String>,
}

/// Live tasks of all hosts that share the store.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct LiveTasks {
    working: u64,
    input_required: u64,
    /// Of each principal.
    #[serde(skip)]
    by_owner: BTreeMap<String, u64>,
}

/// The figures of `/metrics`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    version: Option<String>,
    /// The number of plugin files in each of the states.
    plugins: BTreeMap<&'static str, u64>,
    runs: Option<u64>,
    sessions: Option<u64>,
    approvals_open: Option<u64>,
    lost_log_lines: Option<u64>,
}

impl Figures {
    fn of(metrics: &str) -> Self {
        let rest = |start: &str| metrics.lines().find_map(|line| line.strip_prefix(start));
        // Gauges of counts, each with its labels as they are written.
        let value = |series: &str| {
            let value: f64 = rest(&format!("{series} "))?.trim().parse().ok()?;
            (value >= 0.0).then_some(value as u64)
        };
        let files =
            |(state, _)| (state, value(&format!("toolyard_plugins{{state=\"{state}\"}}")).unwrap_or(0));
        let version = rest("toolyard_build_info{version=\"").and_then(|rest| rest.split('"').next());
        Self {
            version: version.map(str::to_owned),
            plugins: PLUGIN_STATES.map(files).into_iter().collect(),
            runs: value("toolyard_runs"),
            sessions: value("toolyard_sessions"),
            approvals_open: value("toolyard_approvals_open"),
            lost_log_lines: value("toolyard_log_lost_lines_total"),
        }
    }
}

impl Status {
    /// Whether the host answers, and nothing says that it is not ready.
    fn is_ready(&self) -> bool {
        let passes = self.failed_checks.as_ref().is_none_or(Vec::is_empty);
        self.unreachable.is_none() && passes && self.store_error.is_none()
    }
}

/// Prints the state. The exit code is 1 unless the host is ready.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "error")?;
    let mut status = assemble::with_runtimes(|_| async { Ok(ask(&config).await) })?;
    if config.store.is_seen_by_other_processes() && operator::has_store(&config, true)? {
        match operator::with_store(&config, async |dispatch, _| live_tasks(dispatch.tasks().await?).await) {
            Ok(tasks) => status.tasks = Some(tasks),
            Err(error) => status.store_error = Some(format!("{error:#}")),
        }
    }
    match options.json {
        true => output::json(as_json(&config, &status)),
        false => print(&config, &status),
    }
    Ok(if status.is_ready() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Asks the listeners.
async fn ask(config: &Config) -> Status {
    let unreachable = match get(config.listen, "/").await {
        Ok(text) if text.starts_with(GREETING) => None,
        Ok(_) => Some("another program answers there".to_owned()),
        Err(error) => Some(format!("{error:#}")),
    };
    let mut status = Status { unreachable, ..Status::default() };
    if let Some(admin) = config.admin.listen {
        status.failed_checks = Some(match get(admin, "/readyz").await {
            Ok(text) => failed_checks(&text),
            Err(error) => vec![format!("{error:#}")],
        });
        status.figures = get(admin, "/metrics").await.ok().map(|metrics| Figures::of(&metrics));
        let principals = get(admin, "/principals").await.ok();
        status.principals = principals.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    }
    status
}

/// The failed checks in an answer of `/readyz`.
fn failed_checks(text: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let failed = serde_json::from_value(answer["failed"].clone());
    failed.unwrap_or_else(|_| vec!["/readyz gives no JSON".to_owned()])
}

async fn live_tasks(tasks: &Tasks) -> anyhow::Result<LiveTasks> {
    let mut found = LiveTasks::default();
    for task in operator::find_tasks(tasks, Some(&[TaskStatus::Working, TaskStatus::InputRequired])).await? {
        *found.by_owner.entry(owner_name(&task.owner)).or_default() += 1;
        match task.status {
            TaskStatus::InputRequired => found.input_required += 1,
            _ => found.working += 1,
        }
    }
    Ok(found)
}

/// The address at which this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Gets a page of a listener of this host.
async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let address = reachable(address);
    let request = Request::get(format!("http://{address}{path}")).header("accept", "text/html, */*");
    let answer = http_client::send(request.body(Bytes::new())?, MAX_ANSWER);
    match tokio::time::timeout(ANSWER_TIME, answer).await {
        Ok(Ok(answer)) => Ok(String::from_utf8_lossy(answer.body()).into_owned()),
        Ok(Err(error)) => {
            Err(anyhow::Error::from_boxed(error)).with_context(|| format!("no answer at {address}"))
        }
        Err(_) => bail!("no answer at {address} within {ANSWER_TIME:?}"),
    }
}

/// The states of plugin files, as the metric and the output name them.
const PLUGIN_STATES: [(&str, &str); 4] = [
    ("serving", "serving"),
    ("former", "serving an older version"),
    ("refused", "refused"),
    ("held", "held"),
];

fn print(config: &Config, status: &Status) {
    let address = reachable(config.listen);
    match &status.unreachable {
        None => {
            let version = status.figures.as_ref().and_then(|figures| figures.version.as_ref());
            let version = version.map(|version| format!(" (Toolyard {version})")).unwrap_or_default();
            say!("host       serves http://{address}/mcp{version}");
        }
        Some(reason) => say!("host       {}", visible::line(reason)),
    }
    match status.failed_checks.as_deref() {
        Some([]) => say!("ready      yes"),
        Some(failed) => say!("ready      no: {}", visible::line(&failed.join(", "))),
        None => say!("ready      unknown; `admin.listen` adds this and the figures of plugins and calls"),
    }
    if let Some(figures) = &status.figures {
        let plugins = PLUGIN_STATES.map(|(state, words)| (figures.plugins[state], words));
        let plugins = plugins.into_iter().filter(|(count, _)| *count > 0);
        let plugins: Vec<_> = plugins.map(|(count, words)| format!("{count} {words}")).collect();
        say!("plugins    {}", if plugins.is_empty() { "none".to_owned() } else { plugins.join(", ") });
        say!("runs       {} now", figures.runs.unwrap_or(0));
        say!("sessions   {}", figures.sessions.unwrap_or(0));
        say!("approvals  {} open", figures.approvals_open.unwrap_or(0));
        match figures.lost_log_lines.unwrap_or(0) {
            0 => {}
            lost => say!("log        {lost} lines could not be written; check where standard error goes"),
        }
    }
    if let Some(LiveTasks { working, input_required, .. }) = status.tasks {
        say!("tasks      {working} working, {input_required} waiting for input");
    }
    if let Some(error) = &status.store_error {
        say!("store      {}", visible::line(error));
    }
    let largest = largest(status);
    if !largest.is_empty() {
        say!("\n{}", table::of_rows(&LARGEST_COLUMNS, &largest));
    }
}

/// The principals that hold the most, with their live tasks.
fn largest(status: &Status) -> Vec<Largest> {
    let mut tasks = status.tasks.as_ref().map(|tasks| tasks.by_owner.clone()).unwrap_or_default();
    let with_tasks = |held: &PrincipalUse| (tasks.remove(&held.principal).unwrap_or(0), held.clone());
    let mut all: Vec<_> = status.principals.iter().map(with_tasks).collect();
    let without = |(principal, count)| (count, PrincipalUse { principal, ..PrincipalUse::default() });
    all.extend(tasks.into_iter().map(without));
    // By the bytes first, because those bring a host down.
    let weight =
        |(tasks, held): &Largest| (held.message_bytes, *tasks, held.waiting_requests, held.connections);
    all.sort_by_key(|one| std::cmp::Reverse(weight(one)));
    all.truncate(MAX_PRINCIPALS);
    all
}

fn as_json(config: &Config, status: &Status) -> Value {
    let largest = largest(status);
    let mut shown = json!(status);
    shown["ready"] = status.is_ready().into();
    shown["url"] = format!("http://{}/mcp", reachable(config.listen)).into();
    shown["largestPrincipals"] = largest.iter().map(|row| table::object(&LARGEST_COLUMNS, row)).collect();
    shown
}
