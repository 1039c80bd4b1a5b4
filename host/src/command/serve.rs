//! `toolyard serve`.

use super::{configure, left_code, start_log};
use crate::assemble::{self, Assembled, Start};
use crate::config::{Config, Flags};
use crate::console::ConsoleService;
use crate::health::{Health, Listening};
use crate::log::lossy;
use crate::plugin_folder::FirstLoad;
use crate::reload::{Reload, ReloadMetrics};
use crate::signals::stop_or_reload;
use crate::start_checks;
use anyhow::Context as _;
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolyard_connect::CLIENTS;
use toolyard_dispatch::{DrainMode, DrainReport};
use toolyard_engine::QuickCode;
use toolyard_transport::http::{self, Listener};

/// The options of `serve`.
#[derive(Debug, Args)]
pub struct Options {
    /// The address to serve at; port 0 takes a free one. [key: listen] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR:PORT", env = "TOOLYARD_LISTEN")]
    listen: Option<String>,
}

/// Serves until a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, options.listen.as_deref())?;
    config.limits.audit_to.or_file();
    start_checks::check(&config)?;
    config.assigns_tool_names = true;
    config.quick_code = QuickCode::Meanwhile;
    start_log(&config, "info")?;
    assemble::with_runtimes(|guests| async move {
        let hangup = Arc::new(Notify::new());
        let stop = stop_or_reload(hangup.clone())?;
        // Bound first: the host reports a port in use before it compiles any tool.
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {} (`listen`)", config.listen))?;
        let address = listener.local_addr()?;
        let health = Health::new(stop.clone());
        let admin = Listening::start(&config, health.clone()).await?;
        if let Some(admin) = &admin {
            lossy::tell(&format!("toolyard: http://{} has /healthz, /readyz and /metrics\n", admin.address));
        }
        let start = Start::serving(FirstLoad::Within(config.limits.plugin_wait));
        let mut assembled = Assembled::start(&config, guests, &stop, start).await?;
        let metrics = ReloadMetrics::default();
        metrics.register(&mut assembled.registry);
        health.loaded(&mut assembled);
        let console = ConsoleService::start(&config, address, &assembled, health).await?;
        let reload = Reload {
            flags: flags.clone(),
            listen: options.listen.clone(),
            had_file: config.file.exists(),
            started: config.clone(),
            config: config.clone(),
            server: assembled.server.clone(),
            console: console.as_ref().map(|service| service.console.clone()),
            secrets: assembled.secrets.clone(),
            metrics,
        };
        let end_reload = CancellationToken::new();
        let reloading = tokio::spawn(reload.follow(hangup, end_reload.clone()));
        greet(&config, &assembled, address, console.as_ref()).await;
        tracing::info!(
            event = "host.started",
            version = env!("CARGO_PKG_VERSION"),
            %address,
            plugins = %config.plugins.display(),
            "host started"
        );
        if !assembled.server.access.current().auth.is_required() && !address.ip().is_loopback() {
            tracing::warn!(
                event = "http.no_authentication", %address,
                "everybody who reaches this address may use every tool"
            );
        }
        // Recovers tasks of earlier hosts without waiting for a client to ask for them.
        let recovering = assembled.server.dispatch.clone();
        let mut left = DrainReport::default();
        let draining = async { left = assembled.drain(config.limits.drain, DrainMode::HandOver).await };
        let serving = http::serve(assembled.server.clone(), Listener::Tcp(listener), stop.clone(), draining);
        tokio::join!(serving, recovering.recover_now());
        end_reload.cancel();
        if reloading.await.is_err() {
            tracing::error!(event = "config.reload_panicked", "the reload of the configuration panicked");
        }
        if let Some(console) = console {
            console.end().await;
        }
        assembled.close().await;
        if let Some(admin) = admin {
            admin.end().await;
        }
        tracing::info!(
            event = "host.stopped",
            cut = left.cut,
            handed_over = left.handed_over,
            "host stopped"
        );
        Ok(left_code(left))
    })
}

/// Prints on stderr the address, the tools, and the next steps.
async fn greet(
    config: &Config,
    assembled: &Assembled,
    address: std::net::SocketAddr,
    console: Option<&ConsoleService>,
) {
    let url = format!("http://{address}/mcp");
    let version = env!("CARGO_PKG_VERSION");
    let summary = assembled.greeting(config, assembled.first_load().await);
    let token =
        if assembled.server.access.current().auth.is_required() { " --token-env VARIABLE" } else { "" };
    let clients = CLIENTS.iter().filter(|client| client.has_http()).map(|client| client.name);
    let clients = clients.collect::<Vec<_>>().join(", ");
    let console = console.map_or_else(String::new, |console| {
        format!(
            "  console   {}\n            works once, for five minutes; `toolyard console` prints a new one\n",
            console.link
        )
    });
    lossy::tell(&format!(
        "Toolyard {version} serves {url}\n{summary}\
         \x20 connect   toolyard connect CLIENT --http {url}{token}\n\
         \x20           CLIENT is one of {clients}\n\
         {console}\
         \x20 stop      Ctrl-C\n"
    ));
}
