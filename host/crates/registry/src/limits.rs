//! Bounds of all data from registries and tars.

use std::time::Duration;

/// The largest manifest or index, in bytes. Registries accept at most this.
pub const MAX_MANIFEST: u64 = 4 << 20;
/// The largest configuration of an artifact, in bytes.
pub const MAX_CONFIG: u64 = 256 << 10;
/// The most signatures that are read with one artifact, and the most manifests that are read in search of
/// them.
pub const MAX_SIGNATURES: usize = 32;
/// The largest signature, and the largest manifest of signatures, in bytes.
pub const MAX_SIGNATURE: u64 = 64 << 10;
/// The largest manifest of a plugin that its author suggests (annotation `io.toolyard.manifest`), in bytes.
pub const MAX_SUGGESTED_MANIFEST: usize = 16 << 10;
/// The largest answer of a token server, in bytes.
pub const MAX_TOKEN_ANSWER: u64 = 64 << 10;
/// The most of an error's body that is read for its sentence, in bytes.
pub const MAX_ERROR_BODY: u64 = 8 << 10;
/// The most redirects that one request follows.
pub const MAX_REDIRECTS: usize = 5;
/// The largest docker configuration, in bytes.
pub const MAX_DOCKER_CONFIG: u64 = 1 << 20;
/// The largest answer of a credential helper, in bytes.
pub const MAX_HELPER_ANSWER: u64 = 64 << 10;
/// The largest file of certificates, in bytes.
pub const MAX_CERTIFICATES: u64 = 1 << 20;
/// The most members of a layout tar. An artifact with all its signatures has about a hundred.
pub const MAX_MEMBERS: usize = 512;
/// The bytes of a layout tar besides the component: manifests, signatures, headers and padding.
pub const MAX_LAYOUT_EXTRA: u64 = 16 << 20;

/// How long the client waits at most when a registry asks for it (`Retry-After`).
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);
/// The pause before the one retry of a request, unless the registry names another.
pub const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The slowest average rate of a body, in bytes a second. Without it, one byte in each read timeout would
/// keep a request open for years.
pub const MIN_RATE: u64 = 1 << 10;
