//! Faults of a lock file.

use super::{MAX_LOCK, VERSION};
use crate::definition::Kind;
use crate::escape::brief;

/// Why a lock file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The file is too large.
    #[error("toolyard.lock has {0} bytes, and at most {MAX_LOCK} are read; remove plugins from the folder")]
    TooLarge(usize),
    /// The file is not TOML.
    #[error("toolyard.lock, line {line}: {why}; restore the file from version control")]
    Syntax {
        /// Counts from 1.
        line: usize,
        /// The parser's words.
        why: String,
    },
    /// The key `version` is missing or makes no sense.
    #[error("toolyard.lock has no version that Toolyard knows; its first key must be version = {VERSION}")]
    Version,
    /// A later version of Toolyard wrote the file.
    #[error("toolyard.lock has version {0}, and this Toolyard reads version {VERSION}; update Toolyard")]
    Newer(i64),
    /// A list is not written as tables.
    #[error("toolyard.lock: write each {0} as a table of its own, [[{0}]]")]
    Tables(&'static str),
    /// Two entries name one file.
    #[error("toolyard.lock has two entries for {file}; remove the one that you did not accept")]
    Twice {
        /// The file.
        file: String,
    },
    /// An entry names a file elsewhere, or one that is not a component.
    #[error(
        "toolyard.lock names the file {}, but a name in it is that of a .wasm file in the plugin folder; correct or \
         remove the entry",
        quoted(file)
    )]
    FileName {
        /// The name.
        file: String,
    },
    /// A key of an entry is missing or does not fit.
    #[error(
        "toolyard.lock: {key} of {} {why}; correct it, or remove the entry and run toolyard accept",
        quoted(file)
    )]
    Field {
        /// The file of the entry, or nothing if that is missing.
        file: String,
        /// The key.
        key: &'static str,
        /// The rest of the sentence.
        why: &'static str,
    },
    /// A definition occurs twice in an entry.
    #[error(
        "toolyard.lock: {file} has two definitions of the {kind} {}; remove the entry and run toolyard accept",
        quoted(name)
    )]
    DefinitionTwice {
        /// The file of the entry.
        file: String,
        /// The kind of the definition.
        kind: Kind,
        /// The name of the definition.
        name: String,
    },
    /// A person edited a definition or its digest.
    #[error(
        "toolyard.lock: the definition of the {kind} {} of {file} does not have the sha256 beside it, so one of them was \
         edited; restore the file from version control",
        quoted(name)
    )]
    Edited {
        /// The file of the entry.
        file: String,
        /// The kind of the definition.
        kind: Kind,
        /// The name of the definition.
        name: String,
    },
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", brief(text))
}

impl LockError {
    pub(super) fn syntax(text: &str, error: &toml_edit::TomlError) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().get(..start).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Self::Syntax { line, why: brief(error.message()) }
    }
}
