//! Scans the plugin folder through a directory handle, which no symbolic link can escape.

use crate::error::Refusal;
use crate::folder::outsiders::Outsiders;
use crate::folder::plugin_dir::PluginDir;
use crate::lock::{self, LOCK_FILE, LockEntries, LockReader, MAX_LOCK_BYTES};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of files beyond the limit that a report names.
const MAX_EXCESS_NAMED: usize = 20;

/// The plugin folder, kept open after the first scan. Later scans need no more descriptors, so they
/// succeed even if the process has none left.
pub(crate) struct Folder {
    path: PathBuf,
    /// The maximum number of components.
    most: usize,
    /// Whether the folder is used even if every user can write to it.
    trusted: bool,
    /// The lock file, if it is obeyed.
    lock: Option<CurrentLock>,
    open: Option<Open>,
}

struct Open {
    dir: Arc<Dir>,
    entries: rustix::fs::Dir,
    place: (u64, u64),
}

/// Files that take precedence where the folder has more than the limit.
pub(crate) struct Precedence {
    /// Files that are loaded, or whose content was refused.
    pub loaded: BTreeSet<String>,
    /// Files that own a tool or prompt name.
    pub owners: BTreeSet<String>,
}

/// The content of the folder at one moment.
#[derive(Default)]
pub(crate) struct Scan {
    /// `None` if the folder does not exist.
    pub dir: Option<Arc<PluginDir>>,
    pub files: BTreeMap<String, FileStamps>,
    pub excess: Excess,
    /// Manifests without a component: after a component is renamed, its limits and grants apply to nothing.
    pub unused_manifests: BTreeSet<String>,
    /// The entries of the lock file, if it is obeyed.
    pub lock: Option<Arc<dyn LockEntries>>,
    /// The users besides the host's own and root who can add files to it.
    pub outsiders: Option<Outsiders>,
}

/// Components beyond the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Excess {
    /// The first of them.
    pub named: BTreeSet<String>,
    pub count: usize,
}

/// Why the scan failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error(
        "is not read: {0}, and could add tools and grant them anything; remove that permission \
         (`chmod o-w`), or set `plugins.others-may-write = true` if that is intended"
    )]
    Outsiders(Outsiders),
}

/// The metadata of a component's file and of the files that belong to it. If none of them changed, neither did
/// the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamps {
    pub component: Stamp,
    pub manifest: Option<Stamp>,
    /// The stamps of the provenance file and the lock file, if the lock file is obeyed.
    pub lock: Option<LockStamps>,
}

/// The metadata of the files that decide whether a component may be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockStamps {
    pub provenance: Option<Stamp>,
    lock: Option<Stamp>,
}

/// The metadata that reveals a changed file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    kind: FileKind,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    place: (u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    File,
    Symlink,
    Other,
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let kind = if found.is_file() {
            FileKind::File
        } else if found.is_symlink() {
            FileKind::Symlink
        } else {
            FileKind::Other
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

impl Folder {
    pub fn new(path: &Path, most: usize, trusted: bool, lock: Option<Arc<dyn LockReader>>) -> Self {
        Self { path: path.to_owned(), most, trusted, lock: lock.map(CurrentLock::new), open: None }
    }

    /// Scans the folder. A missing folder counts as empty. Blocks.
    ///
    /// # Errors
    /// If the folder exists but cannot be scanned, or every user can write to it.
    pub fn scan(&mut self, first: &Precedence) -> Result<Scan, ScanError> {
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.open = None;
                return Ok(Scan::default());
            }
            Err(error) => return Err(error.into()),
        };
        let open = match self.open.take() {
            Some(open) if open.place == (found.dev(), found.ino()) => open,
            _ => Open::at(&self.path)?,
        };
        let Open { dir, entries, .. } = self.open.insert(open);
        let found = dir.dir_metadata()?;
        let outsiders = Outsiders::of(found.mode(), found.uid(), found.gid());
        if let Some(everybody @ Outsiders::Everybody) = outsiders
            && !self.trusted
        {
            return Err(ScanError::Outsiders(everybody));
        }
        // Before the names are read: a change that begins meanwhile is found by the next scan.
        let files_of = Arc::new(PluginDir::new(dir.clone())?);
        let mut names = Names { most: self.most, ..Names::default() };
        let mut add = |name: &str| {
            if name.ends_with(".wasm") && !name.starts_with(['.', '~', '#']) {
                names.add(name, first);
            }
        };
        files_of.written().for_each(&mut add);
        let mut manifests = BTreeSet::new();
        entries.rewind();
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(std::io::Error::from)?;
            // Skipped, because a report could not show a file name that is not UTF-8.
            let Ok(name) = entry.file_name().to_str() else { continue };
            add(name);
            if manifests.len() < self.most && is_manifest(name) {
                manifests.insert(name.to_owned());
            }
        }
        let (names, excess) = names.within();
        let locked = self.lock.as_mut().map(|lock| lock.look(&files_of, self.trusted)).transpose()?;
        let mut files = BTreeMap::new();
        for name in names {
            if let Some(seen) = look(&files_of, &name, locked)? {
                files.insert(name, seen);
            }
        }
        let mut unused_manifests = BTreeSet::new();
        for name in manifests {
            if stamp(&files_of, &name.replace(".toml", ".wasm"))?.is_none() {
                unused_manifests.insert(name);
            }
        }
        let lock = self.lock.as_ref().map(|lock| lock.entries.clone());
        Ok(Scan { dir: Some(files_of), files, excess, unused_manifests, lock, outsiders })
    }
}

