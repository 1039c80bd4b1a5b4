//! Rate limits: of one principal, by kind of operation, and of one tool (T-42). The check comes
//! before any work; a caller over its limit learns when to try again.
//!
//! Not here: the limits on concurrent runs, which are in [`crate::slots::admission`].

use crate::access::Access;
use crate::access::principal::Principal;
use crate::error::Fault;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{DefaultDirectRateLimiter, NotUntil, Quota, RateLimiter};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::mem::Discriminant;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_task::Rate;
use toolyard_task::rate::Per;

/// The most principals that are counted one by one. Above it, new ones are counted together until the
/// sweep has made room.
const MAX_KEYS: usize = 100_000;
/// The most principals whose use one broadcast reports. The use of any others is not reported.
const MAX_USED: usize = 10_000;
/// How often the host makes room for more.
const MAKE_ROOM_EVERY: Duration = Duration::from_secs(1);
/// How often excesses of one principal and kind are reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The rates of one principal; none where absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Requests of any kind.
    pub requests: Option<Rate>,
    /// Plain calls, and what else makes a plugin run.
    pub calls: Option<Rate>,
    /// Tasks created.
    pub creation: Option<Rate>,
    /// Questions about tasks.
    pub polling: Option<Rate>,
    /// Look-ups of tasks, sessions and events that do not exist.
    pub failed_lookups: Option<Rate>,
    /// Sessions opened.
    pub sessions: Option<Rate>,
    /// Whether they hold for the user of this machine as well: stdio, and anonymous
    /// callers from the loopback address.
    pub local: bool,
}

/// A kind of operation that has a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Any request.
    Request,
    /// A plain call, or what else makes a plugin run.
    Call,
    /// A call as a task.
    Creation,
    /// A question about a task.
    Polling,
    /// A look-up that found nothing.
    FailedLookup,
    /// A session is opened.
    Session,
}

impl Operation {
    const ALL: [Self; 6] =
        [Self::Request, Self::Call, Self::Creation, Self::Polling, Self::FailedLookup, Self::Session];

    /// The kind of operation in words, and its setting.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Request => ("requests", "rates.requests"),
            Self::Call => ("calls", "rates.calls"),
            Self::Creation => ("new tasks", "rates.creation"),
            Self::Polling => ("questions about tasks", "rates.polling"),
            Self::FailedLookup => ("look-ups of what does not exist", "rates.failed-lookups"),
            Self::Session => ("new sessions", "rates.sessions"),
        }
    }
}

/// The key under which operations are counted together.
#[derive(Debug, Clone)]
pub enum RateKey {
    /// The user of this machine.
    Local,
    /// Anonymous callers from this address, or from this IPv6 network of 64 bits.
    Peer(IpAddr),
    /// A subject, by whichever of its tokens.
    Subject(Arc<Principal>),
    /// All callers beyond those that are counted one by one.
    Crowd,
}

impl RateKey {
    /// The key of a principal that makes a request from this address.
    #[must_use]
    pub fn of(principal: &Arc<Principal>, peer: Option<IpAddr>) -> Self {
        match (&**principal, peer.map(|peer| peer.to_canonical())) {
            (Principal::Subject(_), _) => Self::Subject(principal.clone()),
            (Principal::Anonymous, Some(peer)) if !peer.is_loopback() => Self::Peer(network(peer)),
            _ => Self::Local,
        }
    }

    /// The parts by which keys are equal: the tokens of a subject differ in the others.
    fn identity(&self) -> (Discriminant<Self>, Option<IpAddr>, Option<(&str, &str)>) {
        let (peer, subject) = match self {
            Self::Local | Self::Crowd => (None, None),
            Self::Peer(address) => (Some(*address), None),
            Self::Subject(principal) => {
                (None, principal.subject().map(|of| (of.issuer.as_str(), of.subject.as_str())))
            }
        };
        (std::mem::discriminant(self), peer, subject)
    }
}

