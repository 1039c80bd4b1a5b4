//! The comparison with a server of the official Rust SDK: one tool that adds two numbers, over hyper as in
//! the host, without a sandbox. `stateless` answers with JSON and keeps no sessions; `session` is the SDK's
//! default.

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{tool, tool_handler, tool_router};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

type Service = StreamableHttpService<Adder, LocalSessionManager>;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: f64,
    b: f64,
}

#[derive(Clone)]
struct Adder {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Adder {
    #[tool(description = "Adds two numbers.")]
    fn add(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let sessions = match std::env::args().nth(1).as_deref() {
        Some("stateless") => false,
        Some("session") => true,
        _ => anyhow::bail!("which: stateless or session?"),
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(!sessions);
    // Made once: a router for each session or request would add its own cost.
    let adder = Adder { tool_router: Adder::tool_router() };
    let service = Service::new(move || Ok(adder.clone()), Arc::new(LocalSessionManager::default()), config);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("rmcp serves http://{}/mcp", listener.local_addr()?);
    tokio::select! {
        done = accept(listener, service) => done,
        () = orphaned() => Ok(()),
    }
}

/// Waits until stdin ends, which happens when the parent process ends.
async fn orphaned() {
    let mut input = [0; 64];
    while matches!(tokio::io::stdin().read(&mut input).await, Ok(count) if count > 0) {}
}

async fn accept(listener: TcpListener, service: Service) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.handle(request).await) }
            });
            // It ends when the client disconnects.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}
