//! The users besides the host's own and root who can change a file or folder. One rule covers the
//! plugin folder, its files, and the files that the host keeps.

use rustix::process::geteuid;
use std::io::ErrorKind;
use std::path::Path;

/// The mode bits that let other users write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// The users besides the host's own and root who can change a file or add files to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outsiders {
    /// All users of this machine.
    Everybody,
    /// The owner, with this user id.
    Owner(u32),
    /// The members of the group with this id.
    Group(u32),
}

impl Outsiders {
    /// Determines them from the mode and owner of a file or folder. If several apply, returns the
    /// largest set of users.
    #[must_use]
    pub fn of(mode: u32, owner: u32, group: u32) -> Option<Self> {
        if mode & OTHERS_WRITE != 0 {
            Some(Self::Everybody)
        } else if owner != 0 && owner != geteuid().as_raw() {
            // The owner comes before the group, because an owner can give write access to any of
            // their groups.
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

/// The users besides the host's own and root who can add files to the folder at `path`. A folder
/// that does not exist has no outsiders.
///
/// # Errors
/// If the folder cannot be inspected.
pub fn outsiders(path: &Path) -> std::io::Result<Option<Outsiders>> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata(path) {
        Ok(found) => Ok(Outsiders::of(found.mode(), found.uid(), found.gid())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
