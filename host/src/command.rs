//! The commands, one file each. All but `stdio` print on stdout what they were
//! asked for; there it belongs to the protocol.

#![allow(clippy::print_stdout, reason = "this is where the program talks to its user")]

pub mod build;
pub mod call;
pub mod check;
pub mod compile;
pub mod componentize;
pub mod dev;
pub mod grants;
pub mod new;
pub mod rules;
pub mod serve;
pub mod stdio;
pub mod tasks;
pub mod test;
pub mod token;
pub mod tools;
pub mod wit;

mod expected;
mod form;
mod operator;
mod table;
mod terminal;

use crate::config::{Config, Flags};
use std::io::IsTerminal as _;

/// The command was used in a way that cannot work; exit code 2.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Reads the configuration; what is wrong with it is wrong usage.
fn configure(flags: &Flags, listen: Option<&str>) -> anyhow::Result<Config> {
    Config::read(flags, listen).map_err(|error| WrongUsage(format!("{error:#}")).into())
}

/// Logs to stderr, by the configuration's filter or else `default`.
fn start_log(config: &Config, default: &str) -> anyhow::Result<()> {
    let filter = config.log.as_deref().unwrap_or(default);
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| WrongUsage(format!("`log`: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
