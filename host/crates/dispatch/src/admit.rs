//! How much runs at once. A run holds a [`Slot`]; who finds none is told so at
//! once (a plain call) or stands in line (a task). A slot is given only together with
//! the room that the machine must have for the run, so that none fails for want of
//! it later. The lines are bounded by the quota of the store, which counts what
//! waits, and by the plugins' own bounds.

use crate::runs::Work;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use toolyard_task::{Room, Shortage};

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
#[derive(Clone)]
pub(crate) struct Claim {
    /// The key of the owner.
    pub owner: Arc<str>,
    /// What shall run.
    pub work: Work,
}

/// Which bound was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Host,
    Principal,
    Plugin,
    /// As many tasks of the plugin wait as may.
    Queue(u32),
    /// The machine has no room.
    Room(Shortage),
}

/// Counts the runs.
pub(crate) struct Admission {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: u32,
    owners: HashMap<Arc<str>, Counts>,
    plugins: HashMap<String, OfPlugin>,
    /// Owners that have somebody in line, in turn.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Counts {
    running: u32,
    waiting: VecDeque<Waiting>,
}

#[derive(Default)]
struct OfPlugin {
    running: u32,
    waiting: u32,
}

struct Waiting {
    claim: Claim,
    grant: oneshot::Sender<Slot>,
}

/// The right to run. Given back when it is dropped; the next in line gets it.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    claim: Claim,
    room: Option<Room>,
}

/// A place in line. Dropping it leaves the line.
pub(crate) struct Ticket(oneshot::Receiver<Slot>);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("owner", &self.claim.owner).field("of", &self.claim.work.name()).finish()
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ticket")
    }
}

impl Slot {
    /// The room for the run. It must be gone when the slot is given back.
    pub fn room(&mut self) -> Room {
        self.room.take().unwrap_or(Room::UNBOUNDED)
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
        let room = state.room(&self.bounds, &claim)?;
        state.take(&claim);
        drop(state);
        Ok(Slot { admission: self.clone(), claim, room: Some(room) })
    }

    /// A place in line, or which bound stands against it.
    pub fn line_up(self: &Arc<Self>, claim: Claim) -> Result<Ticket, Full> {
        let (grant, ticket) = oneshot::channel();
        let mut state = self.lock();
        let owner = claim.owner.clone();
        if let Some(most) = claim.work.queue()
            && state.queue_is_full(&claim, most)
        {
            return Err(Full::Queue(most));
        }
        state.plugins.entry(claim.work.plugin().to_owned()).or_default().waiting += 1;
        let counts = state.owners.entry(owner.clone()).or_default();
        counts.waiting.push_back(Waiting { claim, grant });
        if !state.turns.contains(&owner) {
            state.turns.push_back(owner);
        }
        let granted = self.grant(&mut state);
        drop(state);
        deliver(granted);
        Ok(Ticket(ticket))
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
                Some((Waiting { claim, grant }, room)) => {
                    state.take(&claim);
                    granted.push((grant, Slot { admission: self.clone(), claim, room: Some(room) }));
                    passed = 0;
                }
                None => passed += 1,
            }
            if state.owners.get(&owner).is_some_and(|counts| !counts.waiting.is_empty()) {
                state.turns.push_back(owner);
            } else {
                state.forget(&owner);
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
    /// Room for a run of this claim, if all bounds allow it.
    fn room(&self, bounds: &Bounds, claim: &Claim) -> Result<Room, Full> {
        if self.running >= bounds.running {
            return Err(Full::Host);
        }
        if self.owners.get(&claim.owner).is_some_and(|counts| counts.running >= bounds.running_per_principal)
        {
            return Err(Full::Principal);
        }
        if let Some(limit) = claim.work.concurrency()
            && self.plugins.get(claim.work.plugin()).is_some_and(|of_plugin| of_plugin.running >= limit)
        {
            return Err(Full::Plugin);
        }
        claim.work.room().map_err(Full::Room)
    }

    fn take(&mut self, claim: &Claim) {
        self.running += 1;
        self.owners.entry(claim.owner.clone()).or_default().running += 1;
        // Most plugins are there already; those need no copy of their name.
        match self.plugins.get_mut(claim.work.plugin()) {
            Some(of_plugin) => of_plugin.running += 1,
            None => {
                let of_plugin = OfPlugin { running: 1, waiting: 0 };
                self.plugins.insert(claim.work.plugin().to_owned(), of_plugin);
            }
        }
    }

    fn give_back(&mut self, claim: &Claim) {
        self.running -= 1;
        if let Some(counts) = self.owners.get_mut(&claim.owner) {
            counts.running -= 1;
        }
        if let Some(of_plugin) = self.plugins.get_mut(claim.work.plugin()) {
            of_plugin.running -= 1;
        }
        self.tidy(claim);
    }

    /// Whether as many tasks of the claim's plugin wait as may. Those who left the
    /// line do not count.
    fn queue_is_full(&mut self, claim: &Claim, most: u32) -> bool {
        let waiting =
            |state: &Self| state.plugins.get(claim.work.plugin()).map_or(0, |plugin| plugin.waiting);
        if waiting(self) >= most {
            let owners: Vec<Arc<str>> = self.owners.keys().cloned().collect();
            owners.iter().for_each(|owner| self.clear_out(owner));
        }
        waiting(self) >= most
    }

    /// Takes those out of an owner's line who left it.
    fn clear_out(&mut self, owner: &str) {
        let Some(counts) = self.owners.get_mut(owner) else { return };
        let (gone, waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut counts.waiting).into_iter().partition(|waiting| waiting.grant.is_closed());
        counts.waiting = waiting;
        for Waiting { claim, .. } in &gone {
            self.left(claim);
        }
    }

    /// The first in this owner's line whose bounds allow it to run, and its room;
    /// those who left the line are taken out.
    fn next_of(&mut self, bounds: &Bounds, owner: &str) -> Option<(Waiting, Room)> {
        self.clear_out(owner);
        let counts = self.owners.get(owner)?;
        let (index, room) = counts.waiting.iter().enumerate().find_map(|(index, waiting)| {
            let room = self.room(bounds, &waiting.claim).ok()?;
            Some((index, room))
        })?;
        let waiting = self.owners.get_mut(owner)?.waiting.remove(index)?;
        self.left(&waiting.claim);
        Some((waiting, room))
    }

    /// Somebody left the line.
    fn left(&mut self, claim: &Claim) {
        if let Some(of_plugin) = self.plugins.get_mut(claim.work.plugin()) {
            of_plugin.waiting -= 1;
        }
    }

    fn tidy(&mut self, claim: &Claim) {
        let plugin = claim.work.plugin();
        if self.plugins.get(plugin).is_some_and(|of_plugin| of_plugin.running == 0 && of_plugin.waiting == 0)
        {
            self.plugins.remove(plugin);
        }
        self.forget(&claim.owner);
    }

    fn forget(&mut self, owner: &str) {
        if self.owners.get(owner).is_some_and(|counts| counts.running == 0 && counts.waiting.is_empty()) {
            self.owners.remove(owner);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What the next in line needs may be in it.
        self.room = None;
        let mut state = self.admission.lock();
        state.give_back(&self.claim);
        let granted = self.admission.grant(&mut state);
        drop(state);
        deliver(granted);
    }
}

#[cfg(test)]
mod tests;
