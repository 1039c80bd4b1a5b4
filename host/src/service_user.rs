//! Root runs commands as the user of the service: the service must be able to read what they write, and the program
//! refuses a data folder of another user.

use crate::config::{Config, Flags};
use anyhow::{Context as _, bail};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use toolyard_cli::tell;

/// If this is root, and its configuration file names a data folder of another user, continues as that user. Only a file
/// that root alone can change may name one, since that user sees the variables of this process.
///
/// # Errors
/// If the program cannot be run as that user.
pub fn become_owner(flags: &Flags) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() || flags.data.is_some() {
        return Ok(());
    }
    // The command itself reports what is wrong with the configuration.
    let Ok(config) = Config::read(flags, None) else { return Ok(()) };
    let (Ok(file), Ok(data)) = (config.file.symlink_metadata(), config.data.metadata()) else {
        return Ok(());
    };
    let is_roots = |found: &Metadata| found.is_file() && found.uid() == 0 && found.mode() & 0o022 == 0;
    if data.uid() == 0 || !is_roots(&file) {
        return Ok(());
    }
    let folder = config.data.display();
    tell!("toolyard: as the user {}, who owns {folder}", data.uid());
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let error =
        Command::new(program).args(std::env::args_os().skip(1)).uid(data.uid()).gid(data.gid()).exec();
    bail!("cannot run as the user {}, who owns {folder}: {error}", data.uid())
}
