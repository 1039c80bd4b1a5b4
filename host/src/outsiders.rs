//! The users besides this one and root who could have written a file that decides how this host behaves.

use anyhow::bail;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use toolyard_engine::Outsiders;

/// The setting that allows others to change these files.
pub const OVERRIDE: &str = "`data.others-may-write = true`";

/// Checks the configuration file of the current folder, which no flag names. Its author decides which files
/// this host writes, and what runs. Members of the file's group are trusted, since many systems give new
/// files to the group of their user.
///
/// # Errors
/// If another user than this one or root could have written it.
pub fn configuration(file: &Path, found: &Metadata) -> anyhow::Result<()> {
    match outsiders_of(found) {
        None | Some(Outsiders::Group(_)) => Ok(()),
        Some(outsiders) => bail!(
            "the configuration file {}: {outsiders}, and could have this program write and run anything; {}, or \
             name the file by --config if that is intended",
            file.display(),
            remedy(outsiders)
        ),
    }
}

/// The users besides this one and root who may change it.
pub fn outsiders_of(found: &Metadata) -> Option<Outsiders> {
    Outsiders::of(found.mode(), found.uid(), found.gid())
}

/// The advice to the operator about these users.
pub const fn remedy(outsiders: Outsiders) -> &'static str {
    match outsiders {
        Outsiders::Everybody | Outsiders::Group(_) => "remove that permission (`chmod go-w`)",
        Outsiders::Owner(_) => "run this program as that user, or give it another owner (`chown`)",
    }
}