/// An IPv4 address, or the IPv6 network that one owner has.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

impl PartialEq for RateKey {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for RateKey {}

impl Hash for RateKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

type KeyedLimiter<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// The rate limits, and how much of them each principal has used.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    limiters: HashMap<Operation, KeyedLimiter<RateKey>>,
    /// Principals that looked up too many missing objects, and when they may look something up again.
    blocked: Mutex<HashMap<RateKey, Instant>>,
    reported: Option<KeyedLimiter<(RateKey, Operation)>>,
    local: bool,
    /// When the host last made room because there were too many.
    made_room: Mutex<Option<Instant>>,
    /// The rates as configured.
    pub rates: Rates,
}

impl RateLimits {
    pub fn new(rates: &Rates) -> Self {
        let rate = |operation| match operation {
            Operation::Request => rates.requests,
            Operation::Call => rates.calls,
            Operation::Creation => rates.creation,
            Operation::Polling => rates.polling,
            Operation::FailedLookup => rates.failed_lookups,
            Operation::Session => rates.sessions,
        };
        let limiters = Operation::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, KeyedLimiter::hashmap(quota(rate(operation)?)))));
        Self {
            limiters: limiters.collect(),
            blocked: Mutex::default(),
            reported: Quota::with_period(REPORT_EVERY).map(KeyedLimiter::hashmap),
            local: rates.local,
            made_room: Mutex::default(),
            rates: *rates,
        }
    }

    /// Whether operations of this principal are counted at all.
    fn counts(&self, who: &RateKey, operation: Operation) -> bool {
        (self.local || !matches!(who, RateKey::Local)) && self.limiters.contains_key(&operation)
    }

    /// Counts an operation. Returns how long to wait if it exceeds the limit.
    fn count(&self, who: &RateKey, operation: Operation) -> Result<(), Duration> {
        if matches!(who, RateKey::Local) && !self.local {
            return Ok(());
        }
        let Some(limiter) = self.limiters.get(&operation) else { return Ok(()) };
        // Only addresses can be invented: a subject needs a token.
        let who = match who {
            RateKey::Peer(_) if limiter.len() >= MAX_KEYS => {
                self.make_room();
                &RateKey::Crowd
            }
            who => who,
        };
        limiter.check_key(who).map_err(|not_until| wait(&not_until))
    }

    /// Counts operations of another host. A count over the limit leaves no debt.
    pub fn spend(&self, who: &RateKey, operation: Operation, count: u32) {
        let Some(limiter) = self.limiters.get(&operation) else { return };
        let mut left = count;
        // Halves the step until the rest fits.
        let mut step = count;
        while let Some(some) = NonZeroU32::new(step.min(left)) {
            match limiter.check_key_n(who, some) {
                Ok(Ok(())) => left -= some.get(),
                Ok(Err(_)) | Err(_) => step = some.get() / 2,
            }
        }
    }

    /// How long this principal may not look anything up.
    fn blocked_for(&self, who: &RateKey) -> Option<Duration> {
        let blocked = self.blocked.lock();
        blocked.get(who)?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    fn block(&self, who: &RateKey, wait: Duration) {
        let mut blocked = self.blocked.lock();
        if blocked.len() < MAX_KEYS {
            blocked.insert(who.clone(), Instant::now() + wait);
            return;
        }
        drop(blocked);
        self.make_room();
    }

    /// Whether to report an excess: only the first one in a while is reported.
    fn take_report_turn(&self, who: &RateKey, operation: Operation) -> bool {
        self.reported.as_ref().is_some_and(|reported| {
            reported.len() < MAX_KEYS && reported.check_key(&(who.clone(), operation)).is_ok()
        })
    }

    /// Tidies early, but not once for each new principal: tidying takes a while, and there may be many
    /// of them.
    fn make_room(&self) {
        let mut made = self.made_room.lock();
        if made.is_none_or(|made| made.elapsed() >= MAKE_ROOM_EVERY) {
            self.tidy();
            *made = Some(Instant::now());
        }
    }

    /// Forgets principals whose counts have expired.
    pub fn tidy(&self) {
        for limiter in self.limiters.values() {
            limiter.retain_recent();
        }
        if let Some(reported) = &self.reported {
            reported.retain_recent();
        }
        let now = Instant::now();
        self.blocked.lock().retain(|_, until| *until > now);
    }
}

