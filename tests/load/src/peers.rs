//! Servers of the official SDKs, without a sandbox, each with the same tool; and the requests to any server
//! of 2025-11-25.

use crate::server::Server;
use anyhow::Context as _;
use hyper::Method;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use toolyard_tests::guests::root;
use toolyard_tests::http::Connection;
use toolyard_tests::session::LATEST;

/// An SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// The crate `rmcp`.
    Rust,
    /// The package `@modelcontextprotocol/sdk`.
    TypeScript,
}

/// Whether clients have sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No sessions: each request is independent.
    Stateless,
    /// Each client has a session.
    Session,
}

impl Mode {
    const fn word(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Session => "session",
        }
    }
}

/// Starts such a server. `bench.sh` has built it, or has printed the reason why it could not.
pub async fn start(sdk: Sdk, mode: Mode, folder: &Path) -> anyhow::Result<Option<Server>> {
    let mut command = match sdk {
        Sdk::Rust => Command::new(root().join("target/peers/release/toolyard-peer-rmcp")),
        Sdk::TypeScript => match typescript() {
            Some(command) => command,
            None => return Ok(None),
        },
    };
    command.arg(mode.word());
    Server::start(command, folder).await.map(Some)
}

/// The server of the TypeScript SDK; `None` if it is not installed.
fn typescript() -> Option<Command> {
    let source = root().join("tests/load/peers/typescript");
    source.join("node_modules/.installed").exists().then(|| {
        let mut node = Command::new("node");
        node.arg(source.join("server.mjs"));
        node
    })
}

/// Names and values of headers.
pub type Headers = Vec<(&'static str, String)>;

/// Opens a session, if the server has sessions, and returns the headers of later requests.
pub async fn headers(port: u16, mode: Mode) -> anyhow::Result<Headers> {
    let mut headers = vec![
        ("accept", "application/json, text/event-stream".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    if mode == Mode::Session {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": LATEST, "capabilities": {},
                "clientInfo": {"name": "toolyard-load", "version": "0"},
            },
        });
        let answer = post(port, &headers, initialize.to_string()).await?;
        let id = answer.headers.get("mcp-session-id").context("a session has an id")?;
        headers.push(("mcp-session-id", id.to_str()?.to_owned()));
        answer.try_bytes().await.context("an answer to initialize")?;
    }
    headers.push(("mcp-protocol-version", LATEST.to_owned()));
    if mode == Mode::Session {
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = post(port, &headers, initialized.to_string()).await?;
        anyhow::ensure!(answer.status == 202, "notifications/initialized: {}", answer.status);
    }
    Ok(headers)
}

async fn post(port: u16, headers: &Headers, body: String) -> anyhow::Result<toolyard_tests::http::Answer> {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut connection = Connection::try_open(port).await.context("a server listens")?.not_mcp();
    connection.try_send(Method::POST, "/mcp", &headers, body).await.context("an answer")
}
