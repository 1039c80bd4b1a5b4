//! The commands, one file each. All but `stdio` print their results on stdout; for `stdio`, stdout carries
//! the protocol.

pub mod accept;
pub mod add;
pub mod approvals;
pub mod background;
pub mod backup;
pub mod build;
pub mod call;
pub mod check;
pub mod compile;
pub mod componentize;
pub mod config;
pub mod connect;
pub mod console;
pub mod dev;
pub mod doctor;
pub mod erase;
pub mod generate;
pub mod grants;
pub mod hosts;
pub mod install;
pub mod new;
pub mod pull;
pub mod remove;
pub mod restore;
pub mod rules;
pub mod serve;
pub mod status;
pub mod stdio;
pub mod tasks;
pub mod test;
pub mod token;
pub mod tools;
pub mod update;
pub mod verify;
pub mod wit;

mod operator;
mod plugins;
mod table;

use crate::assemble;
use crate::config::value::LogFormat;
use crate::config::{Config, Flags};
use crate::log::lossy::{self, Lossy, Stderr};
use crate::log::{JsonLines, ShownFields};
use crate::signals::stop_signal;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use toolyard_cli::{INTERRUPTED, WrongUsage, bail_usage};
use toolyard_dispatch::DrainReport;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Reads the configuration. An error in it counts as wrong usage.
fn configure(flags: &Flags, listen: Option<&str>) -> anyhow::Result<Config> {
    Config::read(flags, listen).map_err(|error| WrongUsage(format!("{error:#}")).into())
}

/// Runs the work of a command in an async runtime, to its end or until Ctrl-C.
fn run_until_stopped(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    assemble::with_runtimes(|_| until_stopped(work))
}

async fn until_stopped(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let stop = stop_signal()?;
    tokio::select! {
        biased;
        done = work => done,
        () = stop.cancelled() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// A count with its noun.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Logs to stderr, with the configuration's filter or else `default`.
fn start_log(config: &Config, default: &str) -> anyhow::Result<()> {
    start_log_to(config, default, || Stderr, std::io::stderr().is_terminal())
}

/// Logs to a writer, with the same filter.
fn start_log_to(
    config: &Config,
    default: &str,
    to: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
    colours: bool,
) -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt().with_env_filter(filter(config, default)?).fmt_fields(ShownFields);
    // A log that cannot be written must not end the thread that logs.
    let log = log.with_writer(Lossy(to)).log_internal_errors(false).with_ansi(colours);
    match config.limits.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.event_format(JsonLines).init(),
    }
    // By itself, Rust would write it to standard error, and wait there for a reader that does not read.
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(event = "host.panicked", error = %panic, "thread panicked"),
    ));
    config.warn_of_dropped_keys();
    Ok(())
}

/// A word of a filter that is no level. The filter would take it for a target, and log nothing else.
fn unknown_level(filter: &str) -> Option<&str> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_word = |part: &&str| !part.is_empty() && !part.contains(['=', '[', ':']);
    filter.split(',').map(str::trim).filter(is_word).find(|word| !is_level(word))
}

fn filter(config: &Config, default: &str) -> anyhow::Result<EnvFilter> {
    let filter = config.log.as_deref().unwrap_or(default);
    if let Some(word) = unknown_level(filter) {
        bail_usage!(
            "`log`: unknown level `{word}`; expected error, warn, info, debug, trace or off, or a target with \
             its level, as in warn,toolyard_engine=debug"
        );
    }
    EnvFilter::try_new(filter).map_err(|error| {
        WrongUsage(format!("`log`: {error}; expected a filter such as info or warn,toolyard_engine=debug"))
            .into()
    })
}

/// The exit code of a host that received a stop signal: 0, or 1 if it had to cut calls. Says on stderr how
/// many.
fn left_code(left: DrainReport) -> ExitCode {
    let DrainReport { cut, handed_over } = left;
    if handed_over > 0 {
        lossy::tell(&format!("toolyard: {} left to the next host\n", counted(handed_over as u64, "task")));
    }
    if cut == 0 {
        return ExitCode::SUCCESS;
    }
    lossy::tell(&format!("toolyard: {} had to be cut\n", counted(cut as u64, "call")));
    ExitCode::FAILURE
}
