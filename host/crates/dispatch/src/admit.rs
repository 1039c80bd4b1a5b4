//! How much runs at once. A run holds a [`Slot`]; who finds none is told so at
//! once (a plain call) or stands in line (a task). The line is bounded by the
//! quota of the store, which counts what waits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Runs in the whole host.
    pub running: u32,
    /// Runs of one principal.
    pub running_per_principal: u32,
    /// Tasks of one principal that wait for a slot.
    pub waiting_per_principal: u32,
}

/// Who wants a slot, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The key of the owner.
    pub owner: String,
    /// The plugin.
    pub plugin: String,
    /// How many runs the plugin may have.
    pub plugin_limit: Option<u32>,
}

/// Which bound was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Host,
    Principal,
    Plugin,
}

/// Counts the runs.
pub(crate) struct Admission {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: u32,
    owners: HashMap<String, Counts>,
    plugins: HashMap<String, u32>,
    /// Owners that have somebody in line, in turn.
    turns: VecDeque<String>,
}

#[derive(Default)]
struct Counts {
    running: u32,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    claim: Claim,
    grant: oneshot::Sender<Slot>,
}

/// The right to run. Given back when it is dropped; the next in line gets it.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    claim: Claim,
}

/// A place in line. Dropping it leaves the line.
pub(crate) struct Ticket(oneshot::Receiver<Slot>);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Slot").field(&self.claim).finish()
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ticket")
    }
}

impl Ticket {
    /// Waits for the slot. `None` if the line was closed.
    pub async fn slot(self) -> Option<Slot> {
        self.0.await.ok()
    }
}

impl Admission {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// A slot now, or which bound stands against it. Whoever waits in line goes
    /// first.
    pub fn admit(self: &Arc<Self>, claim: Claim) -> Result<Slot, Full> {
        let mut state = self.lock();
        if let Some(full) = state.full(&self.bounds, &claim) {
            return Err(full);
        }
        state.take(&claim);
        Ok(Slot { admission: self.clone(), claim })
    }

    /// A place in line.
    pub fn line_up(self: &Arc<Self>, claim: Claim) -> Ticket {
        let (grant, ticket) = oneshot::channel();
        let mut state = self.lock();
        let owner = claim.owner.clone();
        let counts = state.owners.entry(owner.clone()).or_default();
        counts.waiting.push_back(Waiting { claim, grant });
        if !state.turns.contains(&owner) {
            state.turns.push_back(owner);
        }
        let granted = self.grant(&mut state);
        drop(state);
        deliver(granted);
        Ticket(ticket)
    }

    /// How many run.
    pub fn running(&self) -> u32 {
        self.lock().running
    }

    /// Hands free slots to those in line, one owner after the other. What is
    /// granted is delivered after the lock is released, because a slot that
    /// nobody takes comes straight back.
    fn grant(self: &Arc<Self>, state: &mut State) -> Vec<(oneshot::Sender<Slot>, Slot)> {
        let mut granted = Vec::new();
        let mut passed = 0;
        while passed < state.turns.len() && state.running < self.bounds.running {
            let Some(owner) = state.turns.pop_front() else { break };
            match state.next_of(&self.bounds, &owner) {
                Some(waiting) => {
                    state.take(&waiting.claim);
                    let slot = Slot { admission: self.clone(), claim: waiting.claim };
                    granted.push((waiting.grant, slot));
                    passed = 0;
                }
                None => passed += 1,
            }
            if state.owners.get(&owner).is_some_and(|counts| !counts.waiting.is_empty()) {
                state.turns.push_back(owner);
            } else {
                state.tidy(&owner);
                passed = passed.saturating_sub(1);
            }
        }
        granted
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The counts are right after every statement that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver(granted: Vec<(oneshot::Sender<Slot>, Slot)>) {
    for (grant, slot) in granted {
        // One who left the line gives the slot back by dropping it here.
        drop(grant.send(slot));
    }
}

impl State {
    fn full(&self, bounds: &Bounds, claim: &Claim) -> Option<Full> {
        if self.running >= bounds.running {
            return Some(Full::Host);
        }
        if self.owners.get(&claim.owner).is_some_and(|counts| counts.running >= bounds.running_per_principal)
        {
            return Some(Full::Principal);
        }
        let of_plugin = self.plugins.get(&claim.plugin).copied().unwrap_or_default();
        claim.plugin_limit.is_some_and(|limit| of_plugin >= limit).then_some(Full::Plugin)
    }

    fn take(&mut self, claim: &Claim) {
        self.running += 1;
        self.owners.entry(claim.owner.clone()).or_default().running += 1;
        *self.plugins.entry(claim.plugin.clone()).or_default() += 1;
    }

    fn give_back(&mut self, claim: &Claim) {
        self.running -= 1;
        if let Some(counts) = self.owners.get_mut(&claim.owner) {
            counts.running -= 1;
        }
        if let Some(count) = self.plugins.get_mut(&claim.plugin) {
            *count -= 1;
            if *count == 0 {
                self.plugins.remove(&claim.plugin);
            }
        }
        self.tidy(&claim.owner);
    }

    /// The first in this owner's line whose bounds allow it to run; those who
    /// left the line are taken out.
    fn next_of(&mut self, bounds: &Bounds, owner: &str) -> Option<Waiting> {
        let counts = self.owners.get_mut(owner)?;
        counts.waiting.retain(|waiting| !waiting.grant.is_closed());
        let counts = self.owners.get(owner)?;
        let index = counts.waiting.iter().position(|waiting| self.full(bounds, &waiting.claim).is_none())?;
        self.owners.get_mut(owner)?.waiting.remove(index)
    }

    fn tidy(&mut self, owner: &str) {
        if self.owners.get(owner).is_some_and(|counts| counts.running == 0 && counts.waiting.is_empty()) {
            self.owners.remove(owner);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        state.give_back(&self.claim);
        let granted = self.admission.grant(&mut state);
        drop(state);
        deliver(granted);
    }
}

#[cfg(test)]
mod tests;
