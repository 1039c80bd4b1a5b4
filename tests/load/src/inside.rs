//! The dispatcher within this process, for measurements that are impossible from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_dispatch::{Bounds, Clock, Dispatch, Ids, Settings, Stores, Timestamp};
use toolyard_store::MemoryStore;

/// The clock of the machine.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64))
    }
}

/// These ids need not be unguessable.
#[derive(Default)]
struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.0.fetch_add(1, Ordering::Relaxed).into())
    }
}

/// A dispatcher with the memory store; guests run on `guests`.
pub fn dispatch(guests: tokio::runtime::Handle) -> Arc<Dispatch> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let stores = Stores {
        tasks: store.clone(),
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        audit: store,
    };
    Dispatch::new(settings(), stores, clock, Arc::<CountedIds>::default(), guests)
}

/// The host's defaults, as far as they matter here.
fn settings() -> Settings {
    Settings {
        tasks: true,
        ttl_default_ms: 3_600_000,
        ttl_cap_ms: 86_400_000,
        poll_interval_ms: 1_000,
        admission: Bounds { running: 1_000, running_per_principal: 1_000, waiting_per_principal: 1_000 },
        live_tasks: 20_000,
        kept_bytes_per_owner: 1 << 30,
        kept_bytes: 8 << 30,
        question_ms: 60_000,
        question_settle_ms: 0,
        state_ms: 3_600_000,
        inline_for_ms: 2_000,
        attempts: 3,
        rerun_after_ms: 10,
        adopts: true,
        shares: false,
        related_task: true,
        page: 200,
        list_ms: 2_000,
        sessions: 10_000,
        session_idle_ms: 172_800_000,
    }
}
