//! The timeouts of clients that do not name them, learned from the ages of the calls that they gave up.

use crate::access::rate_limit::RateKey;
use crate::settings::bridge::BridgeTerms;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use toolyard_protocol::Timestamp;

/// The most clients whose timeouts are remembered.
const MAX_CLIENTS: usize = 1_000;
/// A client gives up within this time (ms) of its timeout, as the host sees it.
const TOLERANCE: u64 = 150;
/// The shortest timeout (ms) that counts as one.
const SHORTEST: u64 = 1_000;
/// People configure multiples of the first (ms) up to the second, and of the third above it.
const STEPS: (u64, u64, u64) = (5_000, 60_000, 30_000);

/// A client, as far as the host can tell: its principal and the hash of its name.
pub(crate) type ClientKey = (RateKey, u64);

/// The timeouts that were learned.
#[derive(Default)]
pub(crate) struct ClientTimeouts {
    clients: Mutex<HashMap<ClientKey, LearnedTimeout>>,
    /// How many there are, so that most calls take no lock.
    count: AtomicUsize,
}

struct LearnedTimeout {
    /// The age (ms) at which it gave up last, and when that was.
    last: (u64, Timestamp),
    /// The shortest timeout (ms) of the client, if it has one.
    limit: Option<u64>,
}

impl ClientTimeouts {
    /// A client has given up a call of this age. Returns whether that was a timeout: it says so, or its age is one that
    /// people configure, or the age at which it gave up before.
    pub fn note(&self, client: &ClientKey, age: Duration, now: Timestamp, says_so: bool) -> bool {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        if age < SHORTEST - TOLERANCE {
            return says_so;
        }
        let mut clients = self.clients.lock();
        let known = clients.get(client);
        // Calls that are given up together were given up once.
        let again = known.is_some_and(|known| {
            let (before, when) = known.last;
            age.abs_diff(before) <= TOLERANCE && now.since(when) > SHORTEST
        });
        let limit = known.and_then(|known| known.limit);
        let is_timeout = says_so || again || is_round(age);
        if known.is_none() && clients.len() >= MAX_CLIENTS {
            let oldest = clients.iter().min_by_key(|(_, known)| known.last.1).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| clients.remove(&oldest));
        }
        let limit = if is_timeout { Some(limit.map_or(age, |limit| limit.min(age))) } else { limit };
        clients.insert(client.clone(), LearnedTimeout { last: (age, now), limit });
        self.count.store(clients.len(), Ordering::Release);
        is_timeout
    }

    /// The terms, so that the client hears from the host before its timeout.
    pub fn limit(&self, terms: BridgeTerms, key: &RateKey) -> BridgeTerms {
        if self.count.load(Ordering::Acquire) == 0 {
            return terms;
        }
        let client = (key.clone(), terms.name_hash);
        let limit = self.clients.lock().get(&client).and_then(|known| known.limit);
        // The rest is for the way there and back.
        limit.map_or(terms, |limit| terms.within(Duration::from_millis(limit / 5 * 4)))
    }
}

/// Whether people configure a timeout of about this many milliseconds.
const fn is_round(age: u64) -> bool {
    let (small, until, large) = STEPS;
    let step = if age <= until + TOLERANCE { small } else { large };
    let beyond = (age + TOLERANCE) % step;
    age + TOLERANCE >= step && beyond <= 2 * TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: u64 = 7;

    fn note(timeouts: &ClientTimeouts, age: u64, now: i64) -> bool {
        timeouts.note(&(RateKey::Local, NAME), Duration::from_millis(age), Timestamp(now), false)
    }

    fn after(timeouts: &ClientTimeouts, name_hash: u64) -> u64 {
        let times = (Duration::from_secs(45), Duration::from_secs(50));
        let terms = BridgeTerms { after: times.0, wait: times.1, keeps_on_disconnect: false, name_hash };
        let limited = timeouts.limit(terms, &RateKey::Local);
        let wait = if limited.after < times.0 { limited.after } else { times.1 };
        assert_eq!(limited.wait, limited.after.max(wait));
        u64::try_from(limited.after.as_millis()).expect("small")
    }

    #[test]
    fn round_ages_are_timeouts_and_others_are_a_person_s() {
        for age in [4_850, 5_000, 5_150, 9_900, 15_000, 20_100, 30_000, 60_150, 90_000, 119_900, 300_000] {
            assert!(note(&ClientTimeouts::default(), age, 0), "{age}");
        }
        for age in [0, 150, 1_000, 3_000, 4_800, 5_200, 7_500, 24_000, 65_000, 100_000] {
            assert!(!note(&ClientTimeouts::default(), age, 0), "{age}");
        }
    }

    #[test]
    fn a_client_that_gives_up_twice_at_an_age_has_a_timeout_and_is_answered_before_it() {
        let timeouts = ClientTimeouts::default();
        assert!(!note(&timeouts, 3_000, 10_000) && after(&timeouts, NAME) == 45_000);
        assert!(!note(&timeouts, 3_010, 10_500), "given up together with the first");
        assert!(note(&timeouts, 3_100, 20_000));
        assert_eq!((after(&timeouts, NAME), after(&timeouts, NAME + 1)), (2_480, 45_000));
        assert!(note(&timeouts, 10_000, 30_000) && after(&timeouts, NAME) == 2_480, "the shortest counts");
        assert!(!note(&timeouts, 7_000, 40_000) && after(&timeouts, NAME) == 2_480);
    }

    #[test]
    fn the_clients_whose_timeouts_are_known_are_bounded_and_the_oldest_go() {
        let timeouts = ClientTimeouts::default();
        for client in 0..=MAX_CLIENTS as u64 {
            let when = Timestamp(i64::try_from(client).expect("small"));
            assert!(timeouts.note(&(RateKey::Local, client), Duration::from_secs(5), when, true));
        }
        assert_eq!(timeouts.clients.lock().len(), MAX_CLIENTS);
        assert_eq!((after(&timeouts, 0), after(&timeouts, MAX_CLIENTS as u64)), (45_000, 4_000));
    }
}