impl Open {
    fn at(path: &Path) -> std::io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        // The other handle may lack permission to list the folder.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = rustix::fs::openat(&dir, ".", flags, Mode::empty())?;
        let entries = rustix::fs::Dir::new(entries)?;
        let found = dir.dir_metadata()?;
        Ok(Self { dir: Arc::new(dir), entries, place: (found.dev(), found.ino()) })
    }
}

/// The lock file as last read, and the time of the file.
#[derive(Debug, Clone)]
struct CurrentLock {
    reader: Arc<dyn LockReader>,
    stamp: Option<Stamp>,
    entries: Arc<dyn LockEntries>,
}

impl CurrentLock {
    fn new(reader: Arc<dyn LockReader>) -> Self {
        let entries = reader.read(Ok(None));
        Self { reader, stamp: None, entries }
    }

    /// Reads the file again if it changed, and returns its stamp.
    fn look(&mut self, dir: &PluginDir, trusted: bool) -> std::io::Result<Option<Stamp>> {
        let found = stamp(dir, LOCK_FILE)?;
        if found != self.stamp {
            let bytes = found.map(|stamp| read(dir, LOCK_FILE, stamp, (MAX_LOCK_BYTES, trusted)));
            let bytes = bytes.transpose().map_err(|why| why.to_string());
            self.entries = self.reader.read(match &bytes {
                Ok(bytes) => Ok(bytes.as_deref()),
                Err(why) => Err(why.clone()),
            });
            self.stamp = found;
        }
        Ok(found)
    }
}

/// The names of components in the folder. It stores at most as many as needed, whatever the
/// folder's size.
#[derive(Default)]
struct Names {
    most: usize,
    /// The names, grouped by precedence.
    ranks: [BTreeSet<String>; 3],
    dropped: usize,
}

impl Names {
    fn add(&mut self, name: &str, first: &Precedence) {
        let [loaded, owners, others] = &mut self.ranks;
        let rank = match name {
            _ if first.loaded.contains(name) => loaded,
            _ if first.owners.contains(name) => owners,
            _ => others,
        };
        rank.insert(name.to_owned());
        if rank.len() > self.most + MAX_EXCESS_NAMED {
            rank.pop_last();
            self.dropped += 1;
        }
    }

    fn within(self) -> (Vec<String>, Excess) {
        let mut names = self.ranks.into_iter().flatten();
        let within: Vec<_> = names.by_ref().take(self.most).collect();
        let named: BTreeSet<_> = names.by_ref().take(MAX_EXCESS_NAMED).collect();
        let count = named.len() + names.count() + self.dropped;
        (within, Excess { named, count })
    }
}

/// Whether a file is a manifest by its name. Cases of tests have a name with two dots.
fn is_manifest(name: &str) -> bool {
    let stem = name.strip_suffix(".toml");
    stem.is_some_and(|stem| !stem.is_empty() && !stem.contains('.') && stem != "toolyard")
}

fn stamp(dir: &PluginDir, name: &str) -> std::io::Result<Option<Stamp>> {
    Ok(dir.metadata(name)?.map(|found| Stamp::of(&found)))
}

/// Inspects one component and the files that belong to it; `None` if the component does not exist. A manifest
/// that cannot be inspected does not count as absent, because that would drop its restrictions. `locked` is
/// the metadata of the lock file, if it is obeyed.
pub(crate) fn look(
    dir: &PluginDir,
    name: &str,
    locked: Option<Option<Stamp>>,
) -> std::io::Result<Option<FileStamps>> {
    let Some(component) = stamp(dir, name)? else { return Ok(None) };
    let manifest = stamp(dir, &toolyard_manifest::file_name(name))?;
    let lock = match locked {
        None => None,
        Some(lock) => Some(LockStamps { provenance: stamp(dir, &lock::provenance_file(name))?, lock }),
    };
    Ok(Some(FileStamps { component, manifest, lock }))
}

