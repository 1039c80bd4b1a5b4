//! The folder of notes: lists, reads and appends to them.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use crate::name::Name;

/// The largest note that is read or appended to, in bytes.
pub const LARGEST: u64 = 1 << 20;
/// The most notes that are listed.
const MOST_NOTES: usize = 10_000;

/// The metadata of a note.
#[derive(Debug, Clone)]
pub struct Note {
    /// Its name.
    pub name: Name,
    /// Its size in bytes.
    pub size: u64,
    /// The time of the last change; `None` if the system does not know it.
    pub modified: Option<SystemTime>,
}

/// The reason for a failure, in a sentence for the model or the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such note.
    Missing(String),
    /// The operation is not allowed.
    Refused(String),
    /// The operation failed.
    Unreadable(String),
}

impl std::error::Error for Fault {}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(what) | Self::Refused(what) | Self::Unreadable(what) => f.write_str(what),
        }
    }
}

/// The result of appending.
#[derive(Debug, PartialEq, Eq)]
pub struct Appended {
    /// Whether the note is new.
    pub created: bool,
    /// The size of the note in bytes.
    pub bytes: u64,
}

/// All notes, sorted by name.
pub fn notes(root: &Path) -> Result<Vec<Note>, Fault> {
    let unreadable =
        |error: std::io::Error| Fault::Unreadable(format!("The notes cannot be listed: {error}."));
    let mut notes = Vec::new();
    for entry in fs::read_dir(root).map_err(unreadable)? {
        let Ok(entry) = entry else { continue };
        let Some(name) = entry.file_name().to_str().and_then(Name::of_file) else { continue };
        // A file that was removed at this moment does not exist.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_file() {
            notes.push(Note { name, size: found.len(), modified: found.modified().ok() });
        }
        if notes.len() == MOST_NOTES {
            break;
        }
    }
    notes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(notes)
}

/// The content of a note in bytes.
pub fn read(root: &Path, name: &Name) -> Result<Vec<u8>, Fault> {
    let file = File::open(root.join(name.as_str())).map_err(|error| fault(name, &error))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| fault(name, &error))?;
    if bytes.len() as u64 > LARGEST { Err(too_large(name)) } else { Ok(bytes) }
}

/// Appends `text` to a note, on a line of its own, or creates the note with it.
pub fn append(root: &Path, name: &Name, text: &str) -> Result<Appended, Fault> {
    let path = root.join(name.as_str());
    let failed = |error: std::io::Error| fault(name, &error);
    let created = !path.try_exists().map_err(failed)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut added = String::with_capacity(text.len() + 2);
    if size > 0 && last_byte(&mut file).map_err(failed)? != b'\n' {
        added.push('\n');
    }
    added.push_str(text);
    if !text.ends_with('\n') {
        added.push('\n');
    }
    let bytes = size + added.len() as u64;
    if bytes > LARGEST {
        return Err(too_large(name));
    }
    // In one write, so that text of another run cannot come in between.
    file.write_all(added.as_bytes()).map_err(failed)?;
    Ok(Appended { created, bytes })
}

fn last_byte(file: &mut File) -> std::io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn too_large(name: &Name) -> Fault {
    Fault::Refused(format!("The note {} is, or would be, larger than {LARGEST} bytes.", name.as_str()))
}

fn fault(name: &Name, error: &std::io::Error) -> Fault {
    let name = name.as_str();
    match error.kind() {
        ErrorKind::NotFound => Fault::Missing(format!("There is no note {name}.")),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Fault::Refused(format!("The note {name} may not be used so: {error}."))
        }
        _ => Fault::Unreadable(format!("The note {name} cannot be used: {error}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        Name::of_argument(name).expect("a name")
    }

    #[test]
    fn notes_are_listed_by_name_and_nothing_else_is() {
        let root = tempfile::tempdir().expect("a folder");
        for (file, text) in [("b.md", "bb"), ("a.md", ""), ("c.txt", "x"), (".h.md", "x")] {
            fs::write(root.path().join(file), text).expect("writes");
        }
        fs::create_dir(root.path().join("d.md")).expect("makes");
        #[cfg(unix)]
        std::os::unix::fs::symlink("a.md", root.path().join("l.md")).expect("links");
        let listed = notes(root.path()).expect("listed");
        let shown: Vec<_> = listed.iter().map(|note| (note.name.as_str(), note.size)).collect();
        assert_eq!(shown, [("a.md", 0), ("b.md", 2)]);
        assert!(listed[0].modified.is_some());
        assert!(matches!(notes(&root.path().join("none")), Err(Fault::Unreadable(_))));
    }

    #[test]
    fn appending_begins_and_continues_on_lines_of_their_own() {
        let root = tempfile::tempdir().expect("a folder");
        let note = name("n");
        assert_eq!(append(root.path(), &note, "one"), Ok(Appended { created: true, bytes: 4 }));
        assert_eq!(append(root.path(), &note, "two\n"), Ok(Appended { created: false, bytes: 8 }));
        fs::write(root.path().join("n.md"), "cut").expect("writes");
        assert_eq!(append(root.path(), &note, "off"), Ok(Appended { created: false, bytes: 8 }));
        assert_eq!(read(root.path(), &note).as_deref(), Ok(&b"cut\noff\n"[..]));
    }

    #[test]
    fn sizes_are_bounded_and_missing_notes_are_said() {
        let root = tempfile::tempdir().expect("a folder");
        let note = name("n");
        assert_eq!(read(root.path(), &note), Err(Fault::Missing("There is no note n.md.".to_owned())));
        let text = "x".repeat(LARGEST as usize - 1);
        append(root.path(), &note, &text).expect("fits");
        assert!(matches!(append(root.path(), &note, ""), Err(Fault::Refused(_))));
        assert_eq!(read(root.path(), &note).map(|bytes| bytes.len() as u64), Ok(LARGEST));
        fs::write(root.path().join("n.md"), format!("{text}xx")).expect("writes");
        assert!(matches!(read(root.path(), &note), Err(Fault::Refused(_))));
    }
}
