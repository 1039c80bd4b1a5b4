//! The process as one of several hosts.

pub(crate) mod broadcast;
pub(crate) mod membership;

use crate::access::Access;
use crate::slots::Slots;
use membership::Membership;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_task::Broadcast;
use toolyard_task::node::NodeStore;

/// The process as one of the hosts that share a store.
pub struct Node {
    membership: Membership,
    pub(crate) store: Arc<dyn NodeStore>,
    /// The way to the other hosts.
    pub(crate) broadcast: Arc<dyn Broadcast>,
    /// Whether hosts on other machines share the store.
    pub is_shared: bool,
    /// Distinguishes this process from others in the messages between them.
    number: u64,
    /// The hints that another process on this machine has written to the store.
    writes_of_others: AtomicU64,
    access: Arc<Access>,
    slots: Arc<Slots>,
}

impl Node {
    pub(crate) fn new(
        store: Arc<dyn NodeStore>,
        broadcast: Arc<dyn Broadcast>,
        is_shared: bool,
        number: u64,
        access: Arc<Access>,
        slots: Arc<Slots>,
    ) -> Self {
        Self {
            membership: Membership::default(),
            store,
            broadcast,
            is_shared,
            number,
            writes_of_others: AtomicU64::new(0),
            access,
            slots,
        }
    }

    pub(crate) fn note_other_writer(&self) {
        self.writes_of_others.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows when another process on this machine has written to the store.
    #[must_use]
    pub fn writes_of_others(&self) -> u64 {
        self.writes_of_others.load(Ordering::Relaxed)
    }
}
