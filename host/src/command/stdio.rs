//! `toolyard stdio`.

use super::{configure, start_log};
use crate::assemble::{self, Assembled};
use crate::config::Flags;
use crate::signals::stop_signal;
use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_transport::stdio;

/// Serves stdin and stdout until stdin ends or a signal comes.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = configure(flags, None)?;
    start_log(&config, "warn")?;
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let assembled = Assembled::start(&config, guests, stop.clone()).await?;
        if assembled.server.dispatch.catalog().is_empty() {
            // Standard error is for people; standard output is not touched.
            eprint!("{}", assembled.greeting(&config));
        }
        stdio::serve(assembled.server.clone(), BufReader::new(stdin()), stdout(), stop).await;
        // The client is gone: what still runs is ended, and its task says so.
        assembled.shut_down(Duration::ZERO).await;
        Ok(ExitCode::SUCCESS)
    })
}
