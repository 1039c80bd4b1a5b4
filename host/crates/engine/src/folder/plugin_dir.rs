//! The files of the plugin folder. A command that changes several together writes them to a folder of their own,
//! renames that, and then moves them one by one. From the renaming on they are read here, so that the change is one
//! step for a host, also if the command is killed while it moves them.

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _};
use std::sync::Arc;

/// The folder of a change that was committed, in the plugin folder.
pub const COMMITTED_FOLDER: &str = ".toolyard-committed";
/// The file in that folder that lists the steps. It is removed once all of them were taken.
pub const STEPS_FILE: &str = "steps.json";
/// The largest list of steps, in bytes.
pub const MAX_STEPS_BYTES: u64 = 1 << 20;

/// A step of a change of the plugin folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderStep {
    /// The name of the file.
    pub file: String,
    /// Whether the file is written; else it is removed.
    pub is_written: bool,
}

/// The plugin folder, with a change that is not finished.
pub(crate) struct PluginDir {
    dir: Arc<Dir>,
    change: Option<Change>,
}

struct Change {
    dir: Dir,
    written: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl PluginDir {
    /// # Errors
    /// If there is a change that cannot be read.
    pub fn new(dir: Arc<Dir>) -> io::Result<Self> {
        let change = match Change::read(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            change => Some(change?),
        };
        Ok(Self { dir, change })
    }

    /// The folder itself.
    pub const fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// The files of the change that have yet to be moved, or were moved since.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.change.iter().flat_map(|change| &change.written).map(String::as_str)
    }

    /// The metadata of a file; `None` if it does not exist.
    pub fn metadata(&self, name: &str) -> io::Result<Option<Metadata>> {
        self.at(name, |dir| dir.symlink_metadata(name))
    }

    /// Opens a file.
    pub fn open(&self, name: &str, options: &OpenOptions) -> io::Result<File> {
        self.at(name, |dir| dir.open_with(name, options))?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Looks for a file in the change first: what is not there any more has been moved.
    fn at<T>(&self, name: &str, look: impl Fn(&Dir) -> io::Result<T>) -> io::Result<Option<T>> {
        let change = self.change.as_ref();
        if change.is_some_and(|change| change.removed.contains(name)) {
            return Ok(None);
        }
        let pending = change.filter(|change| change.written.contains(name)).map(|change| &change.dir);
        for dir in pending.into_iter().chain([&*self.dir]) {
            match look(dir) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }
}

impl Change {
    fn read(dir: &Dir) -> io::Result<Self> {
        if !dir.symlink_metadata(COMMITTED_FOLDER)?.is_dir() {
            return Err(io::Error::other(format!("{COMMITTED_FOLDER} is not a folder")));
        }
        let dir = dir.open_dir(COMMITTED_FOLDER)?;
        let mut text = Vec::new();
        dir.open(STEPS_FILE)?.take(MAX_STEPS_BYTES).read_to_end(&mut text)?;
        let steps: Vec<FolderStep> = serde_json::from_slice(&text)?;
        let named = |is_written: bool| {
            let steps = steps.iter().filter(|step| step.is_written == is_written);
            steps.map(|step| step.file.clone()).collect()
        };
        Ok(Self { written: named(true), removed: named(false), dir })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::fs;

    #[test]
    fn a_change_counts_as_made_while_its_files_are_moved() {
        let place = tempfile::tempdir().expect("a folder");
        let (at, committed) = (|name: &str| place.path().join(name), place.path().join(COMMITTED_FOLDER));
        for file in ["a.wasm", "a.toml", "b.wasm"] {
            fs::write(at(file), "old").expect("writes");
        }
        let read = || {
            let dir = Dir::open_ambient_dir(place.path(), ambient_authority()).expect("opens");
            let dir = PluginDir::new(Arc::new(dir)).expect("reads");
            ["a.wasm", "a.toml", "b.wasm", "c.wasm"].map(|name| {
                assert_eq!(
                    dir.metadata(name).expect("looks").is_some(),
                    dir.open(name, OpenOptions::new().read(true)).is_ok()
                );
                let mut text = String::new();
                let mut file = dir.open(name, OpenOptions::new().read(true)).ok()?;
                file.read_to_string(&mut text).expect("reads");
                Some(text)
            })
        };
        let [old, new] = ["old", "new"].map(|text| Some(text.to_owned()));
        assert_eq!(read(), [old.clone(), old.clone(), old.clone(), None]);
        fs::create_dir(&committed).expect("makes");
        let steps = r#"[{"file": "a.wasm", "is_written": true}, {"file": "c.wasm", "is_written": true},
            {"file": "b.wasm", "is_written": false}]"#;
        fs::write(committed.join(STEPS_FILE), steps).expect("writes");
        for file in ["a.wasm", "c.wasm"] {
            fs::write(committed.join(file), "new").expect("writes");
        }
        let made = [new.clone(), old, None, new];
        assert_eq!(read(), made);
        for file in ["a.wasm", "c.wasm"] {
            fs::rename(committed.join(file), at(file)).expect("moves");
            assert_eq!(read(), made, "{file}");
        }
        fs::remove_file(at("b.wasm")).expect("removes");
        fs::remove_file(committed.join(STEPS_FILE)).expect("removes");
        assert_eq!(read(), made);
    }
}
