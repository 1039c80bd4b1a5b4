//! A server over a store in memory, with tools written in Rust: no guest, no file, and
//! nothing but its own sockets and pipes.

use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_dispatch::{
    Bounds, Catalog, Clock, Dispatch, Ids, RawJson, Stores, TaskSupport, Timestamp, ToolSpec,
};
use toolyard_store::MemoryStore;
use toolyard_task::tool::{ArgumentCheck, ReportBounds};
use toolyard_task::wire::ToolDescription;
use toolyard_task::{Digest, Reservation, RunContext, RunEnd, Tool};
use toolyard_transport::auth::{self, Auth, KeyTimes};
use toolyard_transport::http::host_origin::AllowedNames;
use toolyard_transport::{
    Implementation, MessageBudget, Metrics, Server, ServerIdentity, ServerInfo, Settings,
};

/// Every look is a millisecond later, so that nothing happens at once.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// A clock that begins long after the beginning.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(TestClock(AtomicI64::new(1_000_000)))
}

struct TestIds(AtomicU32);

impl Ids for TestIds {
    fn uuid(&self) -> uuid::Uuid {
        let number = u128::from(self.0.fetch_add(1, Ordering::SeqCst));
        uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
    }
}

type Body = Arc<dyn Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync>;

struct NativeTool {
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

/// A tool of this name.
pub fn tool(
    name: &str,
    task_support: TaskSupport,
    body: impl Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    let description = ToolDescription {
        name: name.to_owned(),
        title: None,
        description: None,
        icons: None,
        input_schema: RawJson::trusted(schema),
        output_schema: None,
        annotations: None,
        execution: None,
        meta: None,
    };
    Arc::new(NativeTool {
        spec: ToolSpec {
            description,
            task_support,
            digest: Digest("00".into()),
            plugin: "native".into(),
            poll_interval_ms: None,
            immediate_response: None,
            durability: toolyard_task::Durability::None,
            inline_for: None,
            concurrency: None,
            queue: None,
            rate: None,
            reports: ReportBounds::default(),
        },
        body: Arc::new(body),
    })
}

/// A catalog of these tools.
pub fn catalog(tools: Vec<Arc<dyn Tool>>) -> Arc<Catalog> {
    Arc::new(Catalog::new(tools).expect("distinct names"))
}

/// A server of these tools, for everybody.
pub fn server(tools: Vec<Arc<dyn Tool>>) -> Arc<Server> {
    let clock = clock();
    server_on(Arc::new(MemoryStore::new(clock.clone())), clock, tools)
}

/// The same, on this store.
pub fn server_on(store: Arc<MemoryStore>, clock: Arc<dyn Clock>, tools: Vec<Arc<dyn Tool>>) -> Arc<Server> {
    let stores = Stores {
        tasks: store.clone(),
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        audit: store,
    };
    let ids = Arc::new(TestIds(AtomicU32::new(1)));
    let dispatch = Dispatch::new(application(), stores, clock.clone(), ids, Handle::current());
    dispatch.publish(catalog(tools));
    Arc::new(Server {
        dispatch,
        identity: ServerIdentity {
            info: Implementation { name: "test".into(), title: None, version: "1".into() },
            instructions: None,
            tasks: true,
        },
        settings: wire(),
        auth: Auth::new(nobody_is_asked(), clock, "test"),
        allowed_names: AllowedNames::default(),
        messages: MessageBudget::new(16 << 20, 4 << 20),
        metrics: Metrics::default(),
        server_info: ServerInfo::default(),
    })
}

fn application() -> toolyard_dispatch::Settings {
    toolyard_dispatch::Settings {
        tasks: true,
        ttl_default_ms: 3_600_000,
        ttl_cap_ms: 86_400_000,
        poll_interval_ms: 1000,
        admission: Bounds { running: 100, running_per_principal: 100, waiting_per_principal: 100 },
        live_tasks: 1000,
        kept_bytes_per_owner: 1 << 30,
        kept_bytes: 8 << 30,
        question_ms: 60_000,
        question_settle_ms: 0,
        state_ms: 60_000,
        // Only a request makes a task; no call becomes one by time.
        inline_for_ms: 3_600_000,
        attempts: 3,
        rerun_after_ms: 10,
        adopts: true,
        shares: false,
        related_task: true,
        page: 100,
        list_ms: 2_000,
        sessions: 100,
        session_idle_ms: 3_600_000,
    }
}

fn wire() -> Settings {
    let long = Duration::from_secs(3600);
    Settings {
        message_bytes: 1 << 20,
        connections: 100,
        head_time: long,
        body_time: long,
        write_time: long,
        subscriptions: 3,
        cache: Duration::from_secs(10),
        requests_per_session: 100,
        // Every answer that is not ready at once is a stream at once.
        stream_after: Duration::ZERO,
        keep_alive: long,
        replay_bytes: 1 << 20,
        replay_bytes_per_session: 1 << 20,
        replay_bytes_in_all: 16 << 20,
        replay_bytes_per_principal: 4 << 20,
        eof_grace: long,
    }
}

/// The settings of a server that is open to everybody.
pub fn nobody_is_asked() -> auth::AuthSettings {
    let never = Duration::from_secs(3600);
    auth::AuthSettings {
        resource: None,
        leeway: Duration::ZERO,
        scopes: Vec::new(),
        required_scopes: Vec::new(),
        tokens: Vec::new(),
        issuers: Vec::new(),
        keys: KeyTimes { refresh: never, cool_down: never, stale: never, bytes: 1 },
        token_bytes: 100,
    }
}
