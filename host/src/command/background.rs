//! `toolyard background-host`: serves the relays of `toolyard stdio --detach`, which start it. It is a host like
//! `toolyard serve` on a Unix socket, which ends by itself.

use super::{configure, start_log_to};
use crate::assemble::{self, Assembled, Start};
use crate::config::Flags;
use crate::plugin_folder::FirstLoad;
use crate::protect;
use crate::signals::stop_signal;
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use std::sync::Mutex;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use toolyard_detach::{RuntimeDir, Socket, TAKEN, leave_session, until_idle};
use toolyard_dispatch::DrainMode;
use toolyard_engine::QuickCode;
use toolyard_transport::http::{self, Listener};

/// The options of `background-host`.
#[derive(Debug, Args)]
pub struct Options {
    /// The name by which relays find it.
    #[arg(long)]
    name: String,
    /// The fingerprint of the relay's settings.
    #[arg(long)]
    settings: String,
}

/// Serves relays until no work is left, or a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    // First, before a signal to the client's process group can reach this process.
    leave_session();
    let mut config = configure(flags, None)?;
    config.assigns_tool_names = true;
    config.quick_code = QuickCode::Meanwhile;
    // Before anything is written there.
    protect::data_folder(&config)?;
    let dir = RuntimeDir::create(&config.data, &options.name)?;
    let log = dir.open_log()?;
    start_log_to(&config, "info", Mutex::new(log), false)?;
    if config.fingerprint() != options.settings {
        bail!("the configuration has changed since this server was started; start it again");
    }
    let Some(lock) = dir.lock()? else { return Ok(ExitCode::from(TAKEN)) };
    assemble::with_runtimes(|guests| async move {
        let signal = stop_signal()?;
        let start = Start::serving(FirstLoad::Later(config.limits.plugin_wait));
        let assembled = Assembled::start(&config, guests, &signal, start).await?;
        let Socket { listener, lock } = lock.listen()?;
        let listener = Listener::Unix(UnixListener::from_std(listener)?);
        tracing::info!(
            event = "background.ready", process = std::process::id(), path = %config.plugins.display(),
            "background host serves"
        );
        let stop = CancellationToken::new();
        let draining = async {
            // First: relays that connect from now on find the next host, while calls still run here.
            lock.release();
            assembled.drain(config.limits.drain, DrainMode::HandOver).await;
        };
        let serving = http::serve(assembled.server.clone(), listener, stop.clone(), draining);
        let idling = async {
            until_idle(&assembled.server, config.limits.detach_parked, signal).await;
            stop.cancel();
        };
        tokio::join!(serving, idling, assembled.server.dispatch.recover_now());
        assembled.close().await;
        Ok(ExitCode::SUCCESS)
    })
}
