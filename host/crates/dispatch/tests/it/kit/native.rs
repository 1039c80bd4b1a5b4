//! A dispatcher over a store in memory, with tools written in Rust.

use crate::kit::settings::SETTINGS;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use toolyard_dispatch::{Catalog, Clock, Dispatch, Ids, RawJson, Settings, Stores, TaskSupport, Timestamp};
use toolyard_store::MemoryStore;
use toolyard_task::tool::{ArgumentCheck, ReportBounds, ToolSpec};
use toolyard_task::wire::ToolDescription;
use toolyard_task::{Digest, Durability, Reservation, RunContext, RunEnd, TaskStore, Tool};

pub struct TestClock(pub AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        // Every look is a millisecond later, so that nothing happens at once.
        Timestamp(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Ids in order, distinct over all dispatchers of the process.
pub struct TestIds;

pub static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Ids for TestIds {
    fn uuid(&self) -> uuid::Uuid {
        let number = u128::from(NEXT_ID.fetch_add(1, Ordering::SeqCst));
        uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
    }
}

type Body = Arc<dyn Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync>;

pub struct NativeTool {
    spec: ToolSpec,
    body: Body,
}

impl Tool for NativeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _arguments: &RawJson) -> ArgumentCheck {
        ArgumentCheck::Fits
    }

    fn run(
        self: Arc<Self>,
        _: RawJson,
        _: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd> {
        (self.body)(context)
    }

    fn interrupt(&self) {}
}

pub fn tool(
    name: &str,
    body: impl Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    tool_waited_for(None, name, body)
}

/// A tool whose calls are waited for so long before they become tasks.
pub fn tool_waited_for(
    inline_for: Option<Duration>,
    name: &str,
    body: impl Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    tool_of(Durability::None, inline_for, name, body)
}

/// The same, of which the operator says what becomes of unfinished runs.
pub fn tool_of(
    durability: Durability,
    inline_for: Option<Duration>,
    name: &str,
    body: impl Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let description = ToolDescription {
        name: name.to_owned(),
        title: None,
        description: None,
        icons: None,
        input_schema: RawJson::trusted(r#"{"type":"object"}"#),
        output_schema: None,
        annotations: None,
        execution: None,
        meta: None,
    };
    Arc::new(NativeTool {
        spec: ToolSpec {
            description,
            task_support: TaskSupport::Optional,
            digest: Digest("00".into()),
            plugin: "native".into(),
            poll_interval_ms: None,
            immediate_response: None,
            durability,
            inline_for,
            concurrency: None,
            queue: None,
            rate: None,
            reports: ReportBounds::default(),
        },
        body: Arc::new(body),
    })
}

pub fn dispatch(
    store: &Arc<MemoryStore>,
    tasks: Arc<dyn TaskStore>,
    tools: Vec<Arc<dyn Tool>>,
) -> Arc<Dispatch> {
    dispatch_by(SETTINGS, store, tasks, tools)
}

pub fn dispatch_by(
    settings: Settings,
    store: &Arc<MemoryStore>,
    tasks: Arc<dyn TaskStore>,
    tools: Vec<Arc<dyn Tool>>,
) -> Arc<Dispatch> {
    let store = store.clone();
    let stores = Stores {
        tasks,
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        audit: store,
    };
    let (clock, ids) = (Arc::new(TestClock(AtomicI64::new(1))), Arc::new(TestIds));
    let dispatch = Dispatch::new(settings, stores, clock, ids, Handle::current());
    dispatch.publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    dispatch
}

pub fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(TestClock(AtomicI64::new(1_000_000)))).audited())
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
