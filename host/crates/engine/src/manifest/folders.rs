//! `[fs]`: folders, each under the path where the guest sees it.

use super::read::{Entry, Section};
use crate::error::ManifestError;
use crate::grant::{self, FolderMode, GrantedBy, NamedFolder};

/// Reads the section.
pub(super) fn folders(section: &Section<'_>) -> Result<Vec<NamedFolder>, ManifestError> {
    const KEYS: &[&str] = &["path", "mode", "grant"];
    const MOST: usize = 64;
    let folder = |entry: Entry<'_>| {
        let guest = entry.key();
        if !grant::is_guest_path(guest) {
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
