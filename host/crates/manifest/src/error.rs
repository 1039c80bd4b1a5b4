//! The error type of manifests.

/// An error in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest {file}{}: {what}", .line.map(|line| format!(" line {line}")).unwrap_or_default())]
pub struct ManifestError {
    /// The manifest's file name.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The error message, without file and line.
    pub what: String,
}
