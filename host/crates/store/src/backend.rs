//! The interface of an open store of any kind.

use crate::reencryption::{ReencryptionReport, SealWith};
use async_trait::async_trait;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use toolyard_task::keys::KeyStore;
use toolyard_task::node::NodeStore;
use toolyard_task::session::SessionStore;
use toolyard_task::{
    AuditStore, Broadcast, Erasure, GrantStore, JournalStore, StoreError, TaskStore, TimelineStore,
};

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
    /// again. A file must still be the one that was opened, because changes to a removed file are lost.
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

    /// Completes all pending operations, and closes the file or the connections; later calls fail. Live tasks of
    /// this host are left to the others.
    async fn shut_down(self: Arc<Self>);
}
