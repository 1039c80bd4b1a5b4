//! Admission: how many runs there are at once. A run holds a [`Slot`]. Without a free slot, a plain
//! call is refused at once, and a task is queued. A slot comes with a reservation of the machine's
//! resources, so that no run fails for lack of them later. The queues are bounded by the quota of
//! the store, which counts waiting tasks, and by the plugins' own bounds.

use crate::access::permit::{AskPermit, CallPermit};
use crate::settings::Bounds;
use crate::slots::work::RunTarget;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolyard_task::{Provider, Reservation, ReservationError, SessionId, Task};

/// How long the counts of another host are valid without news from it.
const SILENCE: Duration = Duration::from_secs(5);

/// A request for a slot: the owner, and what to run. Only a permit makes one.
#[derive(Clone)]
pub(crate) struct SlotRequest {
    /// The key of the owner.
    owner: Arc<str>,
    /// The target of the run.
    work: RunTarget,
}

impl SlotRequest {
    /// For the call that this permits.
    ///
    /// # Errors
    /// If it needs an approval first.
    pub fn of_call(permit: &CallPermit) -> Result<Self, UnapprovedRequest> {
        let owner = permit.share().account.clone();
        let request = Self { owner, work: RunTarget::Tool(permit.tool().clone()) };
        if permit.unapproved().is_some() { Err(UnapprovedRequest(request)) } else { Ok(request) }
    }

    /// For a plugin that is asked for what this permits.
    pub fn of_asking(permit: &AskPermit, provider: &Arc<dyn Provider>) -> Self {
        Self { owner: permit.share().account.clone(), work: RunTarget::Provider(provider.clone()) }
    }

    /// The target of the run.
    pub const fn work(&self) -> &RunTarget {
        &self.work
    }
}

/// The request of a call that needs an approval. Only the approval of its task makes it a request for a slot.
pub(crate) struct UnapprovedRequest(SlotRequest);

impl UnapprovedRequest {
    /// The request for a slot.
    ///
    /// # Errors
    /// The same, if this call is not approved.
    pub fn approved(self, task: &Task) -> Result<SlotRequest, Self> {
        let is_approved =
            task.approval.as_ref().is_some_and(|approval| !approval.is_open() && approval.is_of(task));
        if is_approved { Ok(self.0) } else { Err(self) }
    }
}

/// The bound that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Host,
    Principal,
    Plugin,
    /// The queue of the plugin is full.
    Queue(u32),
    /// The machine lacks the resources that the run needs.
    Reservation(ReservationError),
}

impl LimitReached {
    /// The setting of this limit.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Host => "calls.running",
            Self::Principal => "calls.running-per-principal",
            Self::Plugin => "limits.concurrency",
            Self::Queue(_) => "limits.queue",
            Self::Reservation(shortage) => shortage.setting(),
        }
    }
}

/// Counts the runs.
pub(crate) struct Admission {
    bounds: Bounds,
    state: Mutex<AdmissionState>,
}

#[derive(Default)]
struct AdmissionState {
    running: u32,
    owners: HashMap<Arc<str>, OwnerCounts>,
    /// By name. A plugin without runs stays: there are no more names than the plugin folder has had
    /// files, and its next call needs no new entry.
    plugins: HashMap<String, PluginCounts>,
    /// Owners with queued requests, in turn.
    turns: VecDeque<Arc<str>>,
    /// The number of the last queued request.
    arrivals: u64,
    /// The runs of principals on other hosts, as last received.
    elsewhere: HashMap<u64, RemoteRuns>,
    /// The number of the last report to other hosts.
    rounds: u64,
    /// Whether the last report said that nothing runs here.
    told_none: bool,
}

/// The name under which other hosts know a principal. The key of an anonymous client contains its
/// session id, and anyone who has that id can speak as that client.
pub(crate) fn shared_name(key: &Arc<str>) -> Arc<str> {
    match key.strip_prefix("session:") {
        None => key.clone(),
        Some(id) => format!("session-digest:{}", SessionId(id.into()).digest()).into(),
    }
}

