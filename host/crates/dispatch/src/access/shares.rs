//! Shares of the things that the host holds for its clients: large messages, received or to be sent, requests that wait
//! for a task, connections, and pages of the console. Each principal has a share, and there is a bound for all. A message
//! counts until no part of it is held: the arguments of a call for as long as the call, an answer until it is written.

use crate::access::rate_limit::RateKey;
use crate::error::Fault;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use toolyard_task::SessionId;

/// Messages up to this size (bytes) are not counted: the limits on connections and requests bound them, and
/// nearly every call has one.
pub const UNCOUNTED: usize = 64 << 10;
/// The maximum of a principal's waiting requests, as a multiple of the maximum of one session.
const SESSION_FACTOR: usize = 2;
/// The most bytes of pages of the console that are not read yet: of all logins, and of one.
const MAX_PAGE_BYTES: [usize; 2] = [192 << 20, 80 << 20];

/// A kind of thing that the host holds, for principals or for logins of the console.
#[derive(Debug)]
pub struct Shares<K = RateKey> {
    /// Completes "take all the room that is set for them".
    what: &'static str,
    /// The settings of the bound for all, and of the share.
    limits: [&'static str; 2],
    most: usize,
    share: usize,
    state: Mutex<SharesState<K>>,
}

#[derive(Debug)]
struct SharesState<K> {
    amount: usize,
    principals: HashMap<K, usize>,
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    what: &'static str,
    limit: &'static str,
}

impl NoRoom {
    /// The fault that its sender gets.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault::busy(self.limit, format!("{} take all the room that is set for them", self.what))
    }
}

/// An amount that counts for a principal until this is dropped.
#[derive(Debug)]
pub struct Held<K: Hash + Eq = RateKey> {
    shares: Arc<Shares<K>>,
    key: K,
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
        Self::new(
            "requests that wait for tasks",
            limits,
            usize::MAX,
            per_session.saturating_mul(SESSION_FACTOR),
        )
    }

    /// The connections of clients that are known. They are only counted here: who makes room is decided at the bound for
    /// all (`wire.connections`).
    #[must_use]
    pub fn connections() -> Arc<Self> {
        Self::new("connections", ["wire.connections"; 2], usize::MAX, usize::MAX)
    }
}

impl Shares<String> {
    /// The bytes of large pages of the console that its logins have not read yet.
    #[must_use]
    pub fn pages() -> Arc<Self> {
        let [most, share] = MAX_PAGE_BYTES;
        Self::new("pages that are still being read", ["console.pages"; 2], most, share)
    }
}

impl Shares<SessionId> {
    /// The bytes of calls that go on for anonymous sessions whose clients have left, `share` for each.
    pub(crate) fn kept_calls(share: usize) -> Arc<Self> {
        Self::new("calls that go on without their clients", ["kept calls"; 2], usize::MAX, share)
    }
}

