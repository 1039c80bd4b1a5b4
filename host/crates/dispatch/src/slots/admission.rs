//! How much runs at once. A run holds a [`Slot`]; who finds none is told so at
//! once (a plain call) or stands in line (a task). A slot is given only together with
//! the room that the machine must have for the run, so that none fails for want of
//! it later. The lines are bounded by the quota of the store, which counts what
//! waits, and by the plugins' own bounds.

use crate::Bounds;
use crate::access::permit::{AskPermit, CallPermit};
use crate::slots::work::Work;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolyard_task::{Provider, Room, SessionId, Shortage};

/// What a host told counts for so long, if nothing else is heard of it.
const SILENCE: Duration = Duration::from_secs(5);

/// Who wants a slot, and for what. There is none without a permit.
#[derive(Clone)]
pub(crate) struct Claim {
    /// The key of the owner.
    owner: Arc<str>,
    /// What shall run.
    work: Work,
}

impl Claim {
    /// For the call that this permits.
    pub fn of_call(permit: &CallPermit) -> Self {
        Self { owner: permit.share().account.clone(), work: Work::Tool(permit.tool().clone()) }
    }

    /// For a plugin that is asked for what this permits.
    pub fn of_asking(permit: &AskPermit, provider: &Arc<dyn Provider>) -> Self {
        Self { owner: permit.share().account.clone(), work: Work::Provider(provider.clone()) }
    }

    /// What shall run.
    pub const fn work(&self) -> &Work {
        &self.work
    }
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
    /// Numbers those who come into a line.
    arrivals: u64,
    /// What principals run on other hosts, as those told last.
    elsewhere: HashMap<u64, Elsewhere>,
    /// Numbers what is told to other hosts.
    rounds: u64,
    /// Whether they were told last that nothing runs here.
    told_none: bool,
}

/// The name under which other hosts know a principal. The key of an anonymous client contains its
/// session id, and anyone who has that id can speak as that client.
pub(crate) fn told_as(key: &Arc<str>) -> Arc<str> {
    match key.strip_prefix("session:") {
        None => key.clone(),
        Some(id) => format!("session-digest:{}", SessionId(id.to_owned()).digest()).into(),
    }
}

/// How much principals run, by the names of [`told_as`].
pub(crate) type Running = Vec<(Arc<str>, u32)>;

/// What principals run on another host.
struct Elsewhere {
    round: u64,
    heard: Instant,
    running: HashMap<Arc<str>, u32>,
}

#[derive(Default)]
struct Counts {
    running: u32,
    /// Who waits, by what is waited for: so that a hundred thousand who wait for one
    /// tool cost nothing when another has room.
    lanes: Vec<Lane>,
    /// Whether the owner is among the turns.
    has_turn: bool,
}

/// Those of one owner who wait for the same, in the order of their arrival.
struct Lane {
    work: Work,
    waiting: BTreeMap<u64, Waiting>,
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
pub(crate) struct Ticket {
    admission: Arc<Admission>,
    claim: Claim,
    number: u64,
    granted: oneshot::Receiver<Slot>,
}

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
    pub async fn slot(mut self) -> Option<Slot> {
        (&mut self.granted).await.ok()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let left = self.admission.lock().leave(&self.claim, self.number);
        // After the lock is released, as everything that belongs to somebody else.
        drop(left);
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
        let (grant, granted) = oneshot::channel();
        let mut state = self.lock();
        if let Some(most) = claim.work.queue()
            && state.plugins.get(claim.work.plugin()).is_some_and(|of_plugin| of_plugin.waiting >= most)
        {
            return Err(Full::Queue(most));
        }
        let number = state.arrive(Waiting { claim: claim.clone(), grant });
        let ready = self.grant(&mut state);
        drop(state);
        deliver(ready);
        Ok(Ticket { admission: self.clone(), claim, number, granted })
    }

    /// How many run.
    pub fn running(&self) -> u32 {
        self.lock().running
    }

    /// How many more could run, if nobody waits.
    pub fn spare(&self) -> u32 {
        let state = self.lock();
        if state.turns.is_empty() { self.bounds.running.saturating_sub(state.running) } else { 0 }
    }

    /// What principals run here, for the other hosts, and the number of this round of
    /// telling; nothing if they know already that nothing runs.
    pub fn round(&self) -> Option<(u64, Running)> {
        let mut state = self.lock();
        let running = state.owners.iter().filter(|(_, counts)| counts.running > 0);
        let running: Running = running.map(|(owner, counts)| (told_as(owner), counts.running)).collect();
        if std::mem::replace(&mut state.told_none, running.is_empty()) && running.is_empty() {
            return None;
        }
        state.rounds += 1;
        Some((state.rounds, running))
    }

