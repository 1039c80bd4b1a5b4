//! `[fs]`: folders, by the path at which the guest sees them.

use crate::deserializer::{Error, Lines};
use crate::granted_by::GrantedBy;
use crate::values;
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::BTreeMap;
use toml::Spanned;

const MAX_FOLDERS: usize = 64;

/// A guest's access to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FolderMode {
    /// List and read.
    Read,
    /// List, read, create, change and delete.
    Write,
}

impl FolderMode {
    /// The manifest's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// An entry of `[fs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFolder {
    /// The guest's path.
    pub guest: String,
    /// The path on the host, relative to the manifest's folder.
    pub path: String,
    /// The granted access.
    pub mode: FolderMode,
    /// Whether the operator grants it or the user is asked.
    pub by: GrantedBy,
    /// The manifest's line, for errors.
    pub line: Option<usize>,
}

/// Whether a guest may see a folder at this path. It must be absolute and normalised, so that no
/// two paths mean the same folder.
fn is_guest_path(path: &str) -> bool {
    const MAX_PATH_BYTES: usize = 1 << 10;
    let Some(rest) = path.strip_prefix('/') else { return false };
    path.len() <= MAX_PATH_BYTES
        && !path.contains(['\0', '\\'])
        && (rest.is_empty() || rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// The section as in the text: folders by the guest's path.
pub(crate) type FoldersSection = BTreeMap<String, Spanned<FolderTable>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { path = \"./data\", mode = \"read\" }")]
pub(crate) struct FolderTable {
    path: Spanned<FolderPath>,
    mode: Option<FolderMode>,
    #[serde(default)]
    grant: GrantedBy,
}

struct FolderPath(String);

impl<'de> Deserialize<'de> for FolderPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the path of a folder, such as \"./data\"";
        let fits = |text: &str| !text.is_empty() && !text.contains('\0');
        values::bounded(deserializer, 4 << 10, expected, fits).map(Self)
    }
}

/// Checks the section.
pub(crate) fn folders(section: FoldersSection, lines: &Lines) -> Result<Vec<NamedFolder>, Error> {
    if let Some(entry) = section.values().nth(MAX_FOLDERS) {
        return Err(Error::at(entry, format!("is one folder too many; {MAX_FOLDERS} are the most")));
    }
    let folder = |(guest, entry): (String, Spanned<FolderTable>)| {
        if !is_guest_path(&guest) {
            let what = "is not an absolute path without `.`, `..` and empty parts, such as \"/data\"";
            return Err(Error::at(&entry, what));
        }
        let mode = entry.get_ref().mode;
        let mode = mode.ok_or_else(|| Error::at(&entry, "has no `mode`, which is \"read\" or \"write\""))?;
        let FolderTable { path, grant, .. } = entry.into_inner();
        let line = Some(lines.line(&path));
        Ok(NamedFolder { guest, path: path.into_inner().0, mode, by: grant, line })
    };
    section.into_iter().map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths_are_absolute_and_normalised() {
        for path in ["/", "/data", "/a/b.c", "/..a", "/with space"] {
            assert!(is_guest_path(path), "{path}");
        }
        for path in "|data|./data|/data/|//|/a//b|/a/./b|/a/..|/..|/a\0|/a\\b".split('|') {
            assert!(!is_guest_path(path), "{path:?}");
        }
        assert!(!is_guest_path(&format!("/{}", "x".repeat(1 << 10))));
    }
}
