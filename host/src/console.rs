//! The console of a host that serves: where it listens, and the parts of the host that it shows.

use crate::assemble::Assembled;
use crate::audit;
use crate::config::Config;
use crate::config::console::ConsoleListen;
use crate::config::value::AuditTo;
use crate::health::Health;
use crate::install::folder::PluginFolder;
use crate::install::held;
use crate::plugin_folder::PluginReports;
use anyhow::Context as _;
use futures_util::future::BoxFuture;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolyard_console::{
    AuditHits, AuditSearch, Console, ConsoleSettings, HostState, LockedPlugin, MAX_CONNECTIONS, PluginDetail,
    PluginState,
};
use toolyard_engine::{GrantSummary, ImportUse, PluginReport};
use toolyard_manifest::Limits;
use toolyard_transport::http::admin::Health as _;
use toolyard_transport::http::operator_listener;
use toolyard_trust::lock::Signer;

/// The port of `console.listen = "auto"`, and how many further ones are tried.
const PORT: u16 = 7422;
const PORTS: u16 = 8;

/// The parts of the host that the console shows.
struct State {
    health: Arc<Health>,
    plugins: Arc<PluginReports>,
    config: Config,
}

impl State {
    /// The entry of a plugin in the lock file.
    fn locked(&self, file: &str) -> Option<LockedPlugin> {
        // A lock file that cannot be read refuses the plugin, which the page shows.
        let lock = PluginFolder::read_only(&self.config.plugins).lock().ok()?;
        let entry = lock.entry(file)?;
        Some(LockedPlugin {
            source: entry.source.clone(),
            signer: match &entry.signer {
                Signer::Key { fingerprint, .. } => Some(format!("key {fingerprint}")),
                Signer::Identity { identity, .. } => Some(identity.clone()),
                Signer::None { .. } => None,
            },
            is_held: held::is_held(&self.config.data, file),
        })
    }
}

impl HostState for State {
    fn unready(&self) -> BoxFuture<'_, Vec<&'static str>> {
        self.health.unready()
    }

    fn plugins(&self) -> Vec<PluginState> {
        let reports = self.plugins.lock();
        reports.iter().map(shown).collect()
    }

    fn plugin(&self, file: &str) -> Option<PluginDetail> {
        let reports = self.plugins.lock();
        let report = reports.iter().find(|report| report.file == file)?;
        Some(PluginDetail { locked: self.locked(file), ..detail(report) })
    }

    fn search_audit(&self, search: AuditSearch) -> BoxFuture<'_, AuditHits> {
        let incomplete = |why: String| AuditHits { incomplete: Some(why), ..AuditHits::default() };
        Box::pin(async move {
            let limits = &self.config.limits;
            match limits.audit_to {
                AuditTo::File => {}
                AuditTo::Stderr => {
                    let why =
                        "The audit log goes to stderr (`audit.to`), so search it where stderr is collected.";
                    return incomplete(why.to_owned());
                }
                AuditTo::Auto | AuditTo::Off => {
                    return incomplete("There is no audit log (`audit.to`).".to_owned());
                }
            }
            let (path, keep) = (self.config.data.join(&limits.audit_file), limits.audit_keep);
            let found =
                tokio::task::spawn_blocking(move || audit::search::search(&path, keep, &search)).await;
            found.unwrap_or_else(|error| incomplete(format!("The search failed: {error}.")))
        })
    }
}

/// A plugin with its grants and limits.
fn detail(report: &PluginReport) -> PluginDetail {
    let grants = report.grants.as_deref();
    let need = |used: ImportUse| format!("[{}], if a tool {}", used.section(), used.does());
    let useless = |used: ImportUse| format!("[{}]: nothing in it {}", used.section(), used.does());
    let rows = |limits: &Arc<Limits>| -> Vec<(&'static str, String)> {
        Limits::ROWS.iter().map(|row| (row.key, row.shown(limits).replace(".0 ", " "))).collect()
    };
    PluginDetail {
        state: shown(report),
        locked: None,
        left_out: report.left_out.clone(),
        granted: grants.map(GrantSummary::lines).unwrap_or_default(),
        missing: grants.into_iter().flat_map(GrantSummary::ungranted).map(need).collect(),
        unused: grants.into_iter().flat_map(GrantSummary::unused).map(useless).collect(),
        limits: report.tools.iter().cloned().zip(report.limits.iter().map(rows)).collect(),
        bounds: (report.concurrency, report.queue),
    }
}

