//! The store in one SQLite file, `DATA/toolyard.sqlite`, which several processes may use at the
//! same time.
//!
//! One thread writes, in transactions that many callers share; a few threads read, each from its
//! own snapshot. A change is on disk before its call returns. While the disk is full, or another
//! program holds the file locked, calls fail; afterwards the store continues without help.

mod audit;
pub mod backup;
mod blocking;
pub mod components;
mod counts;
mod erasure;
mod error;
mod grants;
mod journal;
mod keys;
mod nodes;
mod reader;
mod reencryption;
mod rows;
mod schema;
mod search;
mod sessions;
mod tasks;
mod timeline;
mod transaction;
mod watch;
mod writer;

pub use error::SqliteOpenError;
pub use schema::kept_copies;

use crate::audit_buffer::AuditBuffer;
use crate::backend::Backend;
use crate::encryption::{Keyring, Sealing};
use crate::group_commit::QueueLimits;
use crate::last_seen_buffer::LastSeenBuffer;
use crate::metrics::Metrics;
use crate::monotonic_clock::MonotonicClock;
use crate::reencryption::{ReencryptionReport, SealWith};
use crate::refusal::StoreRefusal;
use crate::timeline_encoding::Recorder;
use async_trait::async_trait;
use nodes::Node;
use prometheus_client::registry::Registry;
use reader::Readers;
use rusqlite::Connection;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::timeline::TimelineBounds;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Broadcast, Clock, StoreError};
use watch::Watch;
use writer::{Writer, WriterState};

/// The settings of a SQLite store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The source of the time.
    pub clock: Arc<dyn Clock>,
    /// The number of threads that read.
    pub readers: usize,
    /// The maximum number of changes in one transaction.
    pub batch: usize,
    /// The maximum number of calls that wait for the writer, and for each reader.
    pub queue: usize,
    /// How long a call waits for a place in a full queue.
    pub patience: Duration,
    /// How long to wait for a lock that another process holds on the file.
    pub busy: Duration,
    /// How often to check whether another process has written, while there are receivers of hints.
    pub watch: Duration,
    /// How long a session's last-seen time may stay unwritten.
    pub touch: Duration,
    /// Whether audit entries are kept, so that an exporter can take them.
    pub audit: bool,
    /// The maximum number of audit entries that belong to no change and wait for the writer;
    /// further ones are counted and lost.
    pub notes: usize,
    /// How long they may stay unwritten.
    pub note: Duration,
    /// How much is kept of timelines.
    pub timeline: TimelineBounds,
    /// The keys that encrypt tasks; without keys, tasks are stored plain.
    pub keys: Option<Arc<Keyring>>,
}

impl SqliteOptions {
    /// The default settings.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            readers: 2,
            batch: 512,
            queue: 4096,
            patience: Duration::from_secs(10),
            busy: Duration::from_secs(5),
            watch: Duration::from_millis(100),
            touch: Duration::from_secs(1),
            audit: false,
            notes: 4096,
            note: Duration::from_secs(1),
            timeline: TimelineBounds::default(),
            keys: None,
        }
    }
}

/// The identity of a file, independent of its name: its device and inode number.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// A store in a data folder. Dropping it shuts it down and blocks meanwhile;
/// [`Backend::shut_down`] does the same without blocking.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    state: WriterState,
    nodes: PathBuf,
    components: components::Components,
    /// The path of the file, and its identity when it was opened.
    file: (PathBuf, Option<Identity>),
    metrics: Arc<Metrics>,
    sealing: Sealing,
    busy: Duration,
    /// Set by the first registration; before it nothing is locked.
    node: tokio::sync::Mutex<Option<Arc<Node>>>,
}

