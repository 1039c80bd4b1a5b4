//! Stores for tasks, sessions, hosts, keys, grants and audit entries: in memory, in one SQLite file
//! that several processes share (feature `sqlite`), or in a PostgreSQL database that several
//! machines share (feature `postgres`). All behave alike; the crate `toolyard-store-contract` defines
//! how and tests each of them.
//!
//! Decisions about tasks do not belong here. A store compares a version and writes the given task,
//! so that every store has the same state machine, `toolyard_task::apply`.

/// Reports that the process has reached the place of this name, if the last argument holds. Without
/// the feature it expands to nothing, and the arguments are not evaluated.
#[cfg(feature = "sqlite")]
macro_rules! fail_point {
    ($what:expr, $when:literal) => {
        #[cfg(feature = "failpoints")]
        toolyard_failpoint::reach_in($what, $when);
    };
    ($what:expr, $when:literal, $there:expr) => {
        #[cfg(feature = "failpoints")]
        if $there {
            toolyard_failpoint::reach_in($what, $when);
        }
    };
}

// The store in memory uses only a few of these.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod audit_buffer;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod backup;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod codec;
mod components;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod group_commit;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod journal_encoding;
mod key_id;
pub mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod metrics;
#[cfg(feature = "postgres")]
pub mod postgres;
// The store in memory seals nothing.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod audit_lines;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod encryption;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod last_seen_buffer;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod monotonic_clock;
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
mod reencryption;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod refusal;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod search_plan;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod task_encoding;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod timeline_buffer;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod timeline_encoding;

pub use encryption::Keyring;
pub use key_id::KeyId;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use reencryption::{ReencryptionReport, SealWith};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOpenError, SqliteOptions, SqliteStore};

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use toolyard_task::keys::KeyStore;
use toolyard_task::node::NodeStore;
use toolyard_task::session::SessionStore;
use toolyard_task::{
    AuditStore, Broadcast, Erasure, GrantStore, JournalStore, StoreError, TaskStore, TimelineStore,
};

pub use toolyard_task::timeline::TimelineBounds;

/// Names the ports once, for the trait and for its implementation.
macro_rules! all_ports {
    ($($port:ident)+) => {
        /// All ports of one store.
        pub trait Store: $($port +)+ {}

        impl<T: $($port +)+> Store for T {}
    };
}

all_ports! {
    TaskStore NodeStore SessionStore KeyStore GrantStore AuditStore TimelineStore JournalStore Erasure Broadcast
}

/// An open store of any kind.
#[async_trait]
pub trait Backend: Store {
    /// Whether its content outlives this process.
    fn is_durable(&self) -> bool;

    /// Registers its metrics.
    fn register_metrics(&self, registry: &mut Registry);

    /// Whether it works: it can read and, if the last change could not be written, it can write
    /// again.
    async fn check(&self) -> Result<(), StoreError>;

    /// Encrypts every task that is not yet encrypted as `with` says, while hosts keep running.
    /// Calls `progress` with the number of tasks read. After an interruption it can be called
    /// again.
    ///
    /// # Errors
    /// [`StoreError`]. Tasks that were already written stay as written, and no key is removed.
    async fn reseal(
        &self,
        with: SealWith,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<ReencryptionReport, StoreError>;

    /// Completes all pending operations, and closes the file or the connections. Live tasks of this
    /// host are left to the others.
    async fn shut_down(self: Arc<Self>);
}

#[async_trait]
impl Backend for MemoryStore {
    fn is_durable(&self) -> bool {
        false
    }

    fn register_metrics(&self, _registry: &mut Registry) {}

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Nothing is sealed here.
    async fn reseal(
        &self,
        _with: SealWith,
        _progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<ReencryptionReport, StoreError> {
        Ok(ReencryptionReport::default())
    }

    async fn shut_down(self: Arc<Self>) {}
}

/// Other processes run on this machine and have their own clients.
#[cfg(feature = "sqlite")]
impl Broadcast for SqliteStore {}

/// Implements [`Backend`] for a store that writes to a disk, with the store's own methods of the
/// same names.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
macro_rules! durable_backend {
    ($store:ty) => {
        #[async_trait]
        impl Backend for $store {
            fn is_durable(&self) -> bool {
                true
            }

            fn register_metrics(&self, registry: &mut Registry) {
                Self::register_metrics(self, registry);
            }

            async fn check(&self) -> Result<(), StoreError> {
                Self::check(self).await
            }

            async fn reseal(
                &self,
                with: SealWith,
                progress: &mut (dyn FnMut(u64) + Send),
            ) -> Result<ReencryptionReport, StoreError> {
                Self::reseal(self, with, progress).await
            }

            async fn shut_down(self: Arc<Self>) {
                Self::shut_down(&self).await;
            }
        }
    };
}

#[cfg(feature = "sqlite")]
durable_backend!(SqliteStore);
#[cfg(feature = "postgres")]
durable_backend!(PostgresStore);
