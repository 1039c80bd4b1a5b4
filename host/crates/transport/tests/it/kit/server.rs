//! A server on a store in memory, with tools written in Rust. It uses no guests and no files, only its own
//! sockets and pipes.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use toolyard_dispatch::{Catalog, ClientShares, Clock, Report, Shares, TaskSupport};
use toolyard_kit::{SETTINGS, TickingClock, application, done, native, stores};
use toolyard_store::MemoryStore;
use toolyard_task::wire::Progress;
use toolyard_task::{RunContext, RunEnd, Tool};
use toolyard_transport::auth::{self, Auth};
use toolyard_transport::http::access::HttpAccess;
use toolyard_transport::http::host_origin::AllowedNames;
use toolyard_transport::{Implementation, Metrics, Server, ServerIdentity, ServerInfo, Settings};

/// A clock that begins long after 1970.
pub fn clock() -> Arc<dyn Clock> {
    TickingClock::at(1_000_000)
}

/// A tool with this name, whose argument `region` is repeated in a header.
pub fn tool<F: Future<Output = RunEnd> + Send + 'static>(
    name: &str,
    task_support: TaskSupport,
    body: impl Fn(Arc<dyn RunContext>) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    native(name).task_support(task_support).input_schema(schema).runs(body)
}

/// A tool that ends at once.
pub fn quick() -> Arc<dyn Tool> {
    tool("quick", TaskSupport::Optional, |_| async { done("x") })
}

/// A tool that reports progress and then runs until its signal. It reports when it has begun and, however it
/// ends, when it is gone.
pub fn waiting(support: TaskSupport) -> (Arc<dyn Tool>, Arc<Notify>, mpsc::UnboundedReceiver<&'static str>) {
    let (go, (told, tells)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let signal = go.clone();
    let tool = tool("waiting", support, move |context| {
        let (go, gone) = (signal.clone(), Gone(told.clone()));
        async move {
            gone.0.send("begun").expect("the test listens");
            context.report(Report::Progress(Progress { progress: 1.0, total: None, message: None }));
            go.notified().await;
            done("x")
        }
    });
    (tool, go, tells)
}

/// Reports when it is dropped.
pub struct Gone(pub mpsc::UnboundedSender<&'static str>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send("gone");
    }
}

/// A catalog of these tools.
pub fn catalog(tools: Vec<Arc<dyn Tool>>) -> Arc<Catalog> {
    Arc::new(Catalog::new(tools).expect("distinct names"))
}

/// A server with these tools that anyone may call.
pub fn server(tools: Vec<Arc<dyn Tool>>) -> Arc<Server> {
    let clock = clock();
    server_on(Arc::new(MemoryStore::new(clock.clone())), clock, tools)
}

/// A server with changed transport settings.
pub fn server_with(tools: Vec<Arc<dyn Tool>>, change: impl FnOnce(&mut Settings)) -> Arc<Server> {
    let mut server = server(tools);
    change(&mut Arc::get_mut(&mut server).expect("not shared yet").settings);
    server
}

/// A server with these tools on this store.
pub fn server_on(store: Arc<MemoryStore>, clock: Arc<dyn Clock>, tools: Vec<Arc<dyn Tool>>) -> Arc<Server> {
    // Only a request creates a task; no call becomes one after a time.
    let settings = toolyard_dispatch::Settings { inline_for_ms: 3_600_000, ..SETTINGS };
    let info = Implementation { name: "test".into(), title: None, version: "1".into() };
    let long = Duration::from_secs(3600);
    Arc::new(Server {
        dispatch: application(settings, stores(&store), clock.clone(), tools),
        identity: ServerIdentity { info, instructions: None, tasks: true },
        settings: Settings {
            message_bytes: 1 << 20,
            connections: 100,
            head_time: long,
            body_time: long,
            write_time: long,
            subscriptions: 3,
            cache: Duration::from_secs(10),
            requests_per_session: 100,
            // Every answer that is not ready at once becomes a stream immediately.
            stream_after: Duration::ZERO,
            keep_alive: long,
        },
        access: HttpAccess::new(Auth::new(nobody_is_asked(), clock, "test"), AllowedNames::default()),
        shares: ClientShares {
            messages: Shares::messages(256 << 20, 64 << 20),
            waiting: Shares::waiting_requests(512),
            connections: Shares::connections(),
        },
        metrics: Metrics::default(),
        server_info: ServerInfo::default(),
    })
}

/// The settings of a server that anyone may call.
pub fn nobody_is_asked() -> auth::AuthSettings {
    auth::AuthSettings {
        resource: None,
        leeway: Duration::ZERO,
        scopes: Vec::new(),
        required_scopes: Vec::new(),
        tokens: Vec::new(),
        issuers: Vec::new(),
        key_refresh: Duration::from_secs(3600),
    }
}
