//! Watches the sources of a project, with hints from the kernel and regular scans, because hints can get
//! lost.
//!
//! Only the content counts: a build that rewrites its sources unchanged does not start another build.

use crate::project::{FILE, Project};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use toolyard_cli::read;
use walkdir::{DirEntry, WalkDir};

/// How often sources are scanned even without a hint.
const RESCAN: Duration = Duration::from_secs(2);
/// How long sources must stay unchanged before they count, because editors write in steps.
const SETTLE: Duration = Duration::from_millis(100);
/// The most files that may be watched, and their greatest depth.
const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 32;
/// For files larger than this (bytes), size and time represent the content.
const READ_BYTES: u64 = 16 << 20;
/// Folders with files that others made.
const NOT_OURS: [&str; 2] = ["node_modules", "target"];

/// The sources of a project.
#[derive(Debug, Clone)]
pub struct Sources {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    /// The files that the build makes.
    made: [PathBuf; 2],
}

/// The size and time of all source files at one moment.
type Look = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// A folder that the kernel watches: its path, whether all its subfolders are watched too, and its current
/// device and inode.
type Root = (PathBuf, RecursiveMode, (u64, u64));

/// The digest of the content of all files.
type Content = [u8; 32];

impl Sources {
    /// The sources that the project file names.
    pub fn of(project: &Project) -> Self {
        let mut paths: Vec<PathBuf> = project.watch.iter().map(|path| project.folder.join(path)).collect();
        paths.push(project.folder.join(FILE));
        Self {
            folder: project.folder.clone(),
            paths,
            made: [project.shipped(), project.folder.join(&project.component)],
        }
    }

    /// A path that cannot be read counts as absent: an editor may be renaming it.
    fn look(&self) -> Result<Look, String> {
        let mut look = Look::new();
        for path in &self.paths {
            let below = WalkDir::new(path).max_depth(MAX_DEPTH).into_iter();
            for entry in below.filter_entry(|entry| self.has(entry)).flatten() {
                let Ok(found) = std::fs::metadata(entry.path()) else { continue };
                if found.is_dir() {
                    continue;
                }
                if look.len() == MAX_FILES {
                    return Err(format!("`watch` names more than {MAX_FILES} files"));
                }
                look.insert(entry.into_path(), (found.len(), found.modified().ok()));
            }
        }
        Ok(look)
    }

    /// Whether a file is a source, or a folder may have some.
    fn has(&self, entry: &DirEntry) -> bool {
        let name = entry.file_name().to_string_lossy();
        // A link below could lead into a cycle.
        let is_skipped = entry.path_is_symlink() || name.starts_with('.') || NOT_OURS.contains(&&*name);
        (entry.depth() == 0 || !is_skipped) && !self.made.iter().any(|made| made == entry.path())
    }

    fn content(look: &Look) -> Content {
        let mut hash = Sha256::new();
        for (path, (bytes, time)) in look {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(bytes.to_le_bytes());
            match (*bytes <= READ_BYTES).then(|| read::bytes(path, READ_BYTES)) {
                Some(Ok(content)) => hash.update(Sha256::digest(content)),
                _ => hash.update(format!("{time:?}")),
            }
        }
        hash.finalize().into()
    }

    /// The folders to watch.
    fn roots(&self) -> Vec<Root> {
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let mut roots = BTreeMap::from([(self.folder.clone(), RecursiveMode::NonRecursive)]);
        for path in &self.paths {
            if path.is_dir() {
                roots.insert(path.clone(), RecursiveMode::Recursive);
            } else if let Some(parent) = path.parent() {
                roots.entry(parent.to_owned()).or_insert(RecursiveMode::NonRecursive);
            }
        }
        let found =
            roots.into_iter().map(|(path, mode)| identity(&path).map(|identity| (path, mode, identity)));
        found.flatten().collect()
    }
}

/// Waits for changes of sources.
pub struct Watch {
    sources: Sources,
    seen: Look,
    content: Content,
    hints: Arc<Notify>,
    watcher: Option<(RecommendedWatcher, Vec<Root>)>,
}

impl Watch {
    /// Watches the sources. Their current state counts as seen.
    ///
    /// # Errors
    /// If there are too many files.
    pub async fn new(sources: Sources) -> Result<Self, String> {
        let (seen, content) = whole(&sources).await?;
        let mut watch = Self { sources, seen, content, hints: Arc::default(), watcher: None };
        watch.follow();
        Ok(watch)
    }

