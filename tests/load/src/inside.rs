//! The dispatcher within this process, for measurements that are impossible from outside.

use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{Clock, Dispatch, Settings, Timestamp};
use toolyard_kit::{CountingIds, SETTINGS, bounds, bridge, stores};
use toolyard_store::MemoryStore;

/// The clock of the machine.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64))
    }
}

/// A dispatcher with the memory store; guests run on `guests`.
pub fn dispatch(guests: tokio::runtime::Handle) -> Arc<Dispatch> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    Dispatch::new(settings(), stores(&store), clock, Arc::new(CountingIds), guests)
}

/// The host's defaults, as far as they matter here.
fn settings() -> Settings {
    Settings {
        admission: bounds(1_000, 1_000, 1_000),
        live_tasks: 20_000,
        page: 200,
        sessions: 10_000,
        session_idle_ms: 172_800_000,
        bridge: Some(Arc::new(bridge(Duration::from_secs(45)))),
        queue_when_busy: true,
        ..SETTINGS
    }
}
