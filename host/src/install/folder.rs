//! The plugin folder as the commands change it: several files together, all of them or none, whenever the command is
//! killed. Several commands at once take turns.

use crate::spinner::Spinner;
use anyhow::{Context as _, bail};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_cli::read::{self, if_exists};
use toolyard_cli::{replace, tell};
use toolyard_engine::{
    COMMITTED_FOLDER, CheckReport, Engine, FolderStep, LOCK_FILE, LoadError, MAX_LOCK_BYTES,
    MAX_PROVENANCE_BYTES, MAX_STEPS_BYTES, Refusal, STEPS_FILE, provenance_file,
};
use toolyard_manifest::ManifestError;
use toolyard_trust::lock::Lock;

/// Held by the command that changes the folder. The loader ignores names that begin with a dot.
const TURN: &str = ".toolyard-turn";
/// The folder with the new files, while they are written.
const STAGED: &str = ".toolyard-staged";
/// The same folder once it is complete: from its renaming on, the change is certain, and hosts read its files.
const COMMITTED: &str = COMMITTED_FOLDER;
/// A component that is checked before it is a plugin, and its manifest.
const CHECKED: [&str; 2] = [".toolyard-check.wasm", ".toolyard-check.toml"];
/// How long a command waits for another one.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// When it says that it waits.
const ANNOUNCED: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The plugin folder, held by this command.
#[derive(Debug)]
pub struct PluginFolder {
    path: PathBuf,
    /// Held until the end.
    turn: Option<File>,
}

impl Drop for PluginFolder {
    /// Ctrl-C may have stopped a check.
    fn drop(&mut self) {
        if self.turn.is_some() {
            // The next command removes them as well.
            let _ = self.remove_checked();
        }
    }
}

/// The files of one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFiles {
    /// The component.
    pub component: String,
    /// The manifest.
    pub manifest: String,
    /// The signatures of its publisher.
    pub provenance: String,
}

impl PluginFiles {
    /// The files of the plugin `name`.
    pub fn of(name: &str) -> Self {
        let component = format!("{name}.wasm");
        let provenance = provenance_file(&component);
        Self { manifest: format!("{name}.toml"), provenance, component }
    }
}

/// Files to write and to remove together, in this order.
#[derive(Debug, Default)]
pub struct Change(Vec<(String, Option<Vec<u8>>)>);

impl Change {
    /// Writes a file.
    pub fn write(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.0.push((name.to_owned(), Some(bytes.into())));
    }

    /// Removes a file, if it is there.
    pub fn remove(&mut self, name: &str) {
        self.0.push((name.to_owned(), None));
    }

    /// Writes a file, or removes it if there are no bytes for it.
    pub fn set(&mut self, name: &str, bytes: Option<impl Into<Vec<u8>>>) {
        match bytes {
            Some(bytes) => self.write(name, bytes),
            None => self.remove(name),
        }
    }
}