    /// Watches these sources from now on, and keeps the state that was last seen.
    pub fn replace(&mut self, sources: Sources) {
        self.sources = sources;
        self.follow();
    }

    /// Waits until the sources differ from the state last seen and stay unchanged. The new state then counts
    /// as seen.
    ///
    /// # Errors
    /// If there are too many files.
    pub async fn changed(&mut self) -> Result<(), String> {
        loop {
            // Finds a change before this call at once.
            if self.settled().await? {
                let (seen, content) = whole(&self.sources).await?;
                self.seen = seen;
                if std::mem::replace(&mut self.content, content) != content {
                    return Ok(());
                }
            }
            self.follow();
            // Whichever comes first; both only trigger a scan.
            tokio::select! {
                () = self.hints.notified() => {}
                () = tokio::time::sleep(RESCAN) => {}
            }
        }
    }

    /// Waits until the files stay unchanged for a while. Returns whether they differ from those last seen.
    async fn settled(&self) -> Result<bool, String> {
        let mut last = look(&self.sources).await?;
        if last == self.seen {
            return Ok(false);
        }
        loop {
            tokio::time::sleep(SETTLE).await;
            let now = look(&self.sources).await?;
            if now == last {
                return Ok(true);
            }
            last = now;
        }
    }

    /// Makes the kernel watch the current folders.
    fn follow(&mut self) {
        let roots = self.sources.roots();
        if self.watcher.as_ref().is_some_and(|(_, followed)| *followed == roots) {
            return;
        }
        let hints = self.hints.clone();
        let started = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !matches!(event.kind, notify::EventKind::Access(_))) {
                hints.notify_one();
            }
        });
        self.watcher = match started {
            Ok(mut watcher) => {
                for (path, mode, _) in &roots {
                    if let Err(error) = watcher.watch(path, *mode) {
                        tracing::debug!("a folder is only looked at from time to time: {error}");
                    }
                }
                Some((watcher, roots))
            }
            Err(_) => None,
        };
    }
}

/// Scans the files, on a thread that may wait for a disk.
async fn look(sources: &Sources) -> Result<Look, String> {
    let sources = sources.clone();
    tokio::task::spawn_blocking(move || sources.look()).await.map_err(|error| error.to_string())?
}

async fn whole(sources: &Sources) -> Result<(Look, Content), String> {
    let sources = sources.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let look = sources.look()?;
        let content = Sources::content(&look);
        Ok((look, content))
    });
    looking.await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(folder: &Path) -> Project {
        std::fs::create_dir_all(folder.join("src/deep")).expect("made");
        let text = "name = 'a'\nbuild = ['true']\ncomponent = 'src/out'\nwatch = ['src', 'package.json']\n";
        std::fs::write(folder.join(FILE), text).expect("written");
        std::fs::write(folder.join("src/deep/one"), "1").expect("written");
        Project::open(folder).expect("a project")
    }

    #[test]
    fn what_is_made_and_what_others_made_is_no_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = Sources::of(&project(folder.path()));
        let before = Sources::content(&sources.look().expect("few"));
        for made in ["src/out", "src/.hidden", "other", "src/node_modules/x", "src/target/x"] {
            let path = folder.path().join(made);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "x").expect("written");
            assert_eq!(Sources::content(&sources.look().expect("few")), before, "{made}");
        }
        for source in ["src/deep/one", "src/two", "package.json", FILE] {
            let before = Sources::content(&sources.look().expect("few"));
            std::fs::write(folder.path().join(source), "changed").expect("written");
            assert_ne!(Sources::content(&sources.look().expect("few")), before, "{source}");
        }
    }

    #[tokio::test]
    async fn a_change_is_found_even_if_it_came_before_anybody_waited() {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = Sources::of(&project(folder.path()));
        let mut watch = Watch::new(sources).await.expect("few");
        std::fs::write(folder.path().join("src/deep/one"), "2").expect("written");
        watch.changed().await.expect("few");
        // Rewriting the same content is no change.
        std::fs::write(folder.path().join("src/deep/one"), "2").expect("written");
        let mut changing = Box::pin(watch.changed());
        let waited = tokio::time::timeout(SETTLE * 5, &mut changing).await;
        assert!(waited.is_err());
        std::fs::remove_file(folder.path().join("src/deep/one")).expect("removed");
        changing.await.expect("few");
    }
}
