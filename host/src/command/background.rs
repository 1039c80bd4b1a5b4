//! `toolyard background-host`: what runs the tasks of `toolyard stdio --detach`. Started
//! by that, and by nobody else.

use super::{configure, start_log_to};
use crate::assemble::{self, Assembled};
use crate::config::Flags;
use crate::detach::door::Door;
use crate::detach::log::BoundedLog;
use crate::detach::place::Place;
use crate::detach::{self, TAKEN};
use crate::signals::stop_signal;
use anyhow::{Context as _, bail};
use clap::Args;
use std::process::ExitCode;
use std::sync::Mutex;
use tokio::net::UnixListener;
use toolyard_dispatch::DrainMode;

/// The options of `background-host`.
#[derive(Debug, Args)]
pub struct Options {
    /// Where it is found.
    #[arg(long)]
    name: String,
    /// What was configured when its relay was started.
    #[arg(long)]
    settings: String,
}

/// Serves relays until nothing is left to do, or a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    // First of all: what ends the client's processes must not end this one, nor may the
    // client's terminal. It fails for the leader of a group, who was started by hand.
    let _ = rustix::process::setsid();
    let mut config = configure(flags, None)?;
    config.deals_names = true;
    let place = Place::new(&config.data, &options.name);
    place.make()?;
    let log = BoundedLog::open(&place.log(), config.limits.detach_log.as_u64()).context("the log")?;
    start_log_to(&config, "info", Mutex::new(log))?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    if detach::settings(&config) != options.settings {
        bail!("the configuration has changed since this server was started; start it again");
    }
    let Some(held) = place.hold()? else { return Ok(ExitCode::from(TAKEN)) };
    let listener = held.listen()?;
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let listener = UnixListener::from_std(listener)?;
        let assembled = Assembled::start(&config, guests, stop.clone()).await?;
        tracing::info!(process = std::process::id(), plugins = %config.plugins.display(), "the background host serves");
        let mut door = Door::new(assembled.server.clone(), &config.limits);
        // What earlier hosts left is a reason to have been started.
        assembled.server.dispatch.recover_now().await;
        door.serve(&listener, stop).await;
        // Before what runs is waited for: whoever comes now is served by the next host.
        held.release();
        drop(listener);
        door.close().await;
        assembled.shut_down(config.limits.drain, DrainMode::HandOver).await;
        Ok(ExitCode::SUCCESS)
    })
}
