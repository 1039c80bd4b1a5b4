//! The error type of manifests.

/// An error in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The manifest's file name.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The error message, without file and line.
    pub what: String,
}

impl std::fmt::Display for ManifestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "the manifest {} line {line}: {}", self.file, self.what),
            None => write!(f, "the manifest {}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for ManifestError {}
