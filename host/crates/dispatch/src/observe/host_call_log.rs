//! The host calls of one run. A run without any allocates nothing.

use parking_lot::Mutex;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::host_call::{HostCall, HostCallCounts, MAX_HOST_CALLS};

/// A host call, and its place in its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedHostCall {
    /// How long before the end of the run it began.
    pub before_end: Duration,
    /// The call.
    pub call: HostCall,
}

/// The host calls of a run that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCalls {
    /// The first ones, in the order of their ends.
    pub listed: Vec<TimedHostCall>,
    /// The number of further ones.
    pub further: HostCallCounts,
}

/// Collects the host calls of a run.
#[derive(Default)]
pub(crate) struct HostCallLog(OnceLock<Box<Mutex<Collected>>>);

#[derive(Default)]
struct Collected {
    count: usize,
    kept: Vec<(Instant, HostCall)>,
    further: HostCallCounts,
}

impl HostCallLog {
    /// Counts a call that has ended just now. Returns whether it is one of those that are listed; only
    /// then it is kept, if `keeps` says so.
    pub fn add(&self, call: &HostCall, keeps: bool) -> bool {
        let mut collected = self.0.get_or_init(Box::default).lock();
        if collected.count == MAX_HOST_CALLS {
            collected.further.count(&call.what);
            return false;
        }
        collected.count += 1;
        if keeps {
            collected.kept.push((Instant::now(), call.clone()));
        }
        true
    }

    /// All calls of the run, which ends now.
    pub fn take(&self) -> HostCalls {
        let Some(collected) = self.0.get() else { return HostCalls::default() };
        let (kept, further) = {
            let mut collected = collected.lock();
            (std::mem::take(&mut collected.kept), collected.further)
        };
        let now = Instant::now();
        let timed = |(ended, call): (Instant, HostCall)| TimedHostCall {
            before_end: now.saturating_duration_since(ended) + call.took,
            call,
        };
        HostCalls { listed: kept.into_iter().map(timed).collect(), further }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::host_call::HostAction;

    #[test]
    fn the_first_calls_are_listed_and_the_rest_is_counted() {
        let log = HostCallLog::default();
        assert_eq!(log.take(), HostCalls::default());
        let call = HostCall { took: Duration::from_millis(5), what: HostAction::Sleep };
        for _ in 0..MAX_HOST_CALLS {
            assert!(log.add(&call, true));
        }
        assert!(!log.add(&call, true));
        let all = log.take();
        assert_eq!(all.listed.len(), MAX_HOST_CALLS);
        assert!(all.listed[0].before_end >= call.took);
        assert_eq!(all.further.iter().collect::<Vec<_>>(), [("sleep", 1)]);
    }
}