impl PluginFolder {
    /// Opens the folder to change it, and makes it if it does not exist. Waits for its turn, and finishes or drops
    /// the change of a command that was killed.
    ///
    /// # Errors
    /// If the folder cannot be written, or another command changes it for longer than a minute.
    pub async fn open(path: &Path) -> anyhow::Result<Self> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(folder) = Self::try_open(path)? {
                return Ok(folder);
            }
            let holder = fs::read_to_string(path.join(TURN)).unwrap_or_default();
            let holder = format!("another command (process {}) changes {}", holder.trim(), path.display());
            if waited >= MAX_WAIT {
                bail!("{holder}; end it, or try again later");
            }
            if waited == ANNOUNCED {
                tell!("toolyard: {holder}; waiting for it");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            waited += LOOK_AGAIN;
        }
    }

    /// The same, but `None` if another command has its turn.
    fn try_open(path: &Path) -> anyhow::Result<Option<Self>> {
        let cannot = || format!("cannot change the plugin folder {}", path.display());
        fs::create_dir_all(path).with_context(cannot)?;
        let turn = File::options().create(true).truncate(false).write(true).open(path.join(TURN));
        let mut turn = turn.with_context(cannot)?;
        match turn.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        turn.set_len(0).and_then(|()| writeln!(turn, "{}", std::process::id())).with_context(cannot)?;
        let folder = Self { path: path.to_owned(), turn: Some(turn) };
        folder.recover().with_context(cannot)?;
        Ok(Some(folder))
    }

    /// The folder for a command that only reads it. Finishes the change of a command that was killed, if it may.
    pub fn read_only(path: &Path) -> Self {
        recover(path);
        Self { path: path.to_owned(), turn: None }
    }

    /// Whether a change is half made that this command may not finish.
    pub fn is_changing(&self) -> bool {
        self.turn.is_none() && self.path.join(COMMITTED).join(STEPS_FILE).exists()
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock file; an empty one if there is none.
    ///
    /// # Errors
    /// If it cannot be read or is not valid.
    pub fn lock(&self) -> anyhow::Result<Lock> {
        let path = self.path.join(LOCK_FILE);
        let cannot = || format!("cannot read {}", path.display());
        match self.read(LOCK_FILE, MAX_LOCK_BYTES)? {
            None => Ok(Lock::empty()),
            Some(bytes) => crate::lock_file::parse(&bytes).map_err(anyhow::Error::msg).with_context(cannot),
        }
    }

    /// The names of its components, sorted.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn components(&self) -> anyhow::Result<Vec<String>> {
        let cannot = || format!("cannot list the plugin folder {}", self.path.display());
        let entries = if_exists(fs::read_dir(&self.path)).with_context(cannot)?;
        let mut names = Vec::new();
        for entry in entries.into_iter().flatten() {
            let name = entry.with_context(cannot)?.file_name();
            let name = name.to_str().filter(|name| !name.starts_with(['.', '~', '#']));
            names.extend(name.and_then(|name| name.strip_suffix(".wasm")).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The provenance file of a component.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn provenance(&self, component: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.read(&provenance_file(component), MAX_PROVENANCE_BYTES)
    }

    /// A file of the folder; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or is larger than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        if_exists(read::bytes(&path, most)).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Makes a change: after a crash at any moment, all of it happens or none of it.
    ///
    /// # Errors
    /// If the files cannot be written; then nothing has changed.
    pub fn commit(&self, change: Change) -> anyhow::Result<()> {
        if self.turn.is_none() {
            bail!("the plugin folder was opened for reading");
        }
        let cannot = || format!("cannot write the plugin folder {}", self.path.display());
        self.stage(change).with_context(cannot)?;
        reach("install.staged");
        fs::rename(self.path.join(STAGED), self.path.join(COMMITTED)).with_context(cannot)?;
        self.sync().with_context(cannot)?;
        reach("install.committed");
        self.finish().with_context(cannot)
    }

    fn stage(&self, change: Change) -> io::Result<()> {
        check_names(change.0.iter().map(|(file, _)| file.as_str()))?;
        let staged = self.path.join(STAGED);
        remove_folder(&staged)?;
        // A host of another user reads it too.
        DirBuilder::new().mode(0o755).create(&staged)?;
        let mut steps = Vec::new();
        for (file, bytes) in change.0 {
            if let Some(bytes) = &bytes {
                write(&staged.join(&file), bytes)?;
            }
            steps.push(FolderStep { file, is_written: bytes.is_some() });
        }
        write(&staged.join(STEPS_FILE), &serde_json::to_vec(&steps)?)?;
        File::open(&staged)?.sync_all()
    }

    /// Drops a change that was not complete, and finishes one that was.
    fn recover(&self) -> io::Result<()> {
        remove_folder(&self.path.join(STAGED))?;
        self.remove_checked()?;
        self.finish()
    }

    /// Checks a component with a manifest as the engine would load both from this folder, under other names.
    ///
    /// # Errors
    /// If they cannot be written, or the engine refuses them as the plugin `name`.
    pub async fn check(
        &self,
        engine: &Arc<Engine>,
        name: &str,
        component: &[u8],
        manifest: Option<&str>,
    ) -> anyhow::Result<CheckReport> {
        let [component_file, manifest_file] = CHECKED.map(|file| self.path.join(file));
        let write = || {
            fs::write(&component_file, component)?;
            manifest.map_or(Ok(()), |manifest| fs::write(&manifest_file, manifest))
        };
        let cannot = || format!("cannot write to the plugin folder {}", self.path.display());
        let _spinner = Spinner::new(&format!("checking {name}"));
        let report = match write().with_context(cannot) {
            Ok(()) => Ok(engine.check(&component_file).await),
            Err(error) => Err(error),
        };
        self.remove_checked().with_context(cannot)?;
        let PluginFiles { component: file, manifest, .. } = PluginFiles::of(name);
        let why = match report? {
            Ok(report) => return Ok(CheckReport { file, ..report }),
            Err(LoadError { why: Refusal::Manifest(error), .. }) => {
                Refusal::Manifest(ManifestError { file: manifest, ..error })
            }
            Err(LoadError { why, .. }) => why,
        };
        Err(LoadError { file, why }.into())
    }

    fn remove_checked(&self) -> io::Result<()> {
        CHECKED.iter().try_for_each(|file| if_exists(fs::remove_file(self.path.join(file))).map(drop))
    }

    /// Moves the files of a committed change to their names. It can be repeated.
    fn finish(&self) -> io::Result<()> {
        let committed = self.path.join(COMMITTED);
        let Some(steps) = if_exists(read::bytes(&committed.join(STEPS_FILE), MAX_STEPS_BYTES))? else {
            // The list goes first when the folder is removed, so all its steps were taken.
            return remove_folder(&committed);
        };
        let steps: Vec<FolderStep> = serde_json::from_slice(&steps)?;
        // A user who may write to the folder must not choose files elsewhere.
        check_names(steps.iter().map(|step| step.file.as_str()))?;
        for (index, FolderStep { file, is_written }) in steps.iter().enumerate() {
            let to = self.path.join(file);
            // A missing file was moved or removed before a crash.
            if_exists(match is_written {
                true => fs::rename(committed.join(file), &to),
                false => fs::remove_file(&to),
            })?;
            reach(&format!("install.step-{index}"));
        }
        self.sync()?;
        fs::remove_file(committed.join(STEPS_FILE))?;
        reach("install.done");
        remove_folder(&committed)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Finishes the change of a command that was killed. In a folder that this process may not write to it stays as it is,
/// and counts as made.
pub fn recover(path: &Path) {
    if !path.join(COMMITTED).exists() {
        return;
    }
    if let Err(error) = PluginFolder::try_open(path) {
        tracing::warn!(
            event = "plugin.change_not_finished", path = %path.display(), error = %format!("{error:#}"),
            "cannot finish a change of the plugin folder that was interrupted"
        );
    }
}

/// Writes a file that all users may read, to the disk.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace::replace(path, bytes, replace::readable())?;
    File::open(path)?.sync_all()
}

/// Refuses a name of a file that is not in the folder, or that the commands use themselves.
fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> io::Result<()> {
    match names.find(|name| name.is_empty() || name.starts_with('.') || name.contains(['/', '\0'])) {
        Some(name) => {
            Err(io::Error::other(format!("{name:?} is not the name of a file of the plugin folder")))
        }
        None => Ok(()),
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    if_exists(fs::remove_dir_all(path)).map(drop)
}

/// A place at which a test stops this process.
#[cfg(feature = "failpoints")]
fn reach(name: &str) {
    toolyard_failpoint::reach(name);
}

#[cfg(not(feature = "failpoints"))]
fn reach(_name: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Change {
        let mut change = Change::default();
        change.write("a.toml", text);
        change.write("a.wasm", text);
        change.remove("gone");
        change
    }

    #[tokio::test]
    async fn a_change_that_was_committed_is_finished_and_any_other_is_dropped() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        let texts = |names: [&str; 2]| names.map(|name| fs::read_to_string(at(name)).unwrap_or_default());
        fs::write(at("gone"), "x").expect("writes");
        let folder = PluginFolder::open(place.path()).await.expect("opens");
        folder.commit(change("1")).expect("commits");
        assert!(texts(["a.toml", "a.wasm"]) == ["1", "1"] && !at("gone").exists());
        // Killed before the commit.
        folder.stage(change("2")).expect("stages");
        drop(folder);
        let folder = PluginFolder::open(place.path()).await.expect("opens");
        assert_eq!(texts(["a.toml", "a.wasm"]), ["1", "1"]);
        // Killed after the commit and the first step.
        folder.stage(change("3")).expect("stages");
        fs::rename(at(STAGED), at(COMMITTED)).expect("renames");
        fs::rename(at(COMMITTED).join("a.toml"), at("a.toml")).expect("renames");
        drop(folder);
        recover(place.path());
        assert_eq!(texts(["a.toml", "a.wasm"]), ["3", "3"]);
        assert_eq!(fs::read_dir(place.path()).expect("lists").count(), 3);
    }
}
