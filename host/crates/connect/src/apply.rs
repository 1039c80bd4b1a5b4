//! Carries a plan out: reads and replaces the file, or runs the client's own program.

use crate::plan::{Action, CommandLine, MAX_BYTES, Plan};
use rustix::process::geteuid;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use toolyard_cli::read::bytes;
use toolyard_cli::replace::replace;

/// The ending of the copy of the former file.
const BACKUP: &str = ".bak-toolyard";

/// The most bytes of a program's complaint that an error repeats.
const MAX_COMPLAINT: usize = 2_000;

/// The result of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Nothing had to change.
    Unchanged,
    /// The file was replaced.
    Written {
        /// The copy of the former file; `None` if there was no file.
        backup: Option<PathBuf>,
    },
    /// The client's own program changed the file.
    Ran,
}

/// The reason why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", .file.display(), .error)]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {}; the file is unchanged", .file.display(), .error)]
    Write {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: Error,
    },
    /// Another program changed the file since the plan was made.
    #[error("{} changed in the meantime; close the client, and run this command again", .0.display())]
    Changed(PathBuf),
    /// A new file would belong to this user.
    #[error("{} belongs to another user; run this command as that user", .0.display())]
    Owner(PathBuf),
    /// The client's own program failed.
    #[error("`{command}` failed: {reason}")]
    Program {
        /// The command.
        command: String,
        /// The reason, or what the program printed.
        reason: String,
    },
}

/// The content of a client's file; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read, is larger than [`MAX_BYTES`], or is a link that leads to no file.
pub fn read(file: &Path) -> Result<Option<Vec<u8>>, ApplyError> {
    match bytes(file, MAX_BYTES) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound && file.symlink_metadata().is_err() => Ok(None),
        Err(error) => Err(ApplyError::Read { file: file.to_owned(), error }),
    }
}

/// Carries out a plan. A link is followed, so that the link stays and its target changes. The target is replaced
/// by renaming and keeps its mode. The former content is in a file with the ending `.bak-toolyard`.
///
/// # Errors
/// If the file changed since the plan was made, belongs to another user, or cannot be written; or if the client's
/// own program fails.
pub fn apply(plan: &Plan) -> Result<Applied, ApplyError> {
    match &plan.action {
        Action::Nothing => Ok(Applied::Unchanged),
        Action::Write(content) => write(&plan.file, plan.former.as_deref(), content),
        Action::Run(commands) => commands.iter().try_for_each(run).map(|()| Applied::Ran),
    }
}

fn write(file: &Path, former: Option<&[u8]>, content: &[u8]) -> Result<Applied, ApplyError> {
    let failed = |error| ApplyError::Write { file: file.to_owned(), error };
    if read(file)?.as_deref() != former {
        return Err(ApplyError::Changed(file.to_owned()));
    }
    let Some(former) = former else {
        if let Some(folder) = file.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        // Clients may later write tokens into it.
        replace(file, content, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        return Ok(Applied::Written { backup: None });
    };
    let target = std::fs::canonicalize(file).map_err(failed)?;
    let found = std::fs::metadata(&target).map_err(failed)?;
    if found.uid() != geteuid().as_raw() {
        return Err(ApplyError::Owner(target));
    }
    let mut backup = target.clone().into_os_string();
    backup.push(BACKUP);
    let backup = PathBuf::from(backup);
    replace(&backup, former, found.permissions()).map_err(failed)?;
    replace(&target, content, found.permissions()).map_err(failed)?;
    Ok(Applied::Written { backup: Some(backup) })
}

fn run(command: &CommandLine) -> Result<(), ApplyError> {
    let failed = |reason: String| ApplyError::Program { command: command.to_string(), reason };
    let mut process = std::process::Command::new(&command.program);
    let done = process
        .args(&command.args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    let printed = if done.stderr.is_empty() { done.stdout } else { done.stderr };
    let printed = String::from_utf8_lossy(&printed[..printed.len().min(MAX_COMPLAINT)]).trim().to_owned();
    Err(failed(if printed.is_empty() { done.status.to_string() } else { printed }))
}
