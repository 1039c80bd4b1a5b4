//! `toolyard console`: prints a login link for the console of the host that runs on this data folder.

use super::configure;
use crate::config::Flags;
use crate::system::SystemClock;
use anyhow::bail;
use clap::Args;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use toolyard_cli::{say, tell};
use toolyard_console::LinkFolder;
use toolyard_dispatch::Clock as _;

/// The options of `console`.
#[derive(Debug, Args)]
pub struct Options {
    /// Open the link in a browser.
    #[arg(long)]
    open: bool,
}

/// Prints a link.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<()> {
    let config = configure(flags, None)?;
    let link = match LinkFolder::open(&config.data).and_then(|links| links.issue(SystemClock.now())) {
        Ok(link) => link,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "no console runs on {}; `toolyard serve` on a terminal starts one, and so does `console.listen`",
            config.data.display()
        ),
        Err(error) => {
            return Err(anyhow::Error::new(error)
                .context(format!("cannot write a login link into {}", config.data.display())));
        }
    };
    say!("{link}");
    tell!("It works once, for five minutes.");
    if options.open && !open(&link) {
        tell!("toolyard: found no browser to open it; open the link yourself");
    }
    Ok(())
}

/// Opens a page by the means of the system.
fn open(link: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = || Stdio::null();
    let opened = Command::new(opener).arg(link).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    opened.is_ok_and(|status| status.success())
}
