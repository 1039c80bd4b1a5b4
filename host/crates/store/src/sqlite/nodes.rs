//! The live processes that share the file. Each holds a lock on its own file,
//! `DATA/nodes/<incarnation>.lock`, which the kernel releases when the process ends, however it
//! ends. No clock is involved, so a machine that slept has lost nothing.
//!
//! The locks guarantee that a row which other processes can see is locked for as long as its
//! process lives. Hence the lock is taken before the row is committed.

use super::SqliteStore;
use super::error::SqliteError;
use super::rows::{self, number};
use super::transaction::SqliteTransaction;
use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_task::node::{NodeStore, Registration, Tenure};
use toolyard_task::{Digest, Incarnation, StoreError};

const INSERT: &str = "INSERT INTO node (pid, started) VALUES (?1, ?2)";
const KNOWN: &str = "SELECT 1 FROM node WHERE incarnation = ?1";
const ALL: &str = "SELECT incarnation FROM node ORDER BY incarnation";
/// Known hosts, and holders of tasks: a host that was forgotten before it noticed that it was dead
/// may have taken tasks since. The query takes one index step for each holder, however many tasks
/// it has. A parked task has none (0).
const HOLDERS: &str = "
    WITH RECURSIVE holder (incarnation) AS (
        SELECT (SELECT incarnation FROM task INDEXED BY live_task_by_incarnation
                WHERE status <= 2 AND incarnation > 0 ORDER BY incarnation LIMIT 1)
        UNION ALL
        SELECT (SELECT task.incarnation FROM task INDEXED BY live_task_by_incarnation
                WHERE task.status <= 2 AND task.incarnation > holder.incarnation
                ORDER BY task.incarnation LIMIT 1)
        FROM holder WHERE holder.incarnation IS NOT NULL)
    SELECT incarnation FROM node UNION
    SELECT incarnation FROM holder WHERE incarnation IS NOT NULL
    ORDER BY incarnation";
/// A host whose tasks have not been recovered must be found again.
const FORGET: &str = "
    DELETE FROM node WHERE incarnation = ?1 AND NOT EXISTS (
        SELECT 1 FROM task INDEXED BY live_task_by_incarnation WHERE incarnation = ?1 AND status <= 2)";

/// The process of this host, as other processes see it.
pub(super) struct Node {
    pub(super) incarnation: Incarnation,
    lock: Mutex<Option<File>>,
}

impl Node {
    fn is_held(&self) -> bool {
        self.lock.lock().is_some()
    }

    /// Whether the file that other processes check is the locked one.
    fn holds(&self, path: &Path) -> bool {
        let lock = self.lock.lock();
        let locked = lock.as_ref().and_then(|file| file.metadata().ok()).map(|file| (file.dev(), file.ino()));
        locked.is_some() && locked == super::identity(path)
    }

    /// Releases the lock: from now on, other processes consider this host dead.
    pub(super) fn release(&self) {
        self.lock.lock().take();
    }
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn register(&self) -> Result<Registration, StoreError> {
        let mut mine = self.node.lock().await;
        let node = match mine.as_ref().filter(|node| node.is_held()) {
            Some(node) => node.clone(),
            None => {
                let folder = self.nodes.clone();
                let operation = move |writing: &mut SqliteTransaction<'_>| register(writing, &folder);
                mine.insert(self.writer.write(operation).await?).clone()
            }
        };
        Ok(Registration { incarnation: node.incarnation, tenure: Tenure::Process })
    }

