//! Finds the entries of a folder and the folders below it.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use crate::place::{Fault, Place};

/// The most entries that are visited.
pub const MOST: usize = 20_000;
/// The deepest level of folders that is entered.
const DEEPEST: usize = 64;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Folder,
    // A link, which is never followed.
    Link,
    // A pipe, a device or the like.
    Other,
}

impl Kind {
    /// The word for it in results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::Other => "other",
        }
    }
}

/// One entry.
#[derive(Debug)]
pub struct Entry {
    /// Its path in the granted folder.
    pub path: String,
    pub kind: Kind,
    /// The size of a file in bytes.
    pub size: u64,
    /// The time of the last change; `None` if the system does not know it.
    pub modified: Option<SystemTime>,
}

/// The entries found.
#[derive(Debug, Default)]
pub struct Found {
    pub entries: Vec<Entry>,
    /// Whether the limit cut the search short.
    pub cut: bool,
    /// The number of folders that could not be read.
    pub closed: usize,
}

/// Finds the entries in `place`, and also below it if `deep`. They are sorted by path.
pub fn walk(root: &Path, place: &Place, deep: bool, hidden: bool) -> Result<Found, Fault> {
    let mut found = Found::default();
    look_into(place, hidden, &mut found).map_err(|error| place.fault(&error))?;
    if deep {
        let mut next = 0;
        while next < found.entries.len() && !found.cut {
            let entry = &found.entries[next];
            next += 1;
            if entry.kind != Kind::Folder {
                continue;
            }
            if entry.path.split('/').count() >= DEEPEST {
                found.cut = true;
                continue;
            }
            let below = Place { shown: entry.path.clone(), path: root.join(&entry.path) };
            if look_into(&below, hidden, &mut found).is_err() {
                found.closed += 1;
            }
        }
    }
    // A folder comes before its entries.
    found.entries.sort_by(|one, other| one.path.split('/').cmp(other.path.split('/')));
    Ok(found)
}

fn look_into(place: &Place, hidden: bool, found: &mut Found) -> std::io::Result<()> {
    for entry in fs::read_dir(&place.path)? {
        // A name that is not Unicode cannot appear in a path, so it is left out.
        let Ok(entry) = entry else { continue };
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') && !hidden {
            continue;
        }
        // An entry that was removed at this moment does not exist.
        let Ok(kind) = entry.file_type() else { continue };
        if found.entries.len() == MOST {
            found.cut = true;
            return Ok(());
        }
        let kind = if kind.is_symlink() {
            Kind::Link
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_file() {
            Kind::File
        } else {
            Kind::Other
        };
        let about = if kind == Kind::File { entry.metadata().ok() } else { None };
        found.entries.push(Entry {
            path: if place.shown.is_empty() { name } else { format!("{}/{name}", place.shown) },
            kind,
            size: about.as_ref().map_or(0, fs::Metadata::len),
            modified: about.and_then(|about| about.modified().ok()),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::folder;

    #[test]
    fn folders_stand_before_what_is_in_them_and_links_are_not_followed() {
        let files: [(&str, &[u8]); 5] =
            [("a", b"1"), ("b/x", b"22"), ("b/deep/y", b"333"), (".hidden", b""), ("b/deep/.git/z", b"")];
        let root = folder(&files);
        #[cfg(unix)]
        std::os::unix::fs::symlink("..", root.path().join("b/up")).expect("links");
        let walk = |name: &str, deep, hidden| {
            let place = Place::of(root.path(), name).expect("a place");
            let found = walk(root.path(), &place, deep, hidden).expect("found");
            let shown = |entry: Entry| (entry.path, entry.kind.word(), entry.size);
            found.entries.into_iter().map(shown).collect::<Vec<_>>()
        };
        let owned = |shown: &[(&str, &'static str, u64)]| {
            shown.iter().map(|(path, kind, size)| ((*path).to_owned(), *kind, *size)).collect::<Vec<_>>()
        };
        assert_eq!(walk("", false, false), owned(&[("a", "file", 1), ("b", "folder", 0)]));
        let below =
            [("b/deep", "folder", 0), ("b/deep/y", "file", 3), ("b/up", "link", 0), ("b/x", "file", 2)];
        assert_eq!(walk("/b/", true, false), owned(&below));
        assert_eq!(walk("", true, true).len(), 9);
        let none = Place::of(root.path(), "none").expect("a place");
        let fault = super::walk(root.path(), &none, true, false).expect_err("missing");
        assert_eq!(fault.0, "There is no none; `list_files` shows what there is.");
    }
}
