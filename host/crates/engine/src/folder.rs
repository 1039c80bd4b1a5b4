//! The plugin folder, seen through a directory handle that no symbolic link
//! leads out of.

use crate::error::Refusal;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// What the folder holds at one moment.
pub(crate) struct Scan {
    pub dir: Option<Arc<Dir>>,
    pub files: BTreeMap<String, Seen>,
}

/// A component's file and its manifest's, as the directory shows them. If
/// neither changed, neither did what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub component: Stamp,
    pub manifest: Option<Stamp>,
}

/// What a file looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    kind: Kind,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    place: (u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Symlink,
    Other,
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let kind = if found.is_file() {
            Kind::File
        } else if found.is_symlink() {
            Kind::Symlink
        } else {
            Kind::Other
        };
        Self {
            kind,
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            place: (found.dev(), found.ino()),
        }
    }
}

/// The manifest of a component's file.
pub(crate) fn manifest_name(file: &str) -> String {
    format!("{}.toml", file.strip_suffix(".wasm").unwrap_or(file))
}

/// Looks at the folder. One that is missing is empty.
///
/// # Errors
/// If it is there and cannot be looked at, so that nothing is known of it.
pub(crate) fn scan(path: &Path) -> std::io::Result<Scan> {
    let mut files = BTreeMap::new();
    let dir = match Dir::open_ambient_dir(path, ambient_authority()) {
        Ok(dir) => dir,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Scan { dir: None, files }),
        Err(error) => return Err(error),
    };
    for entry in dir.entries()? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue; // Its tools could not be named in a report.
        };
        if !name.ends_with(".wasm") || name.starts_with(['.', '~', '#']) {
            continue;
        }
        if let Some(seen) = look(&dir, &name)? {
            files.insert(name, seen);
        }
    }
    Ok(Scan { dir: Some(Arc::new(dir)), files })
}

/// Looks at one component and its manifest; `None` if it is not there. A manifest
/// that cannot be looked at is not taken for one that is absent, which would
/// loosen what it says.
pub(crate) fn look(dir: &Dir, name: &str) -> std::io::Result<Option<Seen>> {
    let stamp = |name: &str| match dir.symlink_metadata(name) {
        Ok(found) => Ok(Some(Stamp::of(&found))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let Some(component) = stamp(name)? else { return Ok(None) };
    Ok(Some(Seen { component, manifest: stamp(&manifest_name(name))? }))
}

/// Who but us and root can put things into the folder at `path`, if anybody can: a
/// sentence, and whether that is everybody on this machine. A folder that is not
/// there is nobody's.
///
/// # Errors
/// If it cannot be looked at.
pub fn outsiders(path: &Path) -> std::io::Result<Option<Outsiders>> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = found.mode();
    let owner = found.uid();
    Ok(if mode & OTHERS_WRITE != 0 {
        Some(Outsiders::Everybody)
    } else if mode & GROUP_WRITE != 0 {
        Some(Outsiders::Group(found.gid()))
    } else if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        Some(Outsiders::Owner(owner))
    } else {
        None
    })
}

/// Who else can put things into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outsiders {
    /// Everybody on this machine.
    Everybody,
    /// The members of the group of this number.
    Group(u32),
    /// The user of this number, to whom it belongs.
    Owner(u32),
}

impl std::fmt::Display for Outsiders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everybody => f.write_str("everybody on this machine can write to it"),
            Self::Group(group) => write!(f, "the group {group} can write to it"),
            Self::Owner(owner) => write!(f, "it belongs to the user {owner}"),
        }
    }
}

/// Reads a file that was seen, if it is still the same, and if not everybody can
/// change it or that is `trusted`.
pub(crate) fn read(
    dir: &Dir,
    name: &str,
    seen: Stamp,
    (most, trusted): (u64, bool),
) -> Result<Vec<u8>, Refusal> {
    match seen.kind {
        Kind::File => {}
        Kind::Symlink => return Err(Refusal::Symlink),
        Kind::Other => return Err(Refusal::NotAFile),
    }
    if seen.size > most {
        return Err(Refusal::TooLarge { limit: most });
    }
    let unreadable = |error: std::io::Error| Refusal::Unreadable(error.to_string());
    let file = dir.open(name).map_err(unreadable)?;
    // A link that took the file's place leads to another file.
    let found = file.metadata().map_err(unreadable)?;
    if Stamp::of(&found).place != seen.place {
        return Err(Refusal::Unreadable("it was replaced meanwhile".to_owned()));
    }
    if !trusted && found.mode() & OTHERS_WRITE != 0 {
        return Err(Refusal::Writable);
    }
    let mut bytes = Vec::with_capacity(seen.size as usize);
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most { Err(Refusal::TooLarge { limit: most }) } else { Ok(bytes) }
}
