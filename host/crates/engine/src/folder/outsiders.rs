//! The users besides the host's own and root who can change a file or folder: one rule for the
//! plugin folder, the files in it, and what the host keeps.

use rustix::process::geteuid;
use std::io::ErrorKind;
use std::path::Path;

/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// Who else can change a file, or put things into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outsiders {
    /// Everybody on this machine.
    Everybody,
    /// The user of this number, to whom it belongs.
    Owner(u32),
    /// The members of the group of this number.
    Group(u32),
}

impl Outsiders {
    /// Reads them from the mode and owner of a file or folder. If there are several, it is those
    /// who are most.
    #[must_use]
    pub fn of(mode: u32, owner: u32, group: u32) -> Option<Self> {
        if mode & OTHERS_WRITE != 0 {
            Some(Self::Everybody)
        } else if owner != 0 && owner != geteuid().as_raw() {
            // Before the group: an owner can give that right to any group of theirs.
            Some(Self::Owner(owner))
        } else if mode & GROUP_WRITE != 0 {
            Some(Self::Group(group))
        } else {
            None
        }
    }
}

impl std::fmt::Display for Outsiders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everybody => f.write_str("everybody on this machine can write to it"),
            Self::Owner(owner) => write!(f, "it belongs to the user {owner}"),
            Self::Group(group) => write!(f, "the group {group} can write to it"),
        }
    }
}

/// Who but the host's user and root can put things into the folder at `path`. A folder that does
/// not exist has no outsiders.
///
/// # Errors
/// If it cannot be looked at.
pub fn outsiders(path: &Path) -> std::io::Result<Option<Outsiders>> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata(path) {
        Ok(found) => Ok(Outsiders::of(found.mode(), found.uid(), found.gid())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
