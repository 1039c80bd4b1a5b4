//! The store in a PostgreSQL database, which several hosts share (feature `postgres`).
//!
//! One background task writes, in transactions that many callers share; connections of a pool read.
//! A change is durable before its call returns, if the server is configured for durability. The
//! time is the server's. Hosts have leases. After a commit, each host tells the others which tasks
//! changed. While the server is unreachable, calls fail; once it is back, the store continues
//! without help.

mod audit;
pub mod backup;
mod components;
mod connections;
mod erasure;
mod error;
mod grants;
mod hints;
mod journal;
mod keys;
mod live_quota;
mod messages;
mod nodes;
mod ownership;
mod questions;
mod reencryption;
mod rows;
mod schema;
mod search;
mod sessions;
mod tasks;
mod timeline;
mod timeline_rows;
mod transaction;
mod writer;

pub use connections::{PostgresLocation, SCHEMA};
pub use error::PostgresOpenError;

use crate::audit_buffer::AuditBuffer;
use crate::backend::Backend;
use crate::encryption::{Keyring, Sealing};
use crate::group_commit::QueueLimits;
use crate::last_seen_buffer::LastSeenBuffer;
use crate::metrics::Metrics;
use crate::monotonic_clock::{LatestTime, warn_if_ahead};
use crate::reencryption::{ReencryptionReport, SealWith};
use crate::timeline_encoding::Recorder;
use async_trait::async_trait;
use connections::Readers;
use hints::Listener;
use live_quota::LiveQuota;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use toolyard_task::timeline::TimelineBounds;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, StoreError};
use transaction::{Log, WriterState};
use writer::Writer;

/// Removes the numbers of writers that ended long ago; no writer needs them a day later.
const LEFT: &str = "DELETE FROM batch WHERE at <= engine_time() - 86400000";

/// How long a start waits for a lock of another process, such as a host that upgrades the schema. An upgrade of a
/// large database takes seconds, and an orchestrator that waits for longer starts the host again.
pub const START_WAIT: Duration = Duration::from_secs(60);

/// The settings of a store in PostgreSQL.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The name of this host, for people who look at the database.
    pub name: String,
    /// How long a host counts as live after its last sign of life. After that, a paused or
    /// disconnected host loses its tasks.
    pub lease: Duration,
    /// The number of connections that read.
    pub readers: usize,
    /// The maximum number of changes in one transaction.
    pub batch: usize,
    /// The maximum number of calls that wait for the writer.
    pub queue: usize,
    /// How long a call waits for a place in a full queue, and for an unreachable server.
    pub patience: Duration,
    /// How long the server may take to answer.
    pub silence: Duration,
    /// How long a start waits for a lock of another process.
    pub start_wait: Duration,
    /// How long a session's last-seen time may stay unwritten.
    pub touch: Duration,
    /// Whether audit entries are kept, so that an exporter can take them.
    pub audit: bool,
    /// The maximum number of audit entries that belong to no change and wait for the writer;
    /// further ones are counted and lost.
    pub notes: usize,
    /// How long they may stay unwritten.
    pub note: Duration,
    /// Audit entries that another host has not exported for this long are exported here.
    pub adopt_after: Duration,
    /// How much is kept of timelines.
    pub timeline: TimelineBounds,
    /// The keys that encrypt tasks; without keys, tasks are stored plain.
    pub keys: Option<Arc<Keyring>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            name: "toolyard".to_owned(),
            lease: Duration::from_secs(15),
            readers: 8,
            batch: 512,
            queue: 4096,
            patience: Duration::from_secs(10),
            silence: Duration::from_secs(5),
            start_wait: START_WAIT,
            touch: Duration::from_secs(1),
            audit: false,
            notes: 4096,
            note: Duration::from_secs(1),
            adopt_after: Duration::from_secs(60),
            timeline: TimelineBounds::default(),
            keys: None,
        }
    }
}