fn shown(report: &PluginReport) -> PluginState {
    use toolyard_engine::PluginState as Engine;
    let (is_served, problem) = match &report.state {
        Engine::Serving => (true, None),
        Engine::KeptPrevious { why } => {
            (true, Some(format!("the version before is served; the one in the folder was rejected: {why}")))
        }
        Engine::Refused { why } => (false, Some(why.clone())),
        Engine::Disabled => (false, Some("its manifest says `enabled = false`".to_owned())),
    };
    PluginState {
        file: report.file.clone(),
        digest: report.digest.as_ref().map(ToString::to_string),
        tools: is_served.then_some(report.tools.len()),
        problem,
        asks: report.grants.as_ref().map(|grants| grants.asked.clone()).unwrap_or_default(),
    }
}

/// The console of this host, while it listens.
pub struct ConsoleService {
    /// The first login link.
    pub link: String,
    /// The console.
    pub console: Arc<Console>,
    service: JoinHandle<()>,
    end: CancellationToken,
}

impl ConsoleService {
    /// Begins to listen, if the configuration says so. `served_at` is the address of the MCP endpoint.
    ///
    /// # Errors
    /// If the configured address cannot be listened on, or the data folder cannot be written.
    pub async fn start(
        config: &Config,
        served_at: SocketAddr,
        assembled: &Assembled,
        health: Arc<Health>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(listener) = listener(config.console.listen, served_at).await? else { return Ok(None) };
        let limits = &config.limits;
        let settings = ConsoleSettings {
            version: env!("CARGO_PKG_VERSION"),
            endpoint: format!("http://{served_at}/mcp"),
            data: config.data.clone(),
            plugins: config.plugins.clone(),
            on_network: !listener.local_addr()?.ip().is_loopback(),
            names: config.console.names.clone(),
            users: config.console.users.clone(),
            not_own: limits.console_not_own,
            session: limits.console_session,
        };
        assembled.server.dispatch.observers().keep_history(config.console.capture);
        let state = Arc::new(State { health, plugins: assembled.plugins.clone(), config: config.clone() });
        let dispatch = assembled.server.dispatch.clone();
        dispatch.set_console(match config.console.names.first() {
            // A proxy in front of the console adds TLS.
            Some(name) => format!("https://{name}"),
            None => format!("http://{}", listener.local_addr()?),
        });
        let console = Console::new(dispatch, state, settings, listener.local_addr()?)
            .and_then(|console| Ok((console.link()?, console)));
        let (link, console) = console.context("cannot start the console (`console.listen = \"off\"`)")?;
        let end = CancellationToken::new();
        let (served, stop) = (console.clone(), end.clone());
        let service = tokio::spawn(async move {
            let serve = |stream| toolyard_console::serve(stream, served.clone(), stop.clone());
            operator_listener::serve(listener, ("console", MAX_CONNECTIONS), stop.clone(), serve).await;
            served.end_links();
        });
        Ok(Some(Self { link, console, service, end }))
    }

    /// Stops listening.
    pub async fn end(self) {
        self.end.cancel();
        if self.service.await.is_err() {
            tracing::error!(event = "console.panicked", "console panicked");
        }
    }
}

/// The listener, if there is to be one. `auto` is for a person at a terminal, on this machine.
async fn listener(listen: ConsoleListen, served_at: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
    match listen {
        ConsoleListen::Off => Ok(None),
        ConsoleListen::At(address) => {
            let listener = TcpListener::bind(address).await;
            Ok(Some(listener.with_context(|| format!("cannot listen on {address} (`console.listen`)"))?))
        }
        ConsoleListen::Auto if !served_at.ip().is_loopback() || !std::io::stderr().is_terminal() => Ok(None),
        ConsoleListen::Auto => {
            for port in PORT..PORT + PORTS {
                if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                    return Ok(Some(listener));
                }
            }
            tracing::warn!(
                event = "console.no_port",
                first = PORT,
                last = PORT + PORTS - 1,
                "no free port for the console"
            );
            Ok(None)
        }
    }
}
