//! Folders: what a manifest says of them, and what that is on this
//! machine. `cap-std` keeps a guest inside of them; what is settled here is
//! which folder it is, and that it is no way to more than was granted.

use super::GrantedBy;
use crate::error::ManifestError;
use std::path::{Path, PathBuf};
use toolyard_task::Wanted;
use toolyard_task::permission::Access;
use wasmtime_wasi::FsPerms;

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

    pub(crate) fn permissions(self) -> FsPerms {
        match self {
            Self::Read => FsPerms::ReadOnly,
            Self::Write => FsPerms::ReadWrite,
        }
    }
}

/// One entry of `[fs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFolder {
    /// Where the guest sees it.
    pub guest: String,
    /// Where it is, from the manifest's folder.
    pub path: String,
    pub mode: FolderMode,
    pub by: GrantedBy,
    /// The manifest's line, for complaints.
    pub line: Option<usize>,
}

/// A folder that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderGrant {
    /// Where the guest sees it.
    pub guest: String,
    /// Where it is.
    pub host: PathBuf,
    /// What it may do there.
    pub mode: FolderMode,
    /// Who grants it.
    pub by: GrantedBy,
    /// What the manifest calls it.
    pub named: String,
}

impl FolderGrant {
    /// What a person is to be asked for, if one is.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let access = match self.mode {
            FolderMode::Read => Access::Read,
            FolderMode::Write => Access::Write,
        };
        (self.by == GrantedBy::Person).then(|| Wanted::Folder {
            guest: self.guest.clone(),
            // Looked at when it was found.
            path: self.host.to_string_lossy().into_owned(),
            named: self.named.clone(),
            access,
        })
    }
}

/// Whether a guest may see a folder under this name: absolute and normalised, so
/// that no two names mean one place.
pub(crate) fn is_guest_path(path: &str) -> bool {
    const LONGEST: usize = 1 << 10;
    let Some(rest) = path.strip_prefix('/') else { return false };
    path.len() <= LONGEST
        && !path.contains(['\0', '\\'])
        && (rest.is_empty() || rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Finds the folders that `manifest`, a file in `place`, names.
///
/// # Errors
/// If one is not there, is no folder, or would let the guest write what is loaded
/// from `place`, its own manifest included.
pub(crate) fn find(
    manifest: &str,
    place: &Path,
    named: &[NamedFolder],
) -> Result<Vec<FolderGrant>, ManifestError> {
    let find = |folder: &NamedFolder| {
        let refuse = |what: String| ManifestError {
            file: manifest.to_owned(),
            line: folder.line,
            what: format!("`fs.\"{}\".path`: the folder {} {what}", folder.guest, folder.path),
        };
        let host = place.join(&folder.path).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => refuse("is not there; make it, or take the grant away".into()),
            _ => refuse(format!("cannot be used: {error}")),
        })?;
        if !host.is_dir() {
            return Err(refuse("is not a folder".to_owned()));
        }
        let home = place.canonicalize().map_err(|error| refuse(format!("cannot be used: {error}")))?;
        if folder.mode == FolderMode::Write && home.starts_with(&host) {
            return Err(refuse(
                "holds the plugins themselves, and who writes there can grant itself anything; \
                 name a folder inside of it, or mode = \"read\""
                    .to_owned(),
            ));
        }
        if folder.by == GrantedBy::Person && host.to_str().is_none() {
            // What a person says is kept for the folder by its name.
            return Err(refuse("cannot be asked for: its whole path is not UTF-8".to_owned()));
        }
        let (guest, named) = (folder.guest.clone(), folder.path.clone());
        Ok(FolderGrant { guest, host, mode: folder.mode, by: folder.by, named })
    };
    named.iter().map(find).collect()
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

    #[test]
    fn folders_are_looked_for_beside_the_manifest() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join("data")).expect("makes");
        std::fs::write(home.path().join("file"), "x").expect("writes");
        let named = |path: &str, mode| {
            let by = GrantedBy::Operator;
            vec![NamedFolder { guest: "/d".into(), path: path.into(), mode, by, line: Some(2) }]
        };
        let found = |path, mode| find("p.toml", home.path(), &named(path, mode));
        let host = home.path().canonicalize().expect("is there");
        let data = FolderGrant {
            guest: "/d".into(),
            host: host.join("data"),
            mode: FolderMode::Write,
            by: GrantedBy::Operator,
            named: "./data".into(),
        };
        assert_eq!(found("./data", FolderMode::Write), Ok(vec![data]));
        assert!(found(".", FolderMode::Read).is_ok());
        for (path, mode, says) in [
            ("./none", FolderMode::Write, "./none is not there"),
            ("file", FolderMode::Read, "is not a folder"),
            (".", FolderMode::Write, "holds the plugins themselves"),
            ("..", FolderMode::Write, "holds the plugins themselves"),
            ("data/../..", FolderMode::Write, "holds the plugins themselves"),
        ] {
            let shown = found(path, mode).expect_err(path).to_string();
            assert!(shown.starts_with("the manifest p.toml line 2: `fs.\"/d\".path`"), "{shown}");
            assert!(shown.contains(says), "{shown}");
        }
    }
}