/// Reads a file that was scanned, if it is still the same. Unless `trusted`, fails if every user or
/// another owner can change it.
pub(crate) fn read(
    dir: &PluginDir,
    name: &str,
    seen: Stamp,
    (most, trusted): (u64, bool),
) -> Result<Vec<u8>, Refusal> {
    match seen.kind {
        FileKind::File => {}
        FileKind::Symlink => return Err(Refusal::Symlink),
        FileKind::Other => return Err(Refusal::NotAFile),
    }
    if seen.size > most {
        return Err(Refusal::TooLarge { limit: most });
    }
    let unreadable = |error: std::io::Error| Refusal::Unreadable(error.to_string());
    // If a pipe replaced the file, a blocking open would wait for a writer.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    let file = dir.open(name, &options).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(Refusal::NotAFile);
    }
    // A symbolic link that replaced the file leads to another file.
    if Stamp::of(&found).place != seen.place {
        return Err(Refusal::Unreadable("it was replaced meanwhile".to_owned()));
    }
    match Outsiders::of(found.mode(), found.uid(), found.gid()) {
        Some(Outsiders::Everybody) if !trusted => return Err(Refusal::Writable),
        // The owner of the folder can put any file there, and the host has already reported that.
        Some(Outsiders::Owner(owner))
            if !trusted && dir.dir().dir_metadata().map_err(unreadable)?.uid() != owner =>
        {
            return Err(Refusal::ForeignOwner(owner));
        }
        _ => {}
    }
    let mut bytes = Vec::with_capacity(seen.size as usize);
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most { Err(Refusal::TooLarge { limit: most }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn manifests_without_a_component_are_found() {
        let place = tempfile::tempdir().expect("a folder");
        for name in ["jq.wasm", "jq.toml", "old.toml", "a.case.toml", "toolyard.toml", "read.me", ".toml"] {
            std::fs::write(place.path().join(name), "x").expect("writes");
        }
        let first = Precedence { loaded: BTreeSet::new(), owners: BTreeSet::new() };
        let scan = Folder::new(place.path(), 10, true, None).scan(&first).expect("scans");
        assert_eq!(scan.unused_manifests, BTreeSet::from(["old.toml".to_owned()]));
    }

    #[test]
    fn files_belong_to_the_host_to_root_or_to_the_owner_of_the_folder() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = Dir::open_ambient_dir(place.path(), ambient_authority()).expect("opens");
        let dir = Arc::new(PluginDir::new(Arc::new(dir)).expect("reads"));
        let file = place.path().join("a.wasm");
        std::fs::write(&file, "x").expect("writes");
        if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let read = || {
            let seen = look(&dir, "a.wasm", None).expect("looks").expect("is there");
            read(&dir, "a.wasm", seen.component, (10, false))
        };
        assert_eq!(read(), Err(Refusal::ForeignOwner(65_534)));
        std::os::unix::fs::chown(place.path(), Some(65_534), None).expect("gives away");
        assert_eq!(read(), Ok(b"x".to_vec()));
    }

    #[test]
    fn a_file_that_becomes_a_pipe_between_look_and_open_is_refused_at_once() {
        let place = tempfile::tempdir().expect("a folder");
        let dir = Dir::open_ambient_dir(place.path(), ambient_authority()).expect("opens");
        let dir = Arc::new(PluginDir::new(Arc::new(dir)).expect("reads"));
        for name in ["a.wasm", "a.toml"] {
            std::fs::write(place.path().join(name), "x").expect("writes");
        }
        let seen = look(&dir, "a.wasm", None).expect("looks").expect("is there");
        for (name, stamp) in [("a.wasm", seen.component), ("a.toml", seen.manifest.expect("is there"))] {
            let path = place.path().join(name);
            std::fs::remove_file(&path).expect("removes");
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("makes");
            let (done, waits) = mpsc::channel();
            let dir = dir.clone();
            let name = name.to_owned();
            std::thread::spawn(move || done.send(read(&dir, &name, stamp, (1 << 20, false))));
            let outcome = waits.recv_timeout(Duration::from_secs(10)).expect("does not wait for a writer");
            assert!(matches!(outcome, Err(Refusal::NotAFile)), "{outcome:?}");
        }
    }
}
