//! `toolyard stdio`.

use super::{WrongUsage, configure, left_code, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Config, Flags};
use crate::signals::stop_signal;
use crate::system::asked_variables;
use anyhow::Context as _;
use clap::Args;
use std::io::{BufReader, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use toolyard_cli::output;
use toolyard_detach::{BackgroundHost, Launch};
use toolyard_dispatch::{Departure, DrainMode, DrainReport};
use toolyard_transport::stdio::{self, PipeClient};

/// The options of `stdio`.
#[derive(Debug, Args)]
pub struct Options {
    /// Run tasks in a background host, so that they continue when the client ends. It starts at the first
    /// task and ends by itself. [env: TOOLYARD_STDIO_DETACH] [key: stdio.detach]
    #[arg(long)]
    detach: bool,
}

/// Serves stdin and stdout until stdin ends or a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    config.deals_names = true;
    start_log(&config, "warn")?;
    let detach = options.detach || config.limits.detach;
    if detach && !config.store.is_seen_by_other_processes() {
        let why = "--detach needs tasks in a file, where another process finds them: --store sqlite";
        return Err(WrongUsage(why.to_owned()).into());
    }
    let background = detach.then(|| background_host(flags, &config)).transpose()?;
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        // Clients give up a server that answers after its components are compiled.
        let assembled = Assembled::start_at_once(&config, guests, &stop, background.is_none()).await?;
        let mut left = DrainReport::default();
        // The client is gone, or a signal came. The host ends all runs, and their tasks record the reason.
        let draining = async {
            let departure = if stop.is_cancelled() { Departure::ShutDown } else { Departure::PipeClosed };
            left = assembled.drain(Duration::ZERO, DrainMode::End(departure)).await;
        };
        let (server, input) = (assembled.server.clone(), BufReader::new(stdin()));
        let client = match background {
            Some(background) => PipeClient::Relayed(Arc::new(background)),
            None => PipeClient::Direct,
        };
        let greeting = async {
            let plugins = assembled.first_load().await;
            if assembled.server.dispatch.catalog().is_empty() {
                // Standard error is for people; standard output is not touched.
                output::tell_text(&assembled.greeting(&config, plugins));
            }
            std::future::pending().await
        };
        tokio::select! {
            () = stdio::serve(server, client, input, output::json_lines(), stop.clone(), draining) => {}
            () = greeting => {}
        }
        assembled.close().await;
        // A client that disconnects has ended its own calls; that is no failure.
        Ok(if stop.is_cancelled() { left_code(left) } else { ExitCode::SUCCESS })
    })
}

/// The background host for this configuration, which came from these flags.
fn background_host(flags: &Flags, config: &Config) -> anyhow::Result<BackgroundHost> {
    Ok(BackgroundHost::new(Launch {
        version: env!("CARGO_PKG_VERSION"),
        program: std::env::current_exe().context("cannot find the path of this program")?,
        args: Flags { store: None, ..flags.clone() }.to_args(),
        // Not among the arguments, which all users of this machine can read: it may contain a password.
        environment: flags.store.iter().map(|store| ("TOOLYARD_STORE".to_owned(), store.into())).collect(),
        data: config.data.clone(),
        settings: config.fingerprint(),
        variables: asked_variables,
        start_timeout: config.limits.detach_start,
        max_log_bytes: config.limits.detach_log.as_u64(),
    }))
}