/// How many runs principals have, by the names of [`shared_name`].
pub(crate) type RunCounts = Vec<(Arc<str>, u32)>;

/// The runs of principals on another host.
struct RemoteRuns {
    round: u64,
    heard: Instant,
    running: HashMap<Arc<str>, u32>,
}

#[derive(Default)]
struct OwnerCounts {
    running: u32,
    /// Queued requests, by target: a hundred thousand requests for one tool cost nothing when
    /// another tool has room.
    lanes: Vec<Lane>,
    /// Whether the owner is among the turns.
    has_turn: bool,
}

/// The requests of one owner for the same target, in the order of their arrival.
struct Lane {
    work: RunTarget,
    waiting: BTreeMap<u64, QueuedRequest>,
}

#[derive(Default)]
struct PluginCounts {
    running: u32,
    waiting: u32,
}

struct QueuedRequest {
    request: SlotRequest,
    grant: oneshot::Sender<Slot>,
}

/// The right to run. Dropping it returns it; the next request in the queue gets it.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    request: SlotRequest,
    reservation: Option<Reservation>,
}

/// A place in the queue. Dropping it leaves the queue.
pub(crate) struct PendingSlot {
    admission: Arc<Admission>,
    request: SlotRequest,
    number: u64,
    granted: oneshot::Receiver<Slot>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("owner", &self.request.owner)
            .field("of", &self.request.work.name())
            .finish()
    }
}

impl std::fmt::Debug for PendingSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ticket")
    }
}

impl Slot {
    /// The reservation of the run. It must be dropped before the slot is.
    pub fn take_reservation(&mut self) -> Reservation {
        self.reservation.take().unwrap_or(Reservation::UNBOUNDED)
    }
}

impl PendingSlot {
    /// Waits for the slot. `None` if the queue was closed.
    pub async fn slot(mut self) -> Option<Slot> {
        (&mut self.granted).await.ok()
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let left = self.admission.state.lock().leave(&self.request, self.number);
        // Outside the lock: dropping another component's value may do anything.
        drop(left);
    }
}

impl Admission {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// A slot now, or the limit that forbids it. Queued requests go first.
    pub fn admit(self: &Arc<Self>, request: SlotRequest) -> Result<Slot, LimitReached> {
        let mut state = self.state.lock();
        let reservation = state.reserve(&self.bounds, &request)?;
        state.take(&request);
        drop(state);
        Ok(Slot { admission: self.clone(), request, reservation: Some(reservation) })
    }

    /// A place in the queue, or the limit that forbids it.
    pub fn enqueue(self: &Arc<Self>, request: SlotRequest) -> Result<PendingSlot, LimitReached> {
        let (grant, granted) = oneshot::channel();
        let mut state = self.state.lock();
        if let Some(most) = request.work.queue()
            && state.plugins.get(request.work.plugin()).is_some_and(|of_plugin| of_plugin.waiting >= most)
        {
            return Err(LimitReached::Queue(most));
        }
        let number = state.arrive(QueuedRequest { request: request.clone(), grant });
        self.grant(state);
        Ok(PendingSlot { admission: self.clone(), request, number, granted })
    }

    /// How many run.
    pub fn running(&self) -> u32 {
        self.state.lock().running
    }

    /// How many more runs the principal of this account may have.
    pub fn free_of_account(&self, account: &Arc<str>) -> u32 {
        self.bounds.running_per_principal.saturating_sub(self.running_of_account(account))
    }

    /// How many runs there are on this account.
    pub fn running_of_account(&self, account: &Arc<str>) -> u32 {
        self.state.lock().running_of(account)
    }

    /// The number of free slots; zero while requests are queued.
    pub fn spare(&self) -> u32 {
        let state = self.state.lock();
        if state.turns.is_empty() { self.bounds.running.saturating_sub(state.running) } else { 0 }
    }

