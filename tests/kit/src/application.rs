//! The application over a store in memory.

use crate::clock::{CountingIds, TickingClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_dispatch::{
    Bounds, BridgeSettings, Caller, Catalog, Clock, Dispatch, OnClientTimeout, OutputSchemas, Principal,
    RawJson, Settings, Stores, Subject,
};
use toolyard_store::MemoryStore;
use toolyard_task::Tool;

/// Generous limits, and times longer than any test.
pub const SETTINGS: Settings = Settings {
    tasks: true,
    ttl_default_ms: 3_600_000,
    ttl_cap_ms: 86_400_000,
    poll_interval_ms: 1000,
    admission: bounds(100, 100, 100),
    live_tasks: 1000,
    kept_bytes_per_owner: 1 << 30,
    kept_bytes: 8 << 30,
    journal_bytes: 4 << 30,
    question_ms: 60_000,
    question_settle_ms: 0,
    approval_ms: 900_000,
    inline_for_ms: 2_000,
    bridge: None,
    tool_search: false,
    queue_when_busy: false,
    attempts: 3,
    rerun_after_ms: 10,
    adopts: true,
    shares: false,
    page: 100,
    sessions: 100,
    session_idle_ms: 3_600_000,
    log_rate: 100,
};

/// Bounds on runs, on runs of one principal, and on its waiting and its parked tasks.
pub const fn bounds(running: u32, running_per_principal: u32, waiting: u32) -> Bounds {
    let (waiting_per_principal, parked_per_principal) = (waiting, waiting);
    Bounds { running, running_per_principal, waiting_per_principal, parked_per_principal }
}

/// The defaults of the bridge, except for the time before a hand-off, and without clients.
pub const fn bridge(after: Duration) -> BridgeSettings {
    BridgeSettings {
        after,
        wait: Duration::from_secs(50),
        on_client_timeout: OnClientTimeout::Keep,
        grace: Duration::from_secs(20),
        rejoin: Duration::from_secs(600),
        prefix: String::new(),
        output_schema: OutputSchemas::Union,
        answers: true,
        task_clients: Vec::new(),
        clients: Vec::new(),
    }
}

/// Uses this store for all stored data.
pub fn stores(store: &Arc<MemoryStore>) -> Stores {
    Stores {
        tasks: store.clone(),
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        timeline: store.clone(),
        journals: store.clone(),
        audit: store.clone(),
    }
}

/// An empty store in memory that keeps audit entries.
pub fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(TickingClock::at(1_000_000)).audited())
}

/// An application with these tools. Its runs share the runtime of the caller.
///
/// # Panics
/// If two tools have the same name.
pub fn application(
    settings: Settings,
    stores: Stores,
    clock: Arc<dyn Clock>,
    tools: Vec<Arc<dyn Tool>>,
) -> Arc<Dispatch> {
    let dispatch = Dispatch::new(settings, stores, clock, Arc::new(CountingIds), Handle::current());
    dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    dispatch
}

/// A principal whom an identity provider calls `subject`.
pub fn principal(subject: &str) -> Arc<Principal> {
    Arc::new(Principal::Subject(Subject {
        issuer: "https://idp.example".into(),
        subject: subject.into(),
        client: None,
        scopes: std::collections::BTreeSet::new(),
        claims: serde_json::Value::Null,
        expires_at: None,
    }))
}

/// The user of this machine, with a client that shows forms.
pub fn local_caller() -> Caller {
    Caller::local(RawJson::trusted(r#"{"elicitation":{}}"#))
}
