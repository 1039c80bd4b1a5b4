//! `toolyard stdio`.

use super::{WrongUsage, configure, left_code, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::detach::reach::BackgroundHost;
use crate::output;
use crate::signals::stop_signal;
use clap::Args;
use std::io::{BufReader, stdin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{Departure, DrainMode, DrainReport};
use toolyard_transport::stdio;

/// The options of `stdio`.
#[derive(Debug, Args)]
pub struct Options {
    /// Run tasks in a background host, so that they go on when the client ends.
    /// It is started at the first task and ends by itself. [env:
    /// TOOLYARD_STDIO_DETACH] [key: stdio.detach]
    #[arg(long)]
    detach: bool,
}

/// Serves stdin and stdout until stdin ends or a signal comes.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    config.deals_names = true;
    start_log(&config, "warn")?;
    let detach = options.detach || config.limits.detach;
    if detach && config.store == StoreChoice::Memory {
        let why = "--detach needs tasks in a file, where another process finds them: --store sqlite";
        return Err(WrongUsage(why.to_owned()).into());
    }
    let background = detach.then(|| BackgroundHost::new(flags, &config)).transpose()?;
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let stopped = stop.clone();
        let assembled = match &background {
            Some(_) => Assembled::start_relay(&config, guests, stop.clone()).await?,
            None => Assembled::start(&config, guests, stop.clone()).await?,
        };
        if assembled.server.dispatch.catalog().is_empty() {
            // Standard error is for people; standard output is not touched.
            output::tell_text(&assembled.greeting(&config));
        }
        let mut left = DrainReport::default();
        // The client is gone, or a signal came: what still runs is ended, and its task
        // says so.
        let draining = async {
            let departure = if *stopped.borrow() { Departure::ShutDown } else { Departure::PipeClosed };
            left = assembled.drain(Duration::ZERO, DrainMode::End(departure)).await;
        };
        let (server, input) = (assembled.server.clone(), BufReader::new(stdin()));
        match background {
            Some(background) => {
                stdio::serve_before(
                    Arc::new(background),
                    server,
                    input,
                    output::json_lines(),
                    stop,
                    draining,
                )
                .await;
            }
            None => stdio::serve(server, input, output::json_lines(), stop, draining).await,
        }
        assembled.close().await;
        // A client that leaves has ended what it began; that is no failure.
        Ok(if *stopped.borrow() { left_code(left) } else { ExitCode::SUCCESS })
    })
}
