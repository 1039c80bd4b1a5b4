//! The clocks of the simulation. Nothing here reads the real one.

use std::sync::atomic::{AtomicI64, Ordering};
use tokio::runtime::Handle;
use tokio::time::Instant;
use toolyard_dispatch::{Clock, Timestamp};

/// The start of every simulation, in milliseconds since 1970; not 0, so that clocks can be set back.
const BEGINNING: i64 = 1_800_000_000_000;

/// The clocks of one host: the steady clock of its runtime, and its wall clock, which may be wrong.
pub struct HostClock {
    runtime: Handle,
    epoch: Instant,
    /// The start of the host, in milliseconds since the beginning.
    born: i64,
    wrong_by: AtomicI64,
}

impl HostClock {
    /// The clocks of a host that starts now on this runtime.
    #[must_use]
    pub fn new(runtime: &Handle, born: i64, wrong_by: i64) -> Self {
        let epoch = {
            let _inside = runtime.enter();
            Instant::now()
        };
        Self { runtime: runtime.clone(), epoch, born, wrong_by: AtomicI64::new(wrong_by) }
    }

    /// Milliseconds since the beginning, by the steady clock.
    pub fn steady(&self) -> i64 {
        let _inside = self.runtime.enter();
        let since = Instant::now().duration_since(self.epoch).as_millis();
        self.born + i64::try_from(since).expect("a short simulation")
    }

    /// Sets the error of the wall clock, in milliseconds.
    pub fn set_wrong(&self, by: i64) {
        self.wrong_by.store(by, Ordering::Relaxed);
    }
}

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp(BEGINNING + self.steady() + self.wrong_by.load(Ordering::Relaxed))
    }
}

/// The clock of the store: as late as the latest host, plus an error. Like the store, it keeps the latest
/// time that it has given.
#[derive(Debug, Default)]
pub struct StoreClock {
    reached: AtomicI64,
    wrong_by: AtomicI64,
    latest: AtomicI64,
}

impl StoreClock {
    /// Advances it to at least `time`.
    pub fn reach(&self, time: i64) {
        self.reached.fetch_max(time, Ordering::Relaxed);
    }

    /// Changes its error, forwards or backwards.
    pub fn step(&self, by: i64) {
        self.wrong_by.fetch_add(by, Ordering::Relaxed);
    }

    /// The current time of the store, which never goes back.
    pub fn stamp(&self) -> Timestamp {
        self.now();
        Timestamp(self.latest.load(Ordering::Relaxed))
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let (reached, by) = (self.reached.load(Ordering::Relaxed), self.wrong_by.load(Ordering::Relaxed));
        let now = BEGINNING + reached + by;
        self.latest.fetch_max(now, Ordering::Relaxed);
        Timestamp(now)
    }
}