    /// Whether requests wait for slots.
    pub fn has_queue(&self) -> bool {
        !self.state.lock().turns.is_empty()
    }

    /// The number of free slots, even while requests are queued that another limit holds up.
    pub fn free(&self) -> u32 {
        self.bounds.running.saturating_sub(self.state.lock().running)
    }

    /// The runs of principals here, for the other hosts, and the number of this report; `None` if
    /// they know already that nothing runs.
    pub fn round(&self) -> Option<(u64, RunCounts)> {
        let mut state = self.state.lock();
        let running = state.owners.iter().filter(|(_, counts)| counts.running > 0);
        let running: RunCounts =
            running.map(|(owner, counts)| (shared_name(owner), counts.running)).collect();
        if std::mem::replace(&mut state.told_none, running.is_empty()) && running.is_empty() {
            return None;
        }
        state.rounds += 1;
        Some((state.rounds, running))
    }

    /// Sets the runs of principals on another host, from a part of its report of this number. They
    /// count until the next report, or until the host is silent for a while.
    pub fn set_remote_runs(self: &Arc<Self>, host: u64, round: u64, of: RunCounts) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let known = state.elsewhere.entry(host).or_insert_with(|| RemoteRuns {
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
        self.grant(state);
    }

    /// Forgets hosts that were not heard of for a while.
    pub fn forget_silent(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let before = state.elsewhere.len();
        state.elsewhere.retain(|_, host| host.heard.elapsed() < SILENCE);
        if state.elsewhere.len() < before {
            self.grant(state);
        }
    }

    /// Grants free slots to queued requests, one owner after the other. The slots are delivered
    /// after the lock is released, because a slot that nothing takes comes back at once.
    fn grant(self: &Arc<Self>, mut state: MutexGuard<'_, AdmissionState>) {
        let mut granted = Vec::new();
        let mut passed = 0;
        while passed < state.turns.len() && state.running < self.bounds.running {
            let Some(owner) = state.turns.pop_front() else { break };
            match state.next_of(&self.bounds, &owner) {
                Some((QueuedRequest { request, grant }, reservation)) => {
                    state.take(&request);
                    let (admission, reservation) = (self.clone(), Some(reservation));
                    granted.push((grant, Slot { admission, request, reservation }));
                    passed = 0;
                }
                None => passed += 1,
            }
            if state.update_turn(&owner) {
                state.turns.push_back(owner);
            } else {
                state.forget(&owner);
                passed = passed.saturating_sub(1);
            }
        }
        drop(state);
        for (grant, slot) in granted {
            // A request that has left the queue returns the slot by dropping it here.
            drop(grant.send(slot));
        }
    }
}

impl Lane {
    fn is_for(&self, work: &RunTarget) -> bool {
        (self.work.plugin(), self.work.name()) == (work.plugin(), work.name())
    }
}

impl AdmissionState {
    /// The reservation for a run of this request, if all limits allow it.
    fn reserve(&self, bounds: &Bounds, request: &SlotRequest) -> Result<Reservation, LimitReached> {
        if self.running >= bounds.running {
            return Err(LimitReached::Host);
        }
        if self.running_of(&request.owner) >= bounds.running_per_principal {
            return Err(LimitReached::Principal);
        }
        if let Some(limit) = request.work.concurrency()
            && self.plugins.get(request.work.plugin()).is_some_and(|of_plugin| of_plugin.running >= limit)
        {
            return Err(LimitReached::Plugin);
        }
        request.work.reserve().map_err(LimitReached::Reservation)
    }

    /// The number of an owner's runs, here and elsewhere.
    fn running_of(&self, owner: &Arc<str>) -> u32 {
        let here = self.owners.get(owner).map_or(0, |counts| counts.running);
        if self.elsewhere.is_empty() {
            return here;
        }
        let owner = shared_name(owner);
        let elsewhere = self.elsewhere.values().filter_map(|host| host.running.get(&owner));
        elsewhere.fold(here, |sum, more| sum.saturating_add(*more))
    }

