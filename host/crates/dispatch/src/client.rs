//! The way to clients: what is sent to them, and requests that wait for their responses.

pub(crate) mod client_channel;
pub(crate) mod client_lookup;
pub(crate) mod pending_requests;
pub(crate) mod signed_token;

use client_lookup::Reach;
use pending_requests::Requests;
use std::sync::{Arc, OnceLock};
use toolyard_task::keys::KeyStore;

/// The ways to clients.
pub(crate) struct Clients {
    /// Our own requests that wait for responses.
    pub requests: Requests,
    /// Where clients are reached whose requests are over.
    lookup: OnceLock<Arc<dyn Reach>>,
    /// What is signed that clients carry for us.
    pub keys: Arc<dyn KeyStore>,
}

impl Clients {
    pub fn new(keys: Arc<dyn KeyStore>) -> Self {
        Self { requests: Requests::default(), lookup: OnceLock::new(), keys }
    }

    /// Says where clients are reached whose requests are over. The first word counts.
    pub fn reach_by(&self, reach: Arc<dyn Reach>) {
        // Whoever comes second serves nobody that the first does not.
        drop(self.lookup.set(reach));
    }

    /// Where clients are reached whose requests are over.
    pub fn lookup(&self) -> Option<&Arc<dyn Reach>> {
        self.lookup.get()
    }
}
