//! The port to the hosts that share a store.

use crate::error::StoreError;
use crate::id::{Digest, Incarnation};
use crate::wire::Timestamp;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a host counts as alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenure {
    /// As long as its process: the operating system tells the others of its end. No clock is involved,
    /// so a process that was paused, or a machine that slept, loses nothing.
    Process,
    /// For this long from each renewal, by the store's clock. A host that misses a renewal is dead to
    /// the others, and stays dead.
    Lease(Duration),
}

/// A host that is known to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The number of the host, which no other host has, now or later. Its writes to tasks carry it.
    pub incarnation: Incarnation,
    /// How long it counts as alive.
    pub tenure: Tenure,
}

/// A host as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of the host.
    pub incarnation: Incarnation,
    /// The display name of the host: the machine and the process id.
    pub name: String,
    /// When it registered, by the store's clock.
    pub since: Timestamp,
    /// The components that it has, in no order.
    pub components: Vec<Digest>,
}

/// The components that some hosts have and others lack, with the hosts that lack them.
#[must_use]
pub fn lacked_components(hosts: &[Neighbour]) -> BTreeMap<&Digest, Vec<&Neighbour>> {
    let all = hosts.iter().flat_map(|host| &host.components);
    let mut lacked: BTreeMap<_, Vec<_>> = all.map(|component| (component, Vec::new())).collect();
    for (component, by) in &mut lacked {
        by.extend(hosts.iter().filter(|host| !host.components.contains(component)));
    }
    lacked.retain(|_, by| !by.is_empty());
    lacked
}

/// The registry of living hosts.
#[async_trait]
pub trait NodeStore: Send + Sync + 'static {
    /// Registers this process as a host that lives. While the registration holds, a second call returns
    /// the same one; once it was lost, a new one.
    async fn register(&self) -> Result<Registration, StoreError>;

    /// Renews the registration of this process, and tells the others which components it has, in place of an earlier
    /// list; `None` leaves that list as it is. Returns false if the others have taken it for dead: then the runs of
    /// its tasks must stop.
    async fn renew(
        &self,
        incarnation: Incarnation,
        components: Option<&[Digest]>,
    ) -> Result<bool, StoreError>;

    /// Incarnations that were registered and are dead, and incarnations with live tasks that no host
    /// has: a host that was forgotten before it knew that it was dead may have taken tasks since.
    /// 0 is never among them: a parked task has no host.
    async fn dead(&self) -> Result<Vec<Incarnation>, StoreError>;

    /// The living hosts that others can distinguish by more than their number, the oldest first. Empty
    /// if the hosts are processes of one machine.
    async fn living(&self) -> Result<Vec<Neighbour>, StoreError> {
        Ok(Vec::new())
    }

    /// Forgets a dead incarnation whose tasks were recovered. Another one that lives, or one that still holds live
    /// tasks, stays known. The registration of this process is given up first: it is dead to the others at once, and
    /// they recover the tasks that it leaves.
    async fn forget(&self, incarnation: Incarnation) -> Result<(), StoreError>;
}