    fn take(&mut self, request: &SlotRequest) {
        self.running += 1;
        self.owners.entry(request.owner.clone()).or_default().running += 1;
        // Most plugins are there already; those need no copy of their name.
        match self.plugins.get_mut(request.work.plugin()) {
            Some(of_plugin) => of_plugin.running += 1,
            None => {
                let of_plugin = PluginCounts { running: 1, waiting: 0 };
                self.plugins.insert(request.work.plugin().to_owned(), of_plugin);
            }
        }
    }

    fn give_back(&mut self, request: &SlotRequest) {
        self.running -= 1;
        if let Some(of_plugin) = self.plugins.get_mut(request.work.plugin()) {
            of_plugin.running -= 1;
        }
        if let Some(counts) = self.owners.get_mut(&request.owner) {
            counts.running -= 1;
            if counts.is_idle() {
                self.owners.remove(&request.owner);
            }
        }
    }

    /// Appends a request to its queue; returns the number of its place.
    fn arrive(&mut self, waiting: QueuedRequest) -> u64 {
        self.arrivals += 1;
        let number = self.arrivals;
        let SlotRequest { owner, work } = waiting.request.clone();
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

    /// Removes a request from its queue, if it is still there.
    fn leave(&mut self, request: &SlotRequest, number: u64) -> Option<QueuedRequest> {
        let counts = self.owners.get_mut(&request.owner)?;
        let index = counts.lanes.iter().position(|lane| lane.is_for(&request.work))?;
        let left = counts.lanes[index].waiting.remove(&number)?;
        if counts.lanes[index].waiting.is_empty() {
            counts.lanes.swap_remove(index);
        }
        if counts.is_idle() {
            self.owners.remove(&request.owner);
        }
        if let Some(of_plugin) = self.plugins.get_mut(request.work.plugin()) {
            of_plugin.waiting -= 1;
        }
        Some(left)
    }

    /// The first request of this owner whose limits allow it to run, and its reservation. If the
    /// first request for a target has no room, the others for it have none either.
    fn next_of(&mut self, bounds: &Bounds, owner: &str) -> Option<(QueuedRequest, Reservation)> {
        let counts = self.owners.get(owner)?;
        let first = |lane: &Lane| lane.waiting.first_key_value().map(|(number, _)| *number);
        let mut firsts: Vec<(u64, &Lane)> =
            counts.lanes.iter().filter_map(|lane| Some((first(lane)?, lane))).collect();
        firsts.sort_unstable_by_key(|(number, _)| *number);
        let (number, request, reservation) = firsts.into_iter().find_map(|(number, lane)| {
            let request = &lane.waiting.get(&number)?.request;
            Some((number, request.clone(), self.reserve(bounds, request).ok()?))
        })?;
        Some((self.leave(&request, number)?, reservation))
    }

    /// Whether an owner whose turn it was has another.
    fn update_turn(&mut self, owner: &str) -> bool {
        let Some(counts) = self.owners.get_mut(owner) else { return false };
        counts.has_turn = !counts.lanes.is_empty();
        counts.has_turn
    }

    fn forget(&mut self, owner: &str) {
        if self.owners.get(owner).is_some_and(OwnerCounts::is_idle) {
            self.owners.remove(owner);
        }
    }
}

impl OwnerCounts {
    /// Whether it can be forgotten. An owner with a turn is forgotten when its turn comes, so that it
    /// never has two.
    const fn is_idle(&self) -> bool {
        self.running == 0 && self.lanes.is_empty() && !self.has_turn
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The next request may need this reservation.
        self.reservation = None;
        let mut state = self.admission.state.lock();
        state.give_back(&self.request);
        self.admission.grant(state);
    }
}

#[cfg(test)]
pub(crate) mod tests;
