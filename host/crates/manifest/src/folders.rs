//! `[fs]`: folders, each under the path where the guest sees it.

use super::read::{Entry, Section};
use crate::GrantedBy;
use crate::error::ManifestError;

/// What a guest may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderMode {
    /// List and read.
    Read,
    /// And create, change and delete.
    Write,
}

impl FolderMode {
    /// The word of the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One entry of `[fs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFolder {
    /// Where the guest sees it.
    pub guest: String,
    /// Where it is, from the manifest's folder.
    pub path: String,
    /// The access that it gives.
    pub mode: FolderMode,
    /// Who grants it.
    pub by: GrantedBy,
    /// The manifest's line, for complaints.
    pub line: Option<usize>,
}

/// Whether a guest may see a folder under this name: absolute and normalised, so
/// that no two names mean one place.
fn is_guest_path(path: &str) -> bool {
    const LONGEST: usize = 1 << 10;
    let Some(rest) = path.strip_prefix('/') else { return false };
    path.len() <= LONGEST
        && !path.contains(['\0', '\\'])
        && (rest.is_empty() || rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Reads the section.
pub(super) fn folders(section: &Section<'_>) -> Result<Vec<NamedFolder>, ManifestError> {
    const KEYS: &[&str] = &["path", "mode", "grant"];
    const MOST: usize = 64;
    let folder = |entry: Entry<'_>| {
        let guest = entry.key();
        if !is_guest_path(guest) {
            return Err(entry.error(
                "is not an absolute path without `.`, `..` and empty parts, such as \"/data\"".to_owned(),
            ));
        }
        let (mut path, mut mode, mut by) = (None, None, GrantedBy::default());
        for member in entry.section()?.entries() {
            match member.key() {
                "path" => match member.text_of(4 << 10)? {
                    text if text.is_empty() || text.contains('\0') => {
                        return Err(member.expected("the path of a folder, such as \"./data\""));
                    }
                    text => path = Some((text, member.line())),
                },
                "mode" => {
                    mode = Some(match member.text()? {
                        "read" => FolderMode::Read,
                        "write" => FolderMode::Write,
                        _ => return Err(member.expected("\"read\" or \"write\"")),
                    });
                }
                "grant" => by = super::granted_by(&member)?,
                _ => return Err(member.unknown(KEYS)),
            }
        }
        let (path, line) = path.ok_or_else(|| entry.error("has no `path`".to_owned()))?;
        let mode =
            mode.ok_or_else(|| entry.error("has no `mode`, which is \"read\" or \"write\"".to_owned()))?;
        Ok(NamedFolder { guest: guest.to_owned(), path, mode, by, line })
    };
    let folders = section.entries().map(folder).collect::<Result<Vec<_>, _>>()?;
    match section.entries().nth(MOST) {
        Some(entry) => Err(entry.error(format!("is one folder too many; {MOST} are the most"))),
        None => Ok(folders),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths_are_absolute_and_normalised() {
        for path in ["/", "/data", "/a/b.c", "/..a", "/with space"] {
            assert!(is_guest_path(path), "{path}");
        }
        for path in ["", "data", "./data", "/data/", "//", "/a//b", "/a/./b", "/a/..", "/..", "/a\0", "/a\\b"]
        {
            assert!(!is_guest_path(path), "{path:?}");
        }
        assert!(!is_guest_path(&format!("/{}", "x".repeat(1 << 10))));
    }
}