/// The use of rate limits here since the last broadcast.
#[derive(Default)]
pub(crate) struct RateUsage(Mutex<HashMap<(RateKey, Operation), u32>>);

impl RateUsage {
    pub fn count(&self, who: &RateKey, operation: Operation) {
        let mut used = self.0.lock();
        if let Some(count) = used.get_mut(&(who.clone(), operation)) {
            *count += 1;
        } else if used.len() < MAX_USED {
            used.insert((who.clone(), operation), 1);
        }
    }

    pub fn take(&self) -> HashMap<(RateKey, Operation), u32> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The rate limit of one tool, over all callers.
#[derive(Debug)]
pub(crate) struct ToolRateLimit {
    pub rate: Rate,
    limiter: DefaultDirectRateLimiter,
}

impl ToolRateLimit {
    pub fn new(rate: Rate) -> Self {
        Self { rate, limiter: RateLimiter::direct(quota(rate)) }
    }

    /// Counts a call.
    pub fn count(&self) -> Result<(), Fault> {
        self.limiter.check().map_err(|not_until| Fault::TooOften {
            what: "calls of this tool",
            limit: "tools.NAME.rate",
            retry_after_ms: milliseconds(wait(&not_until)),
        })
    }
}

fn quota(rate: Rate) -> Quota {
    match rate.per {
        Per::Second => Quota::per_second(rate.count),
        Per::Minute => Quota::per_minute(rate.count),
        Per::Hour => Quota::per_hour(rate.count),
    }
}

fn wait(not_until: &NotUntil<<DefaultClock as governor::clock::Clock>::Instant>) -> Duration {
    not_until.wait_time_from(DefaultClock::default().now())
}

fn milliseconds(wait: Duration) -> u64 {
    // Rounded up, so that a caller that retries at that time succeeds.
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

impl Access {
    /// Counts an operation of this principal.
    ///
    /// # Errors
    /// [`Fault::TooOften`]; the operation must not be done.
    pub fn count_operation(&self, who: &RateKey, operation: Operation) -> Result<(), Fault> {
        let policy = self.policy();
        if operation == Operation::Polling
            && let Some(left) = policy.rate_limits.blocked_for(who)
        {
            return Err(too_often(Operation::FailedLookup, left));
        }
        let Err(wait) = policy.rate_limits.count(who, operation) else {
            if self.is_shared && policy.rate_limits.counts(who, operation) {
                self.used.count(who, operation);
            }
            return Ok(());
        };
        if operation == Operation::FailedLookup {
            policy.rate_limits.block(who, wait);
        }
        if policy.rate_limits.take_report_turn(who, operation) {
            let (what, setting) = operation.words();
            // A string field is quoted: the name is the issuer's, not ours.
            let principal = who.to_string();
            tracing::warn!(
                event = "rate.limited",
                principal,
                operation = what,
                setting,
                "rate limit exceeded"
            );
            self.note_limited(&principal, operation, setting);
        }
        Err(too_often(operation, wait))
    }
}

fn too_often(operation: Operation, wait: Duration) -> Fault {
    let (what, limit) = operation.words();
    Fault::TooOften { what, limit, retry_after_ms: milliseconds(wait) }
}

impl std::fmt::Display for RateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Peer(address) => write!(f, "anonymous from {address}"),
            Self::Subject(principal) => principal.fmt(f),
            Self::Crowd => f.write_str("anonymous"),
        }
    }
}

#[cfg(test)]
mod tests;