/// A store in a database. Dropping it abandons unacknowledged operations;
/// [`Backend::shut_down`] completes the queued ones first.
pub struct PostgresStore {
    place: PostgresLocation,
    writer: Writer,
    readers: Readers,
    listener: Listener,
    state: WriterState,
    live_quota: LiveQuota,
    metrics: Arc<Metrics>,
    sealing: Sealing,
    name: String,
    lease: Duration,
    /// Set by the first registration.
    node: tokio::sync::Mutex<Option<Incarnation>>,
}

impl PostgresStore {
    /// Opens the store and creates missing tables. Its background tasks run on the runtime of the
    /// caller.
    ///
    /// # Errors
    /// [`PostgresOpenError`], with a sentence for the operator. The store never deletes or replaces
    /// existing data.
    pub async fn open(
        place: PostgresLocation,
        options: PostgresOptions,
    ) -> Result<Arc<Self>, PostgresOpenError> {
        let sealing = Sealing(options.keys);
        let fault = |source| PostgresOpenError::of(&place, source);
        let (mut on, driver) = place.connect().await.map_err(fault)?;
        let driving = tokio::spawn(driver);
        let secret = schema::prepare(&mut on, &place, &sealing, options.start_wait).await?;
        let begin = "
            SELECT nextval('audit_writer'), (SELECT id FROM audit_log), (SELECT longest FROM span),
                   greatest((SELECT max(created) FROM task), (SELECT max(seen) FROM session), 0),
                   engine_time()";
        let row = on.query_one(begin, &[]).await.map_err(fault)?;
        let (writer, log, longest, latest): (i64, String, i64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        warn_if_ahead(Timestamp(latest), Timestamp(row.get(4)));
        on.execute(LEFT, &[]).await.map_err(fault)?;
        drop(on);
        // It ends when its client is dropped.
        drop(driving.await);
        let floor = LatestTime::default();
        floor.note(latest);
        let metrics = Arc::<Metrics>::default();
        let (listener, hint_sender) =
            Listener::start(place.clone(), &secret, &sealing, metrics.clone()).map_err(|error| {
                PostgresOpenError::Unavailable { place: place.to_string(), source: error.into() }
            })?;
        let state = WriterState {
            floor: Arc::new(floor),
            last_seen: Arc::new(LastSeenBuffer::new(options.touch)),
            audit: Arc::new(AuditBuffer::new(options.audit, options.notes, options.note)),
            timeline: Arc::default(),
            recorder: Recorder { sealing: sealing.clone(), bounds: options.timeline },
            hint_sender,
            longest: Arc::new(AtomicI64::new(longest)),
            log: Arc::new(Log {
                writer,
                name: format!("{log}.{writer}"),
                next: AtomicI64::new(1),
                adopt_after: options.adopt_after,
            }),
        };
        let limits = QueueLimits {
            batch: options.batch,
            queue: options.queue,
            wait: options.patience,
            retry: options.patience,
        };
        Ok(Arc::new(Self {
            writer: Writer::start(place.clone(), state.clone(), limits, options.silence, metrics.clone()),
            readers: Readers::new(&place, options.readers, options.silence, metrics.clone()),
            listener,
            state,
            live_quota: LiveQuota::default(),
            metrics,
            sealing,
            name: options.name,
            lease: options.lease,
            node: tokio::sync::Mutex::default(),
            place,
        }))
    }
}

#[async_trait]
impl Backend for PostgresStore {
    fn is_durable(&self) -> bool {
        true
    }

    fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.readers.rows("SELECT 1 FROM span", &[]).await?;
        if self.writer.queue.is_failing() {
            // Callers may not write while this host is not ready.
            let probe = "UPDATE span SET longest = longest";
            self.writer.write((), move |writing, ()| Box::pin(writing.execute(probe, &[]))).await?;
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
        self.farewell().await;
        self.writer.stop().await;
        self.listener.stop().await;
        self.readers.close();
    }
}