impl SqliteStore {
    /// Opens the store in `folder`, which is created if it is missing. Blocks on the disk.
    ///
    /// # Errors
    /// [`SqliteOpenError`], with a sentence for the operator. The store never deletes or replaces
    /// existing data.
    pub fn open(folder: &Path, options: SqliteOptions) -> Result<Arc<Self>, SqliteOpenError> {
        let sealing = Sealing(options.keys);
        let (path, connection) = schema::prepare(folder, options.busy, &sealing)?;
        let clock = MonotonicClock::new(options.clock);
        let latest = latest(&connection).map_err(|error| SqliteOpenError::of(path.clone(), error))?;
        latest.into_iter().for_each(|time| clock.resume(time));
        let unavailable = |source| SqliteOpenError::Unavailable { path: path.clone(), source };
        let metrics = Arc::<Metrics>::default();
        let limits = QueueLimits {
            batch: options.batch,
            queue: options.queue,
            wait: options.patience,
            // SQLite itself waits for locks.
            retry: Duration::ZERO,
        };
        let readers = Readers::start(&path, options.busy, options.readers, limits, metrics.clone());
        let readers = readers.map_err(unavailable)?;
        let state = WriterState {
            clock: Arc::new(clock),
            watch: Arc::new(Watch::new(options.watch)),
            last_seen: Arc::new(LastSeenBuffer::new(options.touch)),
            audit: Arc::new(AuditBuffer::new(options.audit, options.notes, options.note)),
            timeline: Arc::default(),
            recorder: Recorder { sealing: sealing.clone(), bounds: options.timeline },
        };
        let writer = Writer::start(connection, state.clone(), limits, metrics.clone());
        let writer = writer.map_err(|error| unavailable(error.into()))?;
        let nodes = folder.join("nodes");
        let components = components::Components(folder.join(components::FOLDER));
        let file = (path.clone(), identity(&path));
        Ok(Arc::new(Self {
            writer,
            readers,
            state,
            nodes,
            components,
            file,
            metrics,
            sealing,
            busy: options.busy,
            node: tokio::sync::Mutex::default(),
        }))
    }

    fn stop(&self) {
        self.state.watch.end();
        // The readers end first: the last connection to close tidies up the log.
        self.readers.stop();
        // A registration at this moment fails, since the writer has ended or is about to.
        let node = self.node.try_lock().ok().and_then(|node| node.clone());
        self.writer.stop(node.clone().map(|node| nodes::farewell(node, self.nodes.clone())));
        if let Some(node) = node {
            node.release();
        }
    }
}

#[async_trait]
impl Backend for SqliteStore {
    fn is_durable(&self) -> bool {
        true
    }

    fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    async fn check(&self) -> Result<(), StoreError> {
        let (path, opened) = self.file.clone();
        let operation = move |on: &Connection| {
            on.prepare_cached("SELECT id FROM task LIMIT 1")?.exists([])?;
            if identity(&path) != opened {
                return Err(StoreError::Unavailable(StoreRefusal::Replaced.into()).into());
            }
            Ok(())
        };
        self.readers.read(operation).await?;
        if self.writer.queue.is_failing() {
            // Callers may not write while this host is not ready.
            self.writer.write(keys::probe).await?;
            self.writer.write(keys::forget_used).await?;
        }
        Ok(())
    }

    async fn reseal(
        &self,
        with: SealWith,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<ReencryptionReport, StoreError> {
        reencryption::reseal(self, with, progress).await
    }

    async fn shut_down(self: Arc<Self>) {
        if tokio::task::spawn_blocking(move || self.stop()).await.is_err() {
            tracing::error!(event = "store.panicked", part = "shutdown", "part of the store panicked");
        }
    }
}

/// Other processes run on this machine and have their own clients.
impl Broadcast for SqliteStore {}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The latest time that the store has certainly used before. Creations suffice for the order of
/// listings, and the last creation is at the end of an index, whereas finding the last change would
/// take a search; `apply` keeps each task's own times in order.
fn latest(on: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let tasks: Option<i64> = on.query_row("SELECT max(created) FROM task", [], |row| row.get(0))?;
    let sessions: Option<i64> = on.query_row("SELECT max(seen) FROM session", [], |row| row.get(0))?;
    Ok(tasks.max(sessions).map(Timestamp))
}

#[cfg(test)]
mod tests;
