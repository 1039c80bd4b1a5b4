//! The way to clients: what is sent to them, and requests that wait for their responses.

pub(crate) mod client_channel;
pub(crate) mod client_lookup;
pub(crate) mod pending_requests;
pub(crate) mod signed_token;

use client_lookup::ClientLookup;
use pending_requests::PendingRequests;
use std::sync::{Arc, OnceLock};
use toolyard_task::keys::KeyStore;

/// The ways to clients.
pub(crate) struct Clients {
    /// Our own requests that wait for responses.
    pub requests: PendingRequests,
    /// Finds the channel of a client whose request has ended.
    lookup: OnceLock<Arc<dyn ClientLookup>>,
    /// Keys that sign cursors and states, which clients carry for the host.
    pub keys: Arc<dyn KeyStore>,
}

impl Clients {
    pub fn new(keys: Arc<dyn KeyStore>) -> Self {
        Self { requests: PendingRequests::default(), lookup: OnceLock::new(), keys }
    }

    pub fn set_client_lookup(&self, lookup: Arc<dyn ClientLookup>) {
        // The second lookup would find no client that the first one does not.
        drop(self.lookup.set(lookup));
    }

    /// Finds the channel of a client whose request has ended.
    pub fn lookup(&self) -> Option<&Arc<dyn ClientLookup>> {
        self.lookup.get()
    }
}