    /// What principals run on another host, by what it told in this round. It counts until
    /// the next round, or until nothing was heard for a while.
    pub fn runs_elsewhere(self: &Arc<Self>, host: u64, round: u64, of: Running) {
        let mut state = self.lock();
        let now = Instant::now();
        let known = state.elsewhere.entry(host).or_insert_with(|| Elsewhere {
            round,
            heard: now,
            running: HashMap::new(),
        });
        if known.round != round {
            known.round = round;
            known.running.clear();
        }
        known.heard = now;
        known.running.extend(of);
        self.grant_and_deliver(state);
    }

    /// Forgets hosts that were not heard of for a while.
    pub fn forget_silent(self: &Arc<Self>) {
        let mut state = self.lock();
        let before = state.elsewhere.len();
        state.elsewhere.retain(|_, host| host.heard.elapsed() < SILENCE);
        if state.elsewhere.len() < before {
            self.grant_and_deliver(state);
        }
    }

    fn grant_and_deliver(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let granted = self.grant(&mut state);
        drop(state);
        deliver(granted);
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
            if state.goes_on(&owner) {
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

impl Lane {
    fn is_for(&self, work: &Work) -> bool {
        (self.work.plugin(), self.work.name()) == (work.plugin(), work.name())
    }
}

impl State {
    /// Room for a run of this claim, if all bounds allow it.
    fn room(&self, bounds: &Bounds, claim: &Claim) -> Result<Room, Full> {
        if self.running >= bounds.running {
            return Err(Full::Host);
        }
        if self.running_of(&claim.owner) >= bounds.running_per_principal {
            return Err(Full::Principal);
        }
        if let Some(limit) = claim.work.concurrency()
            && self.plugins.get(claim.work.plugin()).is_some_and(|of_plugin| of_plugin.running >= limit)
        {
            return Err(Full::Plugin);
        }
        claim.work.room().map_err(Full::Room)
    }

    /// What an owner runs, here and elsewhere.
    fn running_of(&self, owner: &Arc<str>) -> u32 {
        let here = self.owners.get(owner).map_or(0, |counts| counts.running);
        if self.elsewhere.is_empty() {
            return here;
        }
        let owner = told_as(owner);
        let elsewhere = self.elsewhere.values().filter_map(|host| host.running.get(&owner));
        elsewhere.fold(here, |sum, more| sum.saturating_add(*more))
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

    /// Puts somebody at the end of the line; gives the number of the place.
    fn arrive(&mut self, waiting: Waiting) -> u64 {
        self.arrivals += 1;
        let number = self.arrivals;
        let Claim { owner, work } = waiting.claim.clone();
        self.plugins.entry(work.plugin().to_owned()).or_default().waiting += 1;
        let counts = self.owners.entry(owner.clone()).or_default();
        if !std::mem::replace(&mut counts.has_turn, true) {
            self.turns.push_back(owner);
        }
        match counts.lanes.iter_mut().find(|lane| lane.is_for(&work)) {
            Some(lane) => drop(lane.waiting.insert(number, waiting)),
            None => counts.lanes.push(Lane { work, waiting: BTreeMap::from([(number, waiting)]) }),
        }
        number
    }

    /// Takes somebody out of the line, if it is still in it.
    fn leave(&mut self, claim: &Claim, number: u64) -> Option<Waiting> {
        let counts = self.owners.get_mut(&claim.owner)?;
        let index = counts.lanes.iter().position(|lane| lane.is_for(&claim.work))?;
        let left = counts.lanes[index].waiting.remove(&number)?;
        if counts.lanes[index].waiting.is_empty() {
            counts.lanes.swap_remove(index);
        }
        if let Some(of_plugin) = self.plugins.get_mut(claim.work.plugin()) {
            of_plugin.waiting -= 1;
        }
        self.tidy(claim);
        Some(left)
    }

    /// The first in this owner's line whose bounds allow it to run, and its room.
    /// Whoever waits for the same as one who has no room has none either.
    fn next_of(&mut self, bounds: &Bounds, owner: &str) -> Option<(Waiting, Room)> {
        let counts = self.owners.get(owner)?;
        let first = |lane: &Lane| lane.waiting.first_key_value().map(|(number, _)| *number);
        let mut firsts: Vec<(u64, &Lane)> =
            counts.lanes.iter().filter_map(|lane| Some((first(lane)?, lane))).collect();
        firsts.sort_unstable_by_key(|(number, _)| *number);
        let (number, claim, room) = firsts.into_iter().find_map(|(number, lane)| {
            let claim = &lane.waiting.get(&number)?.claim;
            Some((number, claim.clone(), self.room(bounds, claim).ok()?))
        })?;
        Some((self.leave(&claim, number)?, room))
    }

    /// Whether an owner whose turn it was has another.
    fn goes_on(&mut self, owner: &str) -> bool {
        let Some(counts) = self.owners.get_mut(owner) else { return false };
        counts.has_turn = !counts.lanes.is_empty();
        counts.has_turn
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
        // Who has a turn is forgotten when it comes round, and never has two.
        if self
            .owners
            .get(owner)
            .is_some_and(|counts| counts.running == 0 && counts.lanes.is_empty() && !counts.has_turn)
        {
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
