//! `toolyard background-host`: runs the tasks of `toolyard stdio --detach`, which starts it.

use super::{configure, start_log_to};
use crate::assemble::{self, Assembled};
use crate::config::Flags;
use crate::signals::stop_signal;
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use std::sync::Mutex;
use toolyard_detach::{Listener, RuntimeDir, TAKEN, leave_session};
use toolyard_dispatch::DrainMode;

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
    config.deals_names = true;
    let dir = RuntimeDir::create(&config.data, &options.name)?;
    let log = dir.open_log(config.limits.detach_log.as_u64())?;
    start_log_to(&config, "info", Mutex::new(log))?;
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(
            event = "background.panicked", error = %panic,
            "background host panicked"
        )
    }));
    if config.fingerprint() != options.settings {
        bail!("the configuration has changed since this server was started; start it again");
    }
    let Some(lock) = dir.lock()? else { return Ok(ExitCode::from(TAKEN)) };
    let socket = lock.listen()?;
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let assembled = Assembled::start(&config, guests, &stop).await?;
        let server = assembled.server.clone();
        let mut listener = Listener::new(socket, server)?;
        tracing::info!(
            event = "background.ready", process = std::process::id(), path = %config.plugins.display(),
            "background host serves"
        );
        // The relay may have started this host for tasks that earlier hosts left.
        assembled.server.dispatch.recover_now().await;
        listener.serve(stop.clone()).await;
        // Before the wait for calls that still run: the next host serves relays that connect from now on.
        listener.close().await;
        assembled.shut_down(config.limits.drain, DrainMode::HandOver).await;
        Ok(ExitCode::SUCCESS)
    })
}
