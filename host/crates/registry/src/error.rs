//! Errors, each with the address that it is about.

use std::path::PathBuf;
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
    /// A registry or a web server did not give or take an artifact.
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
    /// A component cannot be published.
    #[error("the component cannot be published: {0}")]
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
    /// The registry wants a credential, and none is stored.
    #[error(
        "401, the registry wants a login ({}); docker, podman and oras log in: oras login {host}",
        looked(places)
    )]
    LoginRequired {
        /// The registry.
        host: String,
        /// The files that were searched.
        places: Vec<PathBuf>,
    },
    /// The registry refuses the stored credential.
    #[error(
        "401, the registry refuses the stored credential for {host} ({}); oras login {host} replaces it",
        looked(places)
    )]
    LoginRefused {
        /// The registry.
        host: String,
        /// The files that were searched.
        places: Vec<PathBuf>,
    },
    /// The credential does not allow this.
    #[error("403, the credential for {host} does not allow this{detail}; ask the owner of the repository")]
    Forbidden {
        /// The registry.
        host: String,
        /// The sentence of the registry, or nothing.
        detail: String,
    },
    /// The registry does not know the manifest, blob or repository.
    #[error("{host} has no such {item}; check the repository and the tag")]
    NotFound {
        /// The registry.
        host: String,
        /// The kind of object.
        item: &'static str,
    },
    /// A server answered with an unexpected status.
    #[error("{host} answered with the status {status}{detail}; try again later, or ask its operator")]
    Status {
        /// The server.
        host: String,
        /// The status code.
        status: u16,
        /// The sentence of the server, or nothing.
        detail: String,
    },
    /// A server wants a longer pause than a command may take.
    #[error("{host} answered with the status {status} and wants a pause of {seconds} s; try again then")]
    Busy {
        /// The server.
        host: String,
        /// The status code.
        status: u16,
        /// The pause.
        seconds: u64,
    },
    /// A server cannot be reached.
    #[error("cannot reach {host}: {why}; check the address, the proxy variables and `registries.\"{host}\"`")]
    Unreachable {
        /// The server.
        host: String,
        /// The cause.
        why: String,
    },
    /// A server does not answer, or sends too slowly.
    #[error("{host} is too slow: {why}; try again later")]
    Slow {
        /// The server.
        host: String,
        /// The timeout that ended.
        why: String,
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
    /// Data ended early.
    #[error("{item} ended after {received} bytes: {why}; try again")]
    Truncated {
        /// The data.
        item: &'static str,
        /// The bytes that arrived.
        received: u64,
        /// The cause.
        why: String,
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
    /// The artifact is of another kind.
    #[error(
        "this is {kind}, not a WebAssembly component (config {config}); ask its publisher for the address of the component"
    )]
    OtherKind {
        /// The kind.
        kind: String,
        /// The media type of its configuration.
        config: String,
    },
    /// The artifact has no component, or several.
    #[error("the manifest has {count} layers of application/wasm; expected one")]
    Layers {
        /// The number of components.
        count: usize,
    },
    /// An index does not say which of its manifests is the component.
    #[error(
        "the index has no single component for wasm/wasip2, but {platforms}; give the digest of one of its manifests"
    )]
    Platforms {
        /// The platforms of its entries.
        platforms: String,
    },
    /// Data does not have the form that the specification demands.
    #[error("{item} is malformed: {why}")]
    Malformed {
        /// The data.
        item: &'static str,
        /// The cause.
        why: String,
    },
    /// A server sends the client to an address that it must not follow.
    #[error("{host} redirects to {target}: {why}")]
    Redirect {
        /// The server.
        host: String,
        /// The address.
        target: String,
        /// The reason for the refusal.
        why: &'static str,
    },
    /// A credential would travel without encryption, or to a stranger.
    #[error("{host} wants a credential by an insecure way: {why}")]
    InsecureLogin {
        /// The registry.
        host: String,
        /// The reason for the refusal.
        why: String,
    },
    /// Another writer replaced the list of signatures at the same time.
    #[error("another push replaced the signatures in the tag {tag} at the same time; push again")]
    SignatureLost {
        /// The tag.
        tag: String,
    },
    /// The pushed artifact is not the one that the reference names.
    #[error("the artifact has {found}, the reference names {expected}")]
    OtherArtifact {
        /// The digest of the artifact.
        found: Digest,
        /// The digest of the reference.
        expected: Digest,
    },
    /// A file of this machine cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A credential helper failed.
    #[error("the credential helper {program} failed: {why}")]
    Helper {
        /// The program.
        program: String,
        /// The cause.
        why: String,
    },
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
}

fn looked(places: &[PathBuf]) -> String {
    if places.is_empty() {
        return "no credential file is known".to_owned();
    }
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    format!("looked in {}", places.join(" and "))
}

impl Problem {
    pub(crate) fn malformed(item: &'static str, why: impl ToString) -> Self {
        Self::Malformed { item, why: why.to_string() }
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
