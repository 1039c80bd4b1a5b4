//! Shares of the things that the host holds for its clients: large messages, received or to be sent, and requests that wait for a task. Each
//! principal has a share, and there is a bound for all. A message counts until no part of it is held: the arguments of a
//! call for as long as the call, an answer until it is written.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use toolyard_dispatch::{Fault, RETRY_AFTER_MS, RateKey};

/// Messages up to this size (bytes) are not counted: the limits on connections and requests bound them, and
/// nearly every call has one.
pub(crate) const UNCOUNTED: usize = 64 << 10;
/// So many times the requests of one session may those of one principal be that wait for tasks.
const SESSIONS: usize = 2;

/// One kind of thing that the host holds.
pub struct Shares {
    /// Completes "take all the room that is set for them".
    what: &'static str,
    /// The settings of the bound for all, and of the share.
    limits: [&'static str; 2],
    most: usize,
    share: usize,
    state: Mutex<SharesState>,
}

#[derive(Default)]
struct SharesState {
    amount: usize,
    principals: HashMap<RateKey, usize>,
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    what: &'static str,
    limit: &'static str,
}

impl NoRoom {
    /// The fault that its sender gets.
    pub(crate) fn fault(self) -> Fault {
        let what = format!("{} take all the room that is set for them", self.what);
        Fault::Busy { what, limit: self.limit, retry_after_ms: RETRY_AFTER_MS }
    }
}

/// An amount that counts for a principal until this is dropped.
pub(crate) struct Held {
    shares: Arc<Shares>,
    key: RateKey,
    amount: AtomicUsize,
}

impl Shares {
    /// The bytes of large messages: `most` in all, and a `share` for one principal (`wire.body-bytes`,
    /// `wire.body-bytes-per-principal`).
    #[must_use]
    pub fn messages(most: usize, share: usize) -> Arc<Self> {
        let limits = ["wire.body-bytes", "wire.body-bytes-per-principal"];
        Self::new("large messages that are still under way", limits, most, share)
    }

    /// The requests that wait for the result of a task, with a connection or without. `per_session` is the bound of one
    /// session (`wire.requests-per-session`).
    #[must_use]
    pub fn waiting_requests(per_session: usize) -> Arc<Self> {
        let limits = ["wire.requests-per-session"; 2];
        Self::new("requests that wait for tasks", limits, usize::MAX, per_session.saturating_mul(SESSIONS))
    }

    fn new(what: &'static str, limits: [&'static str; 2], most: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { what, limits, most, share, state: Mutex::default() })
    }

    /// Nothing yet, for this principal.
    pub(crate) fn none(self: &Arc<Self>, key: RateKey) -> Held {
        Held { shares: self.clone(), key, amount: AtomicUsize::new(0) }
    }

    fn take(&self, key: &RateKey, amount: usize) -> Result<(), NoRoom> {
        let mut state = self.state.lock();
        let own = state.principals.get(key).copied().unwrap_or_default();
        let [of_all, of_one] = self.limits;
        let no_room = |limit| Err(NoRoom { what: self.what, limit });
        if own.saturating_add(amount) > self.share {
            return no_room(of_one);
        }
        if state.amount.saturating_add(amount) > self.most {
            return no_room(of_all);
        }
        state.amount += amount;
        state.principals.insert(key.clone(), own + amount);
        Ok(())
    }
}

impl Held {
    pub fn amount(&self) -> usize {
        self.amount.load(Ordering::Relaxed)
    }

    /// Raises what counts to this amount.
    pub fn grow_to(&mut self, amount: usize) -> Result<(), NoRoom> {
        let held = self.amount.get_mut();
        if amount > *held {
            self.shares.take(&self.key, amount - *held)?;
            *held = amount;
        }
        Ok(())
    }

    /// It counts no longer.
    pub fn release(&self) {
        let amount = self.amount.swap(0, Ordering::Relaxed);
        if amount == 0 {
            return;
        }
        let mut state = self.shares.state.lock();
        state.amount -= amount;
        if let Some(own) = state.principals.get_mut(&self.key) {
            *own -= amount;
            if *own == 0 {
                state.principals.remove(&self.key);
            }
        }
    }

    /// The message, which counts until the last part that shares its memory is dropped, or this is released.
    pub fn keep(self: Arc<Self>, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(LargeMessage { bytes, _held: self })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

struct LargeMessage<T> {
    bytes: T,
    _held: Arc<Held>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for LargeMessage<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_counted_for_each_principal_and_in_all_until_they_are_gone() {
        let shares = Shares::messages(100, 60);
        let key = |last| RateKey::Peer(std::net::IpAddr::from([192, 0, 2, last]));
        let hold = |last, bytes| {
            let mut held = shares.none(key(last));
            held.grow_to(bytes).map(|()| held)
        };
        let refused = |held: Result<Held, NoRoom>| held.map(drop).expect_err("no room").limit;
        let mine = hold(1, 50).expect("room");
        assert_eq!(refused(hold(1, 20)), "wire.body-bytes-per-principal");
        let other = hold(2, 40).expect("another has its own share");
        assert_eq!(refused(hold(3, 20)), "wire.body-bytes");
        let bytes = Arc::new(mine).keep(vec![1, 2, 3]);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(shares.state.lock().amount, 90, "a part holds it all");
        drop(part);
        drop(other);
        assert!(shares.state.lock().principals.is_empty() && shares.state.lock().amount == 0);
    }
}