    /// The lock holds as long as the process runs, unless its file or its row was removed: then
    /// other processes consider this host dead.
    async fn renew(&self, incarnation: Incarnation, _: Option<&[Digest]>) -> Result<bool, StoreError> {
        let mut mine = self.node.lock().await;
        let Some(node) = mine.clone().filter(|node| node.incarnation == incarnation) else {
            return Ok(false);
        };
        let path = lock_file(&self.nodes, incarnation);
        let operation = move |on: &Connection| {
            let known = on.prepare_cached(KNOWN)?.exists(params![number(incarnation.0)])?;
            Ok(known && node.holds(&path))
        };
        let holds = self.readers.read(operation).await?;
        if !holds && let Some(node) = mine.take() {
            node.release();
        }
        Ok(holds)
    }

    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError> {
        let mine = self.node.lock().await.as_ref().filter(|node| node.is_held()).map(|node| node.incarnation);
        let folder = self.nodes.clone();
        let operation = move |on: &Connection| {
            let mut others = incarnations(on, HOLDERS)?;
            others.retain(|other| Some(*other) != mine && !lives(&lock_file(&folder, *other)));
            Ok(others)
        };
        self.readers.read(operation).await
    }

    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        // This process keeps the number until it ends, so that the host is forgotten if it leaves
        // no tasks.
        if let Some(node) = &*self.node.lock().await
            && node.incarnation == incarnation
        {
            node.release();
        }
        let folder = self.nodes.clone();
        self.writer
            .write(move |writing| {
                if !lives(&lock_file(&folder, incarnation)) {
                    forget(writing.on, &folder, incarnation)?;
                }
                Ok(())
            })
            .await
    }
}

/// Removes a host that no longer holds tasks.
pub(super) fn forget(on: &Connection, folder: &Path, incarnation: Incarnation) -> Result<(), SqliteError> {
    if rows::execute(on, FORGET, params![number(incarnation.0)])? > 0 {
        // Before the commit: a row without a file is dead anyway, whereas a file without a row
        // would stay forever.
        remove(&lock_file(folder, incarnation));
    }
    Ok(())
}

fn register(writing: &SqliteTransaction<'_>, folder: &Path) -> Result<Arc<Node>, SqliteError> {
    writing.execute(INSERT, params![std::process::id(), writing.clock.now().0])?;
    // AUTOINCREMENT: a committed number is never assigned again.
    let incarnation = Incarnation(writing.on.last_insert_rowid().unsigned_abs());
    sweep(writing.on, folder);
    let lock = lock(folder, incarnation).map_err(|error| {
        let what = format!("{} cannot be locked: {error}", lock_file(folder, incarnation).display());
        StoreError::Unavailable(io::Error::new(error.kind(), what).into())
    })?;
    Ok(Arc::new(Node { incarnation, lock: Mutex::new(Some(lock)) }))
}

/// Creates and locks the file. It is closed in programs that this one starts, because they would
/// otherwise keep the lock.
fn lock(folder: &Path, incarnation: Incarnation) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(lock_file(folder, incarnation))?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

/// Whether a process holds the lock. Tries a shared lock, so that two concurrent checks do not take
/// each other for the host, and releases it at once.
pub(super) fn lives(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => in_doubt(path, &error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => in_doubt(path, &error),
    }
}

/// A live host's tasks must not be touched, so in doubt it counts as live.
fn in_doubt(path: &Path, error: &io::Error) -> bool {
    tracing::warn!(
        event = "cluster.node_state_unknown", path = %path.display(), %error,
        "cannot tell whether a node is alive"
    );
    true
}

/// Removes files of hosts that ended between two steps. Only while the database is locked for
/// writing, since a host that is registering in another process creates its file before its row.
fn sweep(on: &Connection, folder: &Path) {
    let (Ok(known), Ok(files)) = (incarnations(on, ALL), std::fs::read_dir(folder)) else { return };
    for path in files.flatten().map(|file| file.path()) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        let left = name.is_some_and(|number| !known.contains(&Incarnation(number)));
        if left && path.extension().is_some_and(|extension| extension == "lock") && !lives(&path) {
            remove(&path);
        }
    }
}

fn incarnations(on: &Connection, which: &str) -> Result<Vec<Incarnation>, SqliteError> {
    rows::all(on, which, [], |row| Ok(Incarnation(row.get::<_, i64>(0)?.unsigned_abs())))
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "a lock file stays behind");
    }
}

fn lock_file(folder: &Path, incarnation: Incarnation) -> PathBuf {
    folder.join(format!("{incarnation}.lock"))
}

/// The host's last operation: it is forgotten, unless it leaves tasks behind.
pub(super) fn farewell(
    node: Arc<Node>,
    folder: PathBuf,
) -> impl FnMut(&mut SqliteTransaction<'_>) -> Result<(), SqliteError> + Send + 'static {
    move |writing| forget(writing.on, &folder, node.incarnation)
}
