//! `toolyard stdio`.

use super::{configure, left_code, start_log};
use crate::assemble::{self, Assembled, Start};
use crate::config::{Config, Flags};
use crate::log::lossy;
use crate::plugin_folder::{self, FirstLoad};
use crate::protect;
use crate::signals::stop_signal;
use crate::system::{RandomIds, named_variables};
use anyhow::Context as _;
use clap::Args;
use std::io::{BufReader, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use toolyard_cli::{bail_usage, output};
use toolyard_detach::{BackgroundHost, Launch};
use toolyard_dispatch::{Departure, DrainMode, DrainReport, Ids as _};
use toolyard_engine::QuickCode;
use toolyard_transport::relay::{self, RelaySettings};
use toolyard_transport::stdio;

/// The options of `stdio`.
#[derive(Debug, Args)]
pub struct Options {
    /// Run the tools in a background host, so that tasks continue when the client ends. It starts with the
    /// first client and ends by itself. [env: TOOLYARD_STDIO_DETACH] [key: stdio.detach]
    #[arg(long)]
    detach: bool,
}

/// Serves stdin and stdout until stdin ends or a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    config.assigns_tool_names = true;
    config.quick_code = QuickCode::Meanwhile;
    start_log(&config, "warn")?;
    if options.detach || config.limits.detach {
        return relay(flags, &config);
    }
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        // Clients give up a server that answers after its components are compiled.
        let start = Start::serving(FirstLoad::Later(config.limits.plugin_wait));
        let assembled = Assembled::start(&config, guests, &stop, start).await?;
        let mut left = DrainReport::default();
        // The client is gone, or a signal came. The host ends all runs, and their tasks record the reason.
        let draining = async {
            let departure = if stop.is_cancelled() { Departure::ShutDown } else { Departure::PipeClosed };
            left = assembled.drain(Duration::ZERO, DrainMode::End(departure)).await;
        };
        let (server, input) = (assembled.server.clone(), BufReader::new(stdin()));
        let greeting = async {
            let plugins = assembled.first_load().await;
            if assembled.server.dispatch.catalog().current().is_empty() {
                // Standard error is for people; standard output is not touched.
                lossy::tell(&assembled.greeting(&config, plugins));
            }
            std::future::pending().await
        };
        tokio::select! {
            () = stdio::serve(server, input, output::json_lines(), stop.clone(), draining) => {}
            () = greeting => {}
        }
        assembled.close().await;
        // A client that disconnects has ended its own calls; that is no failure.
        Ok(if stop.is_cancelled() { left_code(left) } else { ExitCode::SUCCESS })
    })
}

/// Relays stdin and stdout to the background host.
fn relay(flags: &Flags, config: &Config) -> anyhow::Result<ExitCode> {
    if !config.store.is_seen_by_other_processes() {
        bail_usage!("--detach needs tasks in a file, where another process finds them: --store sqlite");
    }
    // This process says at once that the folder is missing; the host starts with the first message.
    plugin_folder::check(config)?;
    protect::data_folder(config)?;
    let background = Arc::new(background_host(flags, config)?);
    let settings = RelaySettings {
        message_bytes: config.limits.message.as_u64() as usize,
        requests: config.limits.requests_per_session as usize,
        relay: RandomIds.uuid().as_u128(),
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    runtime.block_on(async {
        let (stop, input) = (stop_signal()?, BufReader::new(stdin()));
        relay::serve(background, settings, input, output::json_lines(), stop).await;
        anyhow::Ok(())
    })?;
    // A blocking read of stdin must not keep the process alive.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// The background host for this configuration, which came from these flags.
fn background_host(flags: &Flags, config: &Config) -> anyhow::Result<BackgroundHost> {
    Ok(BackgroundHost::new(Launch {
        program: std::env::current_exe().context("cannot find the path of this program")?,
        args: Flags { store: None, ..flags.clone() }.to_args(),
        // Not among the arguments, which all users of this machine can read: it may contain a password.
        environment: flags.store.iter().map(|store| ("TOOLYARD_STORE".to_owned(), store.into())).collect(),
        data: config.data.clone(),
        settings: config.fingerprint(),
        variables: named_variables(&config.plugins),
    }))
}
