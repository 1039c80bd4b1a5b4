//! A copy of a whole store in files, and a store made of such a copy.
//!
//! A copy has the schema of the store that it was taken from. Nothing is upgraded, and sealed values stay
//! sealed, so that a copy needs no keys.

use std::path::{Path, PathBuf};

/// The advice to the operator of a release that is older than its store.
pub(crate) const WAY_BACK: &str = "use the release that upgraded it. To go back, restore a backup from before the upgrade \
    (`toolyard restore`)";

/// Why a store was not copied or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be used, for the reason of the error of its kind.
    #[error(transparent)]
    Store(Box<dyn std::error::Error + Send + Sync>),
    /// There is nothing to copy.
    #[error("{place} holds no store")]
    NoStore {
        /// The file or the schema.
        place: String,
    },
    /// A restore never changes a store that exists.
    #[error("{place} holds a store already; {advice}")]
    NotEmpty {
        /// The file or the schema.
        place: String,
        /// The remedy.
        advice: &'static str,
    },
    /// A host runs on the data folder.
    #[error("a host uses the data folder: it holds {} locked; stop it, or name another folder by --data", lock.display())]
    InUse {
        /// The lock of the host.
        lock: PathBuf,
    },
    /// A file of the copy cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's message.
        #[source]
        source: std::io::Error,
    },
    /// A file of the copy holds something else than such a file.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

impl BackupError {
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// The schema of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedSchema {
    /// The number of the schema.
    pub number: i64,
    /// Whether it is the one of this release. An older one is upgraded at the next start.
    pub is_current: bool,
}
