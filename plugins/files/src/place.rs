//! Resolves the paths that a caller gives, and explains why one is not accessible.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The reason for a failure, in a sentence that says what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file or folder in the granted folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path as results show it: names with slashes between them; empty for the granted folder itself.
    pub shown: String,
    /// The path in the guest's file system.
    pub path: PathBuf,
}

impl Place {
    /// Resolves the path `name` of a caller.
    pub fn of(root: &Path, name: &str) -> Result<Self, Fault> {
        let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err(Fault(format!(
                "The path {name:?} leads upwards; paths begin in the granted folder and cannot leave it."
            )));
        }
        let shown = parts.join("/");
        Ok(Self { path: root.join(&shown), shown })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        if self.shown.is_empty() { "the granted folder" } else { &self.shown }
    }

    /// The error for a failed operation on it.
    pub fn fault(&self, error: &std::io::Error) -> Fault {
        let name = self.name();
        Fault(match error.kind() {
            ErrorKind::NotFound => {
                format!("There is no {name}; `list_files` shows what there is.")
            }
            ErrorKind::NotADirectory => {
                format!("{name} is a file, or lies in one; `read_file` reads files.")
            }
            ErrorKind::IsADirectory => {
                format!("{name} is a folder; `list_files` shows what is in it.")
            }
            ErrorKind::PermissionDenied => {
                format!("{name} may not be read: it leads out of the granted folder, or is no plain file.")
            }
            _ => format!("{name} cannot be read: {error}."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form_and_stays_in_the_folder() {
        let root = Path::new("/files");
        let shown = |name: &str| Place::of(root, name).map(|place| place.shown);
        for name in ["a/b.txt", "/a/b.txt", "./a//b.txt", "a/./b.txt/"] {
            assert_eq!(shown(name).as_deref(), Ok("a/b.txt"), "{name}");
        }
        for name in ["", "/", "."] {
            assert_eq!(shown(name).as_deref(), Ok(""), "{name}");
        }
        assert_eq!(shown("..a").as_deref(), Ok("..a"));
        for name in ["..", "a/..", "/../etc/passwd", "a/../../b"] {
            assert!(shown(name).expect_err(name).0.contains("leads upwards"), "{name}");
        }
        assert_eq!(Place::of(root, "a").expect("a place").path, Path::new("/files/a"));
    }
}
