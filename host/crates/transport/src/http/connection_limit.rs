//! The limit on open connections. At the limit, the connection that has been idle longest is closed for a new
//! one that sends a request. If none is idle, a principal that has more than its share loses its oldest one.
//!
//! This limit counts only connections; other limits bound the memory and the time of a request.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use toolyard_dispatch::{Held, RateKey, Shares};

/// A connection that has been idle this long may be closed. A shorter time would close connections whose
/// clients are about to send a request.
const IDLE: Duration = Duration::from_secs(1);
/// The share of a principal at the limit: one of so many connections, and at least [`MIN_SHARE`].
const SHARE: usize = 8;
const MIN_SHARE: usize = 32;
/// The `idle_since` of a connection that is serving a request.
const BUSY: u64 = u64::MAX;

/// The slots of all connections.
pub(super) struct ConnectionLimit {
    began: Instant,
    most: usize,
    permits: Arc<Semaphore>,
    /// The connections by the numbers of their slots, the oldest first.
    taken: Mutex<BTreeMap<u64, Arc<SlotHolder>>>,
    next: AtomicU64,
    /// The connections of each principal.
    shares: Arc<Shares>,
    /// The number of connections that wait for a slot.
    standing: AtomicU32,
}

/// A connection that has a slot.
struct SlotHolder {
    activity: Arc<ConnectionActivity>,
    leave: Notify,
    evicted: Notify,
    /// Counts for the principal of its latest request, once that is known.
    held: Mutex<Option<Held>>,
}

/// The activity of one connection. It is shared with the connection's stream, which ends the connection if it
/// must make room and the client has sent nothing.
#[derive(Debug, Default)]
pub(super) struct ConnectionActivity {
    /// Milliseconds since the limit was created, or [`BUSY`].
    idle_since: AtomicU64,
    /// Whether bytes of a request were read that has not begun.
    has_spoken: AtomicBool,
    leaving: AtomicU8,
}

/// The connection must leave once its client is sending nothing.
const LEAVES: u8 = 1;
/// The connection must leave even while its client is sending.
const LEAVES_AT_ONCE: u8 = 2;

impl ConnectionActivity {
    /// Marks the start of a request.
    pub fn begin(&self) {
        self.idle_since.store(BUSY, Ordering::Relaxed);
        self.has_spoken.store(false, Ordering::Relaxed);
    }

    /// Marks the end of the request.
    pub fn end(&self, now: u64) {
        self.has_spoken.store(false, Ordering::Relaxed);
        self.idle_since.store(now, Ordering::Relaxed);
    }

    /// Records that bytes were read.
    pub fn mark_spoken(&self) {
        self.has_spoken.store(true, Ordering::Relaxed);
    }

    /// Makes the connection leave once nothing is left to read.
    pub fn leave(&self) {
        self.leaving.fetch_max(LEAVES, Ordering::Relaxed);
    }

    /// Makes the connection leave, unless it is serving a request.
    pub fn leave_at_once(&self) {
        self.leaving.fetch_max(LEAVES_AT_ONCE, Ordering::Relaxed);
    }

    /// Whether it must make room.
    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) > 0
    }

    /// Whether it may end now if nothing is left to read.
    pub fn may_end(&self) -> bool {
        let leaving = self.leaving.load(Ordering::Relaxed);
        let waits =
            leaving == LEAVES_AT_ONCE || (leaving == LEAVES && !self.has_spoken.load(Ordering::Relaxed));
        waits && !self.is_busy()
    }

    fn is_busy(&self) -> bool {
        self.idle_since.load(Ordering::Relaxed) == BUSY
    }
}

/// A slot: a place among the connections. Dropping it frees the place.
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    number: u64,
    holder: Arc<SlotHolder>,
    _permit: OwnedSemaphorePermit,
}

/// Counts a waiting connection until it is dropped.
pub(super) struct SlotWaiter<'a>(&'a ConnectionLimit);

