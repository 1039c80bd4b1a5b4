//! Errors, each with the address that it is about.

use std::path::Path;
use toolyard_trust::Digest;

/// An operation on an artifact failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not an address of a plugin.
    #[error("`{text}` is not an address of a plugin: {why}")]
    Address {
        /// The text.
        text: String,
        /// The cause, and the expected form.
        why: String,
    },
    /// A registry or a web server did not give an artifact.
    #[error("{reference}: {problem}")]
    Registry {
        /// The address without `oci://`.
        reference: String,
        /// The cause.
        problem: Box<Problem>,
    },
    /// A tar does not hold an artifact.
    #[error("the layout tar cannot be used: {0}")]
    Layout(Problem),
    /// Bytes are not a component.
    #[error("the component cannot be used: {0}")]
    Component(Problem),
    /// The settings, or the credentials of this machine, cannot be used.
    #[error("{0}")]
    Local(Problem),
}

impl Error {
    /// The cause, unless a text is not an address.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Address { .. } => None,
            Self::Registry { problem, .. } => Some(problem),
            Self::Layout(problem) | Self::Component(problem) | Self::Local(problem) => Some(problem),
        }
    }
}

/// The cause of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The registry refuses the stored credential, or wants one and none is stored.
    #[error("401, {0}")]
    Login(String),
    /// The registry does not know the manifest, blob or repository.
    #[error("{host} has no such {item}; check the repository and the tag")]
    NotFound {
        /// The registry.
        host: String,
        /// The kind of object.
        item: &'static str,
    },
    /// Data is larger than its bound.
    #[error("{item} is larger than {limit} bytes{setting}")]
    TooLarge {
        /// The data.
        item: &'static str,
        /// The bound.
        limit: u64,
        /// The setting that changes the bound, or nothing.
        setting: &'static str,
    },
    /// Data does not have the promised digest.
    #[error(
        "{item} has {found}, the {promise} says {expected}; the registry or a proxy before it altered it"
    )]
    WrongDigest {
        /// The data.
        item: &'static str,
        /// The digest of the data.
        found: Digest,
        /// The document that promised the digest.
        promise: &'static str,
        /// The promised digest.
        expected: Digest,
    },
    /// Data does not have the form that the specification demands.
    #[error("{item} is malformed: {why}")]
    Malformed {
        /// The data.
        item: &'static str,
        /// The cause.
        why: String,
    },
    /// Another cause, which no caller distinguishes.
    #[error("{0}")]
    Other(String),
}

impl Problem {
    pub(crate) fn malformed(item: &'static str, why: impl ToString) -> Self {
        Self::Malformed { item, why: why.to_string() }
    }

    /// A file of this machine cannot be used.
    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::Other(format!("{}: {}", path.display(), why.to_string()))
    }

    /// A server does not answer, or sends too slowly.
    pub(crate) fn slow(host: &str, why: impl ToString) -> Self {
        Self::Other(format!("{host} is too slow: {}; try again later", why.to_string()))
    }

    /// Attaches the address of the artifact.
    pub(crate) fn of(self, reference: impl ToString) -> Error {
        let reference = reference.to_string();
        let reference = reference.strip_prefix("oci://").unwrap_or(&reference).to_owned();
        Error::Registry { reference, problem: Box::new(self) }
    }
}

/// Compares data with its promised digest.
pub(crate) fn expect_digest(
    item: &'static str,
    bytes: &[u8],
    expected: Digest,
    promise: &'static str,
) -> Result<(), Problem> {
    let found = Digest::of(bytes);
    if found == expected { Ok(()) } else { Err(Problem::WrongDigest { item, found, promise, expected }) }
}
