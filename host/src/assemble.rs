//! Assembles the parts (engine, stores, dispatcher, services) and shuts them down in the right order.

mod settings;

pub use settings::{dispatch_settings, policy};

use crate::audit::{Destination, Exporter, LogFile};
use crate::config::value::AuditTo;
use crate::config::{Config, StoreChoice, encryption};
use crate::lock::PluginLock;
use crate::plugin_folder::{self, FirstLoad, PluginReports};
use crate::protect;
use crate::system::{RandomIds, SystemClock};
use crate::traces::Otlp;
use anyhow::Context as _;
use prometheus_client::registry::Registry;
use settings::{plugin_files, timelines, wire_settings};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, SetOnce};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolyard_dispatch::{ClientShares, Departure, Dispatch, DrainMode, DrainReport, Shares, Stores, visible};
use toolyard_engine::{Compiler, Engine, Plugins, Snapshot};
use toolyard_manifest::Limits;
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{Backend, MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use toolyard_transport::auth::Auth;
use toolyard_transport::http::access::HttpAccess;
use toolyard_transport::{Implementation, Server, ServerIdentity};
use toolyard_workshop::CallLog;

/// The time that each service may take to end after its stop token is cancelled.
const SERVICES_END: Duration = Duration::from_secs(5);

/// Runs `main` with two runtimes: one serves clients, the other runs guests that take longer than their first
/// poll. So a guest that computes for ever never delays a client.
pub fn with_runtimes<T, F: Future<Output = anyhow::Result<T>>>(
    main: impl FnOnce(Handle) -> F,
) -> anyhow::Result<T> {
    crate::system::raise_descriptor_limit();
    let runtime = |name: &str| {
        Builder::new_multi_thread()
            .thread_name(name)
            .enable_all()
            .build()
            .context("cannot start the async runtime")
    };
    let guests = runtime("guest")?;
    let serving = runtime("serve")?;
    let done = serving.block_on(main(guests.handle().clone()));
    // All work that matters has ended. The rest, such as a blocking read of stdin, must not keep the process
    // alive.
    serving.shutdown_background();
    guests.shutdown_background();
    done
}

/// The options of a start.
pub struct Start {
    first_load: FirstLoad,
    /// The observer of calls and of loaded plugins.
    call_log: Option<Arc<CallLog>>,
    /// Whether the operator makes all calls, which then need no approval.
    is_operators_own: bool,
}

impl Start {
    /// For a command whose only caller is the operator, with an observer of calls and of loaded plugins.
    pub const fn for_operator(call_log: Option<Arc<CallLog>>) -> Self {
        Self { first_load: FirstLoad::Complete, call_log, is_operators_own: true }
    }

    /// For all callers.
    pub const fn serving(first_load: FirstLoad) -> Self {
        Self { first_load, call_log: None, is_operators_own: false }
    }
}

/// The assembled parts.
pub struct Assembled {
    /// The server that the transports use.
    pub server: Arc<Server>,
    first_load: Arc<SetOnce<Snapshot>>,
    /// The plugins as they are now.
    pub plugins: Arc<PluginReports>,
    /// Makes the plugins read their secrets again.
    pub secrets: Arc<Notify>,
    /// The metrics, for the admin listener.
    pub registry: Registry,
    traces: Option<Arc<Otlp>>,
    services: Vec<JoinHandle<()>>,
    /// Ends after the services, because it exports their last entries.
    exporter: Option<(JoinHandle<()>, CancellationToken)>,
    stop_services: DropGuard,
    /// The store of tasks.
    pub store: Arc<dyn Backend>,
    capacity: u32,
}

impl Assembled {
    /// Starts the parts and loads the plugin folder; gives up if `stop` is cancelled meanwhile. Services end
    /// when [`Assembled::shut_down`] is called, which the caller must do in any case.
    pub async fn start(
        config: &Config,
        guests: Handle,
        stop: &CancellationToken,
        Start { first_load, call_log, is_operators_own }: Start,
    ) -> anyhow::Result<Self> {
        plugin_folder::check(config)?;
        let engine = start_engine(config)?;
        let capacity = engine.capacity();
        let store = open_store(config).await?;
        let stores = stores_in(&store);
        engine.keep_components(stores.journals.clone());
        let exporter = exporter(config, &stores)?;
        let dispatch = Dispatch::new(
            dispatch_settings(config, capacity),
            stores,
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            guests,
        );
        let policy = policy(config)?;
        dispatch.enforce(if is_operators_own { policy.for_operator_alone() } else { policy });
        if let Some(call_log) = &call_log {
            dispatch.observers().set_observer(call_log.clone());
        }
        let mut registry = crate::metrics::registry();
        let traces = Otlp::start(config, Handle::current())?;
        if let Some(traces) = &traces {
            traces.register_metrics(&mut registry);
            dispatch.observers().set_traces(traces.clone());
        }
        let plugins = Plugins::open(engine, config.plugins.clone());
        let secrets = plugins.refresher();
        plugins.register_metrics(&mut registry);
        dispatch.register_metrics(&mut registry);
        store.register_metrics(&mut registry);
        let (publish, reports) = (dispatch.clone(), Arc::new(PluginReports::default()));
        let reported = reports.clone();
        let publish = move |snapshot: Snapshot| {
            reported.lock().clone_from(&snapshot.plugins);
            // Before a client can read the first list, and call a tool that is not in it.
            if !publish.catalog().is_loaded() {
                publish.catalog().set_loading(snapshot.loading.clone());
            }
            // The same object means the same tools, so clients need no notification.
            if !Arc::ptr_eq(&snapshot.catalog, &publish.catalog().current()) {
                publish.catalog().publish(snapshot.catalog);
            }
            publish.catalog().set_loading(snapshot.loading);
            // Last, because a reader of the log may call a loaded tool at once.
            if let Some(call_log) = &call_log {
                call_log.loaded(&snapshot.plugins);
            }
        };
        let (wait, is_awaited) = first_load.terms();
        let stop_services = CancellationToken::new();
        let first_load = Arc::new(SetOnce::new());
        let loading = tokio::spawn(plugin_folder::serve(
            plugins,
            wait,
            publish,
            first_load.clone(),
            stop_services.clone(),
        ));
        if is_awaited {
            tokio::select! {
                biased;
                _ = first_load.wait() => {}
                () = stop.cancelled() => {
                    stop_services.cancel();
                    drop(loading.await);
                    anyhow::bail!("stopped while the tools were loading")
                }
            }
        }
        let services = vec![
            tokio::spawn(dispatch.clone().keep_time(stop_services.clone())),
            tokio::spawn(dispatch.clone().keep_lease(stop_services.clone())),
            loading,
        ];
        let exporter = exporter.map(|exporter| {
            let stop = CancellationToken::new();
            (tokio::spawn(exporter.run(stop.clone())), stop)
        });
        let server = Arc::new(Server {
            dispatch,
            identity: ServerIdentity {
                info: Implementation {
                    name: config.name.clone(),
                    title: config.title.clone(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                },
                instructions: config.instructions.clone(),
                tasks: config.limits.tasks,
            },
            settings: wire_settings(config),
            access: HttpAccess::new(
                Auth::new(config.auth.clone(), Arc::new(SystemClock), config.shown_name()),
                config.allowed_names.clone(),
            ),
            shares: ClientShares {
                messages: Shares::messages(
                    config.limits.body_bytes.as_u64() as usize,
                    config.limits.body_bytes_per_principal.as_u64() as usize,
                ),
                waiting: Shares::waiting_requests(config.limits.requests_per_session as usize),
                connections: Shares::connections(),
            },
            metrics: toolyard_transport::Metrics::default(),
            server_info: toolyard_transport::ServerInfo::default(),
        });
        server.metrics.register(&mut registry);
        Ok(Self {
            server,
            first_load,
            plugins: reports,
            secrets,
            registry,
            traces,
            services,
            exporter,
            stop_services: stop_services.drop_guard(),
            store,
            capacity,
        })
    }

    /// Takes no more calls, lets runs continue for `grace`, and then ends the rest or hands it over. Returns
    /// the runs that did not finish.
    pub async fn drain(&self, grace: Duration, mode: DrainMode) -> DrainReport {
        let running = self.server.dispatch.load().runs;
        if running > 0 && !grace.is_zero() {
            tracing::info!(
                event = "shutdown.draining",
                count = running,
                ?grace,
                "waiting for calls to end; a second signal ends at once"
            );
        }
        #[cfg(feature = "failpoints")]
        toolyard_failpoint::reach("drain.begun");
        // No other host can find tasks that exist only in memory.
        let mode = if self.store.is_durable() { mode } else { DrainMode::EndAll };
        self.server.dispatch.drain(grace, mode).await
    }

    /// Ends the services and closes the store last. [`Assembled::drain`] comes before, so the end of every
    /// task is in the store by then.
    pub async fn close(self) {
        drop(self.stop_services);
        for service in self.services {
            end_of(service, "periodic").await;
        }
        // The end of every task is committed by now, and the store is still open.
        if let Some((exporter, stop)) = self.exporter {
            stop.cancel();
            end_of(exporter, "audit_export").await;
        }
        if let Some(traces) = self.traces {
            traces.end().await;
        }
        self.store.shut_down().await;
    }

    /// Ends all runs and closes, for commands that serve no clients.
    pub async fn shut_down(self) {
        self.drain(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
        self.close().await;
    }

    /// The plugins that the host found in the plugin folder at the start. Waits until they are loaded.
    pub async fn first_load(&self) -> &Snapshot {
        self.first_load.wait().await
    }

    /// A summary of the folder in a few lines, for a terminal.
    pub fn greeting(&self, config: &Config, Snapshot { plugins, loading, .. }: &Snapshot) -> String {
        let catalog = self.server.dispatch.catalog().current();
        let names: Vec<&str> = catalog.tools().map(|tool| tool.spec().name()).collect();
        let folder = config.plugins.display();
        let mut out = String::new();
        for report in plugins {
            for why in &report.left_out {
                out.push_str(&format!("  left out    {why}\n"));
            }
            if let Some(why) = report.refusal() {
                out.push_str(&format!("  not loaded  {why}\n"));
            }
        }
        if !loading.is_empty() {
            let files: Vec<&str> = loading.iter().map(String::as_str).collect();
            out.push_str(&format!("  compiling   {}; served when that is done\n", listed(&files)));
        }
        if names.is_empty() && catalog.providers().is_empty() && loading.is_empty() {
            out.push_str(&format!(
                "  no tools yet in {folder}\n  \
                 next      copy a tool component there (NAME.wasm); it is served at once, without a restart\n            \
                 `toolyard check NAME.wasm` says whether a file is one; the README says how to write one\n"
            ));
        } else {
            out.push_str(&format!("  tools     {} from {folder}: {}\n", names.len(), listed(&names)));
        }
        let prompts: Vec<&str> = catalog.prompts().map(|prompt| prompt.name.as_str()).collect();
        if !prompts.is_empty() {
            out.push_str(&format!("  prompts   {}: {}\n", prompts.len(), listed(&prompts)));
        }
        let resources = catalog.providers().iter().map(|provider| provider.spec());
        let resources: Vec<&str> =
            resources.filter(|spec| spec.has_resources).map(|spec| spec.plugin.as_str()).collect();
        if !resources.is_empty() {
            out.push_str(&format!("  resources from {}\n", listed(&resources)));
        }
        let kept = match &config.store {
            StoreChoice::Sqlite => config.data.display().to_string(),
            StoreChoice::Memory => "memory; they are lost when this process ends".to_owned(),
            // The host parsed it already when it opened the store.
            StoreChoice::Postgres(address) => PostgresLocation::parse(address.reveal(), &config.schema)
                .map_or_else(|_| "PostgreSQL".to_owned(), |place| place.to_string()),
        };
        out.push_str(&format!("  tasks in  {kept}\n"));
        if self.capacity < config.limits.running {
            out.push_str(&format!(
                "  at most   {} calls at once, because of this machine's vm.max_map_count\n",
                self.capacity
            ));
        }
        out
    }
}

/// Waits for the end of a service, up to [`SERVICES_END`].
async fn end_of(service: JoinHandle<()>, name: &str) {
    if tokio::time::timeout(SERVICES_END, service).await.is_err() {
        tracing::warn!(event = "shutdown.service_not_ended", service = name, "service did not end in time");
    }
}

fn listed(names: &[&str]) -> String {
    const MAX_SHOWN: usize = 12;
    let mut text = names.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_SHOWN {
        text.push_str(&format!(", and {} more", names.len() - MAX_SHOWN));
    }
    visible::line(&text).into_owned()
}

/// Starts the engine, with its cache in the data folder.
pub fn start_engine(config: &Config) -> anyhow::Result<Arc<Engine>> {
    let limits = &config.limits;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let settings = toolyard_engine::Settings {
        cache: Some(config.data.join("compiled")),
        compiler: Compiler::Child { program, args: vec!["compile-component".to_owned()] },
        quick_code: config.quick_code,
        stand_ins: config.uses_placeholder_secrets,
        variable: |name| std::env::var_os(name),
        secret_commands: config.secret_commands.clone(),
        limits: Limits {
            memory: limits.memory.as_u64(),
            cpu: limits.cpu,
            wall: limits.wall,
            output: limits.output.as_u64(),
            hostcall: limits.hostcall.as_u64(),
            stdio: limits.stdio.as_u64(),
            log: limits.log.as_u64(),
            http_request: limits.http_request.as_u64(),
            http_response: limits.http_response.as_u64(),
            // Manifests set the other limits: those depend on the plugin, not on the machine.
            ..Limits::default()
        },
        max_runs: limits.running,
        guest_memory: limits.guest_memory.map(|size| size.as_u64()),
        names: Some(config.data.join("names")),
        host_version: env!("CARGO_PKG_VERSION"),
        deals_names: config.assigns_tool_names,
        private: protect::withheld(config),
        require_digest: config.require_digest.clone(),
        lock: PluginLock::reader(config),
        others_may_write: limits.others_may_write,
        compile_time: limits.compile_time,
        compile_memory: limits.compile_memory.as_u64(),
        max_component_bytes: limits.component.as_u64(),
        max_files: plugin_files(),
        rescan: limits.rescan,
        ..toolyard_engine::Settings::default()
    };
    protect::check(config)?;
    Ok(Engine::start(&settings)?)
}

/// Opens the configured store. If it cannot be used, the start fails; the host never falls back to memory.
pub async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Backend>> {
    Ok(match &config.store {
        StoreChoice::Memory => {
            let store = MemoryStore::new(Arc::new(SystemClock)).with_timelines(timelines(config));
            Arc::new(if audited(config) { store.audited() } else { store })
        }
        StoreChoice::Sqlite => open_sqlite(config)?,
        StoreChoice::Postgres(address) => {
            // With PostgreSQL, too, the host keeps files in the data folder, such as the audit log.
            protect::data_folder(config)?;
            let place = PostgresLocation::parse(address.reveal(), &config.schema)?;
            let options = PostgresOptions {
                name: host_name(),
                lease: config.limits.lease,
                audit: audited(config),
                timeline: timelines(config),
                keys: encryption::keys(config.key_file.as_deref())?,
                ..PostgresOptions::default()
            };
            PostgresStore::open(place, options).await?
        }
    })
}

/// The name of this host among those that share a database.
fn host_name() -> String {
    let machine = sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned());
    format!("{machine} {}", std::process::id())
}

/// Opens the store in the data folder.
pub fn open_sqlite(config: &Config) -> anyhow::Result<Arc<SqliteStore>> {
    protect::data_folder(config)?;
    let keys = encryption::keys(config.key_file.as_deref())?;
    let options = SqliteOptions {
        audit: audited(config),
        timeline: timelines(config),
        keys,
        ..SqliteOptions::new(Arc::new(SystemClock))
    };
    SqliteStore::open(&config.data, options).with_context(|| {
        format!("cannot use the data folder {}; name another by --data", config.data.display())
    })
}

/// The ports of this store.
pub fn stores_in(store: &Arc<dyn Backend>) -> Stores {
    Stores {
        tasks: store.clone(),
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        timeline: store.clone(),
        journals: store.clone(),
        audit: store.clone(),
    }
}

fn audited(config: &Config) -> bool {
    matches!(config.limits.audit_to, AuditTo::File | AuditTo::Stderr)
}

/// The exporter of audit entries; `None` if this process exports none.
///
/// # Errors
/// If they go to a file that other users could change.
pub fn exporter(config: &Config, stores: &Stores) -> anyhow::Result<Option<Exporter>> {
    let Some(to) = audit_log(config)? else { return Ok(None) };
    Ok(Some(Exporter::new(stores.audit.clone(), to, &config.data)))
}

/// The destination of audit entries.
///
/// # Errors
/// If they go to a file that other users could change, or that cannot be written.
pub fn audit_log(config: &Config) -> anyhow::Result<Option<Destination>> {
    let limits = &config.limits;
    Ok(match limits.audit_to {
        // Commands that have a log of their own choose it before this point.
        AuditTo::Auto | AuditTo::Off => None,
        AuditTo::Stderr => Some(Destination::Stderr),
        AuditTo::File => {
            let path = config.data.join(&limits.audit_file);
            let log = LogFile::new(path, limits.audit_rotate_at.as_u64(), limits.audit_keep);
            let log = log.shared(limits.data_others_may_write);
            log.check().context("cannot write the audit log (`audit.file`)")?;
            Some(Destination::File(log))
        }
    })
}