impl<K: Hash + Eq + Clone> Shares<K> {
    fn new(what: &'static str, limits: [&'static str; 2], most: usize, share: usize) -> Arc<Self> {
        let state = Mutex::new(SharesState { amount: 0, principals: HashMap::new() });
        Arc::new(Self { what, limits, most, share, state })
    }

    /// Nothing yet, for this principal.
    pub fn none(self: &Arc<Self>, key: K) -> Held<K> {
        Held { shares: self.clone(), key, amount: AtomicUsize::new(0) }
    }

    /// The principals or logins that hold the most, and how much.
    #[must_use]
    pub fn largest(&self, count: usize) -> Vec<(K, usize)> {
        let mut all: Vec<_> =
            self.state.lock().principals.iter().map(|(key, own)| (key.clone(), *own)).collect();
        all.sort_unstable_by_key(|(_, own)| std::cmp::Reverse(*own));
        all.truncate(count);
        all
    }

    fn take(&self, key: &K, amount: usize) -> Result<(), NoRoom> {
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

impl<K: Hash + Eq + Clone> Held<K> {
    /// The principal or login that it counts for.
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// The amount that counts now.
    #[must_use]
    pub fn amount(&self) -> usize {
        self.amount.load(Ordering::Relaxed)
    }

    /// Raises what counts to this amount.
    ///
    /// # Errors
    /// [`NoRoom`] if the share or the bound for all is exceeded; then nothing has changed.
    pub fn grow_to(&mut self, amount: usize) -> Result<(), NoRoom> {
        let held = self.amount.get_mut();
        if amount > *held {
            self.shares.take(&self.key, amount - *held)?;
            *held = amount;
        }
        Ok(())
    }

    /// The message, which counts until the last part that shares its memory is dropped, or this is released.
    pub fn keep(self: Arc<Self>, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes
    where
        K: Send + Sync + 'static,
    {
        Bytes::from_owner(LargeMessage { bytes, _held: self })
    }
}

impl<K: Hash + Eq> Held<K> {
    /// Counts the amount no longer.
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
}

impl<K: Hash + Eq> Drop for Held<K> {
    fn drop(&mut self) {
        self.release();
    }
}

struct LargeMessage<T, K: Hash + Eq> {
    bytes: T,
    _held: Arc<Held<K>>,
}

impl<T: AsRef<[u8]>, K: Hash + Eq> AsRef<[u8]> for LargeMessage<T, K> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Everything that the host holds for the clients of its endpoint.
#[derive(Debug)]
pub struct ClientShares {
    /// The large messages.
    pub messages: Arc<Shares>,
    /// The requests that wait for tasks.
    pub waiting: Arc<Shares>,
    /// The connections.
    pub connections: Arc<Shares>,
}

/// The amounts that the host holds for one principal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrincipalUse {
    /// The name of the principal, as the audit log writes it; anonymous ones have their address.
    pub principal: String,
    /// The bytes of its large messages.
    pub message_bytes: usize,
    /// The number of requests of the principal that wait for tasks.
    pub waiting_requests: usize,
    /// The number of connections of the principal.
    pub connections: usize,
}

impl ClientShares {
    /// The principals that hold the most of something: `count` for each kind of thing.
    #[must_use]
    pub fn largest(&self, count: usize) -> Vec<PrincipalUse> {
        let mut found: HashMap<RateKey, PrincipalUse> = HashMap::new();
        for (key, amount) in self.messages.largest(count) {
            found.entry(key).or_default().message_bytes = amount;
        }
        for (key, amount) in self.waiting.largest(count) {
            found.entry(key).or_default().waiting_requests = amount;
        }
        for (key, amount) in self.connections.largest(count) {
            found.entry(key).or_default().connections = amount;
        }
        let named =
            |(key, used): (RateKey, PrincipalUse)| PrincipalUse { principal: key.to_string(), ..used };
        found.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(shares: &Arc<Shares>, last: u8, amount: usize) -> Result<Held, NoRoom> {
        let mut held = shares.none(RateKey::Peer(std::net::IpAddr::from([192, 0, 2, last])));
        held.grow_to(amount).map(|()| held)
    }

    #[test]
    fn large_messages_are_counted_for_each_principal_and_in_all_until_they_are_gone() {
        let shares = Shares::messages(100, 60);
        let refused = |held: Result<Held, NoRoom>| held.map(drop).expect_err("no room").limit;
        let mine = hold(&shares, 1, 50).expect("room");
        assert_eq!(refused(hold(&shares, 1, 20)), "wire.body-bytes-per-principal");
        let other = hold(&shares, 2, 40).expect("another has its own share");
        assert_eq!(refused(hold(&shares, 3, 20)), "wire.body-bytes");
        let bytes = Arc::new(mine).keep(vec![1, 2, 3]);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(shares.state.lock().amount, 90, "a part holds it all");
        drop(part);
        drop(other);
        assert!(shares.largest(1).is_empty() && shares.state.lock().amount == 0);
    }

    #[test]
    fn those_who_hold_the_most_of_something_are_named() {
        let of_all = ClientShares {
            messages: Shares::messages(1_000, 1_000),
            waiting: Shares::waiting_requests(100),
            connections: Shares::connections(),
        };
        let _held = [
            hold(&of_all.messages, 1, 500),
            hold(&of_all.messages, 2, 5),
            hold(&of_all.waiting, 3, 7),
            hold(&of_all.connections, 1, 2),
        ]
        .map(|held| held.expect("room"));
        let mut largest = of_all.largest(1);
        largest.sort_by(|one, other| one.principal.cmp(&other.principal));
        let of = |last| PrincipalUse {
            principal: format!("anonymous from 192.0.2.{last}"),
            ..PrincipalUse::default()
        };
        let expected = [
            PrincipalUse { message_bytes: 500, connections: 2, ..of(1) },
            PrincipalUse { waiting_requests: 7, ..of(3) },
        ];
        assert_eq!(largest, expected);
    }
}
