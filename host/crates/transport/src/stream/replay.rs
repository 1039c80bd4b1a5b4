//! Bounds the bytes that all ended streams of the host keep for returning clients. Over a bound, the host
//! drops the oldest streams of the principal that keeps the most.

use super::Stream;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

/// The most bytes that the ended streams of all sessions keep: 4 principals at their bound, beside the memory
/// of the runs.
const MAX_BYTES: usize = 256 << 20;
/// The most bytes that the ended streams of one principal keep: a gateway has 4 sessions at their bound.
const MAX_BYTES_PER_PRINCIPAL: usize = 64 << 20;

/// Counts the log of an ended stream.
pub(crate) struct ReplayBudget {
    /// The most bytes of all principals together.
    most: usize,
    /// The most bytes of one principal.
    per_principal: usize,
    state: Mutex<ReplayState>,
}

#[derive(Default)]
struct ReplayState {
    bytes: usize,
    /// Numbers the streams in the order in which they ended.
    next: u64,
    kept: BTreeMap<u64, ReplayEntry>,
    principals: HashMap<Arc<str>, PrincipalReplay>,
}

struct ReplayEntry {
    stream: Weak<Stream>,
    bytes: usize,
    principal: Arc<str>,
}

#[derive(Default)]
struct PrincipalReplay {
    bytes: usize,
    streams: BTreeSet<u64>,
}

/// An ended stream that is counted until this is dropped.
pub(crate) struct ReplayReservation {
    budget: Arc<ReplayBudget>,
    number: u64,
}

impl Drop for ReplayReservation {
    fn drop(&mut self) {
        self.budget.state.lock().remove(self.number);
    }
}

impl Default for ReplayBudget {
    fn default() -> Self {
        Self { most: MAX_BYTES, per_principal: MAX_BYTES_PER_PRINCIPAL, state: Mutex::default() }
    }
}

impl ReplayBudget {
    #[cfg(test)]
    fn new(most: usize, per_principal: usize) -> Arc<Self> {
        Arc::new(Self { most, per_principal, state: Mutex::default() })
    }

    /// Counts an ended stream of a principal, and drops streams while a bound is exceeded: those of the
    /// principal if it exceeds its share, else those of the principal that keeps the most. So no principal
    /// can prevent the replay of another's streams by ending many of its own.
    ///
    /// The caller must hold no lock of a stream.
    pub fn count(
        self: &Arc<Self>,
        principal: &Arc<str>,
        stream: &Weak<Stream>,
        bytes: usize,
    ) -> ReplayReservation {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.add(number, ReplayEntry { stream: stream.clone(), bytes, principal: principal.clone() });
        let mut over = Vec::new();
        while let Some(oldest) = state.too_much(self.most, self.per_principal, principal) {
            over.extend(state.remove(oldest));
        }
        drop(state);
        for kept in over {
            if let Some(stream) = kept.stream.upgrade() {
                stream.forget();
            }
        }
        ReplayReservation { budget: self.clone(), number }
    }

    /// The bytes that are counted now.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

impl ReplayState {
    fn add(&mut self, number: u64, kept: ReplayEntry) {
        self.bytes += kept.bytes;
        let share = self.principals.entry(kept.principal.clone()).or_default();
        share.bytes += kept.bytes;
        share.streams.insert(number);
        self.kept.insert(number, kept);
    }

    fn remove(&mut self, number: u64) -> Option<ReplayEntry> {
        let kept = self.kept.remove(&number)?;
        self.bytes -= kept.bytes;
        if let Some(share) = self.principals.get_mut(&kept.principal) {
            share.bytes -= kept.bytes;
            share.streams.remove(&number);
            if share.streams.is_empty() {
                self.principals.remove(&kept.principal);
            }
        }
        Some(kept)
    }

    /// The stream to drop next, if a bound is exceeded.
    fn too_much(&self, most: usize, per_principal: usize, principal: &str) -> Option<u64> {
        let share = self.principals.get(principal).filter(|share| share.bytes > per_principal);
        let largest = || self.principals.values().max_by_key(|share| share.bytes);
        let share = share.or_else(|| (self.bytes > most).then(largest).flatten())?;
        share.streams.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::LogBounds;
    use bytes::Bytes;

    const BOUNDS: LogBounds = LogBounds { bytes: 100, events: 10 };

    fn ended(budget: &Arc<ReplayBudget>, principal: &str, bytes: usize) -> Arc<Stream> {
        let stream = Stream::new(1, BOUNDS);
        stream.keep_within(budget.clone(), principal.into());
        stream.end(Some(Bytes::from(vec![b'x'; bytes])));
        stream
    }

    #[test]
    fn over_its_share_a_principal_loses_its_oldest_and_nobody_elses() {
        let budget = ReplayBudget::new(1_000, 100);
        let other = ended(&budget, "other", 90);
        let mine: Vec<_> = (0..4).map(|_| ended(&budget, "me", 40)).collect();
        let kept: Vec<bool> = mine.iter().map(|stream| stream.bytes() > 0).collect();
        assert_eq!(kept, [false, false, true, true]);
        assert!(!mine[0].continues_after(0), "H-29: what is lost is known to be");
        assert_eq!((other.bytes(), budget.bytes()), (90, 170));
        drop(mine);
        assert_eq!(budget.bytes(), 90);
        drop(other);
        assert!(budget.state.lock().principals.is_empty());
    }

    #[test]
    fn over_the_whole_whoever_keeps_the_most_loses() {
        let budget = ReplayBudget::new(200, 100);
        let (a, b) = (ended(&budget, "a", 100), ended(&budget, "b", 90));
        let c = ended(&budget, "c", 20);
        assert_eq!((a.bytes(), b.bytes(), c.bytes()), (0, 90, 20));
    }

    #[test]
    fn who_reads_a_stream_reads_it_to_its_end_first() {
        let budget = ReplayBudget::new(1_000, 50);
        let stream = Stream::new(1, BOUNDS);
        let reader = stream.read_after(0);
        stream.keep_within(budget.clone(), "me".into());
        stream.end(Some(Bytes::from_static(&[b'x'; 80])));
        assert_eq!((stream.bytes(), budget.bytes()), (80, 0), "it is no longer counted, but read");
        drop(reader);
        assert_eq!(stream.bytes(), 0);
    }

    #[test]
    fn a_stream_that_has_ended_before_it_is_kept_is_counted_as_well() {
        let budget = ReplayBudget::new(1_000, 100);
        let stream = Stream::new(1, BOUNDS);
        stream.end(Some(Bytes::from_static(b"xx")));
        assert_eq!(budget.bytes(), 0);
        stream.keep_within(budget.clone(), "me".into());
        stream.keep_within(budget.clone(), "me".into());
        assert_eq!(budget.bytes(), 2);
    }
}
