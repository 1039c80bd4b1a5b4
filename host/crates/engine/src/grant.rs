//! What a manifest grants a run: all that a guest can reach beyond pure
//! computation. Whatever is not here does not exist for it.

mod folders;

pub use folders::{FolderGrant, FolderMode};
pub(crate) use folders::{NamedFolder, OpenFolder, find, is_guest_path};

/// What the runs of a plugin may reach.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Folders, held open.
    pub folders: Vec<OpenFolder>,
}

impl Grants {
    /// Whether a folder was moved, replaced or removed since it was opened.
    pub fn are_stale(&self) -> bool {
        !self.folders.iter().all(OpenFolder::is_in_place)
    }
}