impl ConnectionLimit {
    pub fn new(most: usize, shares: Arc<Shares>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            most,
            permits: Arc::new(Semaphore::new(most)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            shares,
            standing: AtomicU32::new(0),
        })
    }

    /// A free slot, if there is one.
    pub fn free(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(self.slot(permit))
    }

    /// The next free slot; the connection that has been idle longest makes room.
    pub async fn next(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            self.ask_one_to_leave();
            // Checks again: a busy connection may have become idle.
            if let Ok(permit) = tokio::time::timeout(IDLE / 4, self.permits.clone().acquire_owned()).await {
                return self.slot(permit.expect("the semaphore is never closed"));
            }
        }
    }

    /// Counts a waiting connection, so that connections free their slots right after their answers.
    pub fn stand(&self) -> SlotWaiter<'_> {
        self.standing.fetch_add(1, Ordering::Relaxed);
        SlotWaiter(self)
    }

    /// Whether a connection waits for a slot.
    pub fn is_crowded(&self) -> bool {
        self.standing.load(Ordering::Relaxed) > 0
    }

    fn slot(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> ConnectionSlot {
        let idle_since = AtomicU64::new(self.now());
        let holder = Arc::new(SlotHolder {
            activity: Arc::new(ConnectionActivity { idle_since, ..ConnectionActivity::default() }),
            leave: Notify::new(),
            evicted: Notify::new(),
            held: Mutex::default(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.taken.lock().insert(number, holder.clone());
        ConnectionSlot { limit: self.clone(), number, holder, _permit: permit }
    }

    fn ask_one_to_leave(&self) {
        // No connection can have been idle for longer than the host has run.
        let idle = u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX);
        let Some(latest) = self.now().checked_sub(idle) else { return };
        let mut taken = self.taken.lock();
        let longest = taken
            .iter()
            .map(|(number, holder)| (holder.activity.idle_since.load(Ordering::Relaxed), *number))
            .filter(|(since, _)| *since <= latest)
            .min();
        // Each connection is asked once; the next waiter finds another.
        if let Some((_, number)) = longest {
            if let Some(holder) = taken.remove(&number) {
                holder.leave.notify_one();
            }
        } else if let Some((key, _)) = self.shares.largest(1).pop().filter(|(_, count)| *count > self.share())
        {
            evict_oldest(&mut taken, &key);
        }
    }

    /// The connections of a principal that has no more than others.
    fn share(&self) -> usize {
        (self.most / SHARE).max(MIN_SHARE)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }
}

/// Ends the oldest connection of this principal.
fn evict_oldest(taken: &mut BTreeMap<u64, Arc<SlotHolder>>, key: &RateKey) {
    let is_of = |holder: &SlotHolder| holder.held.lock().as_ref().is_some_and(|held| held.key() == key);
    let oldest = taken.iter().find(|(_, holder)| is_of(holder)).map(|(number, _)| *number);
    if let Some(holder) = oldest.and_then(|number| taken.remove(&number)) {
        // The next one that waits finds another.
        *holder.held.lock() = None;
        holder.evicted.notify_one();
    }
}

impl ConnectionSlot {
    /// The connection serves a request of this principal.
    pub fn serves(&self, key: &RateKey) {
        let mut held = self.holder.held.lock();
        if held.as_ref().is_none_or(|held| held.key() != key) {
            let mut counted = self.limit.shares.none(key.clone());
            // It only counts.
            let _ = counted.grow_to(1);
            *held = Some(counted);
        }
    }

    /// Waits until the connection must end at once, because its principal has more than its share.
    pub async fn evicted(&self) {
        self.holder.evicted.notified().await;
    }

    /// Waits until the connection must make room.
    pub async fn leave(&self) {
        self.holder.leave.notified().await;
    }

    /// Whether a request is running.
    pub fn is_busy(&self) -> bool {
        self.activity().is_busy()
    }

    /// The activity of its connection.
    pub fn activity(&self) -> &Arc<ConnectionActivity> {
        &self.holder.activity
    }

    /// Marks the start of a request. HTTP/1.1 serves one at a time on a connection.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.activity().begin();
        Busy(self.clone())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limit.taken.lock().remove(&self.number);
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        self.0.standing.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Marks the connection as busy until it is dropped.
pub(super) struct Busy(Arc<ConnectionSlot>);

impl Busy {
    /// The request is of this principal.
    pub fn serves(&self, key: &RateKey) {
        self.0.serves(key);
    }

    /// Whether another connection wants the slot, or this one must end anyway.
    pub fn is_wanted(&self) -> bool {
        self.0.limit.is_crowded() || self.0.activity().is_leaving()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.activity().end(self.0.limit.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    /// Makes it look as if it had been idle for a long time.
    fn aged(slot: &ConnectionSlot) {
        slot.activity().end(0);
    }

    fn limit(most: usize) -> Arc<ConnectionLimit> {
        let mut limit = ConnectionLimit::new(most, Shares::connections());
        let inner = Arc::get_mut(&mut limit).expect("not shared yet");
        inner.began = inner.began.checked_sub(IDLE * 10).expect("the machine is up for longer");
        limit
    }

    #[test]
    fn who_does_nothing_for_longest_gives_way_and_who_is_served_does_not() {
        let limit = limit(3);
        let busy = Arc::new(limit.free().expect("free"));
        let request = busy.busy();
        let (idle, new) = (limit.free().expect("free"), limit.free().expect("free"));
        assert!(limit.free().is_none());
        aged(&idle);
        limit.ask_one_to_leave();
        assert!(idle.leave().now_or_never().is_some(), "it is asked to leave");
        limit.ask_one_to_leave();
        assert!(busy.leave().now_or_never().is_none() && new.leave().now_or_never().is_none());
        assert!(busy.is_busy());
        drop(request);
        assert!(!busy.is_busy());
        drop(idle);
        assert!(limit.free().is_some());
    }

    #[test]
    fn h_8_who_has_more_than_a_share_gives_way_even_while_it_is_served() {
        let limit = limit(64);
        let key = |last| RateKey::Peer(std::net::IpAddr::from([192, 0, 2, last]));
        let slots: Vec<_> = (0..64).map(|_| Arc::new(limit.free().expect("free"))).collect();
        let _busy: Vec<_> = slots.iter().map(|slot| slot.busy()).collect();
        (0..).zip(&slots).for_each(|(place, slot)| slot.serves(&key(if place % 8 < 5 { 1 } else { 2 })));
        let evicted = |slot: &Arc<ConnectionSlot>| slot.evicted().now_or_never().is_some();
        for _ in 0..8 {
            limit.ask_one_to_leave();
        }
        let places: Vec<_> = (0..64).filter(|place| evicted(&slots[*place])).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 8, 9, 10], "the oldest of the one with 40");
        limit.ask_one_to_leave();
        assert!(!slots.iter().any(evicted), "32 are a share");
    }

    #[test]
    fn each_who_waits_asks_another_who_has_been_idle_for_a_second() {
        // A limit that is younger than a second has no connection that was idle for so long.
        for (limit, has_been) in [(limit(2), true), (ConnectionLimit::new(2, Shares::connections()), false)] {
            let both = [limit.free().expect("free"), limit.free().expect("free")];
            both.iter().for_each(aged);
            limit.ask_one_to_leave();
            limit.ask_one_to_leave();
            assert!(both.iter().all(|slot| slot.leave().now_or_never().is_some() == has_been));
        }
    }

    #[test]
    fn it_is_crowded_while_somebody_waits() {
        let limit = limit(1);
        let slot = Arc::new(limit.free().expect("free"));
        let request = slot.busy();
        assert!(!request.is_wanted());
        let standing = limit.stand();
        assert!(request.is_wanted());
        drop(standing);
        assert!(!limit.is_crowded());
    }
}
