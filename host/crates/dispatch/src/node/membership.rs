//! The process as a host among those that share the store: its incarnation, which fences the
//! writes of its runs, and the lease of the incarnation, if there is one.
//!
//! A process registers before its first task, not earlier (26B-7). A host that cannot renew its
//! lease in time takes itself for dead before the others do: it stops the runs of its tasks, and
//! takes another incarnation when it needs one. The tasks of the old incarnation are recovered like
//! those of any dead host.

use crate::node::Node;
use crate::slots::registry::RunKey;
use crate::slots::stop::StopCause;
use parking_lot::Mutex;
use std::future::pending;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolyard_task::node::{Registration, Tenure};
use toolyard_task::{Incarnation, StoreError};

/// How often a host without a lease checks whether the others still see it.
const LOOK: Duration = Duration::from_secs(5);
/// How many times a lease is renewed in its duration.
const RENEWALS: u32 = 3;
/// The part of a lease that a host does not use, so that it has stopped before the others find it dead.
const MARGIN: u32 = 8;
/// A renewal that failed is tried again after this part of the lease.
const RETRIES: u32 = 15;

/// The membership of this process among the hosts.
pub(crate) struct Membership {
    state: Mutex<LeaseState>,
    /// At most one task of the process registers at a time.
    turn: Semaphore,
    registered: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
enum LeaseState {
    /// The host has held no task yet.
    #[default]
    Unknown,
    Holds(HeldLease),
    /// The host has lost this incarnation, and takes another one when it needs one.
    Lost(Incarnation),
}

#[derive(Debug, Clone, Copy)]
struct HeldLease {
    incarnation: Incarnation,
    lease: Option<Duration>,
    /// When it takes itself for dead, by this machine's monotonic clock.
    until: Option<Instant>,
    /// When it renews next.
    renew_at: Instant,
}

impl HeldLease {
    /// From the store's answer to a request that left at `asked`.
    fn of(incarnation: Incarnation, tenure: Tenure, asked: Instant) -> Self {
        match tenure {
            Tenure::Process => Self { incarnation, lease: None, until: None, renew_at: asked + LOOK },
            Tenure::Lease(lease) => Self {
                incarnation,
                lease: Some(lease),
                until: Some(asked + lease - lease / MARGIN),
                renew_at: asked + lease / RENEWALS,
            },
        }
    }

    fn is_expired(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Default for Membership {
    fn default() -> Self {
        Self { state: Mutex::default(), turn: Semaphore::new(1), registered: Notify::new() }
    }
}

impl Membership {
    /// The incarnation, as long as it holds.
    pub fn current(&self) -> Option<Incarnation> {
        self.held_lease().filter(|held| !held.is_expired(Instant::now())).map(|held| held.incarnation)
    }

    fn held_lease(&self) -> Option<HeldLease> {
        match *self.state.lock() {
            LeaseState::Holds(held) => Some(held),
            LeaseState::Unknown | LeaseState::Lost(_) => None,
        }
    }
}

/// The lease of this host, as its operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The incarnation of the host.
    pub incarnation: u64,
    /// How long it counts as alive unless it renews its lease. `None` if it counts as alive as long as its
    /// process.
    pub left: Option<Duration>,
}

impl Node {
    /// The lease of this host; `None` before its first task, and while it has lost its incarnation.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        let held = self.membership.held_lease()?;
        let left = held.until.map(|until| until.saturating_duration_since(Instant::now()));
        Some(Lease { incarnation: held.incarnation.0, left })
    }

    /// The incarnation, as long as it holds.
    pub(crate) fn current(&self) -> Option<Incarnation> {
        self.membership.current()
    }

    /// The incarnation of this process; registers it if there is none. Recover the tasks of dead
    /// hosts first when the incarnation is for a new task.
    pub(crate) async fn ensure_registered(&self) -> Result<Incarnation, StoreError> {
        let membership = &self.membership;
        if let Some(incarnation) = membership.current() {
            return Ok(incarnation);
        }
        let _turn = membership.turn.acquire().await.expect("it is never closed");
        if let Some(incarnation) = membership.current() {
            return Ok(incarnation);
        }
        // Its lease has run out since the last look.
        if let Some(held) = membership.held_lease() {
            self.fence_off(held.incarnation);
        }
        let state = *membership.state.lock();
        if let LeaseState::Lost(former) = state {
            // The other hosts may still take it for alive, although no host runs its tasks.
            self.store.forget(former).await?;
        }
        let asked = Instant::now();
        let Registration { incarnation, tenure } = self.store.register().await?;
        *membership.state.lock() = LeaseState::Holds(HeldLease::of(incarnation, tenure, asked));
        membership.registered.notify_one();
        tracing::info!(
            event = "cluster.node_registered", node = %incarnation, lease = ?tenure,
            "node registered"
        );
        Ok(incarnation)
    }

    pub(crate) async fn keep_lease(&self, stop: CancellationToken) {
        loop {
            let due = self.membership.held_lease().map(|held| match held.until {
                Some(until) => held.renew_at.min(until),
                None => held.renew_at,
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.membership.registered.notified() => continue,
                () = until(due) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.renew() => {}
            }
        }
    }

    async fn renew(&self) {
        let Some(held) = self.membership.held_lease() else { return };
        let asked = Instant::now();
        if held.is_expired(asked) {
            return self.fence_off(held.incarnation);
        }
        let answer = tokio::select! {
            biased;
            answer = self.store.renew(held.incarnation, None) => answer,
            () = until(held.until) => return self.fence_off(held.incarnation),
        };
        let renewed = match answer {
            Ok(true) => {
                HeldLease::of(held.incarnation, held.lease.map_or(Tenure::Process, Tenure::Lease), asked)
            }
            Ok(false) => return self.fence_off(held.incarnation),
            Err(error) => {
                tracing::warn!(
                    event = "cluster.lease_not_renewed", node = %held.incarnation,
                    error = &error as &dyn std::error::Error,
                    "cannot renew lease; trying again"
                );
                HeldLease {
                    renew_at: Instant::now() + held.lease.map_or(LOOK, |lease| lease / RETRIES),
                    ..held
                }
            }
        };
        let mut state = self.membership.state.lock();
        // Unless it was lost meanwhile.
        if let LeaseState::Holds(now) = &mut *state
            && now.incarnation == held.incarnation
        {
            *now = renewed;
        }
    }

    /// Treats this host as dead to the others, or possibly dead: the runs of its tasks stop, and nothing
    /// that it still writes counts.
    pub(crate) fn fence_off(&self, incarnation: Incarnation) {
        {
            let mut state = self.membership.state.lock();
            match &*state {
                LeaseState::Holds(held) if held.incarnation == incarnation => {
                    *state = LeaseState::Lost(incarnation);
                }
                LeaseState::Holds(_) | LeaseState::Unknown | LeaseState::Lost(_) => return,
            }
        }
        let runs = self.slots.runs.all();
        let tasks = runs.iter().filter(|(key, _)| matches!(key, RunKey::Task(_)));
        let stopped = tasks.map(|(key, _)| self.slots.runs.stop_key(*key, StopCause::Ended)).count();
        tracing::error!(event = "cluster.lease_lost", node = %incarnation, stopped, "lease lost");
    }
}

/// Waits until this time, or forever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}
