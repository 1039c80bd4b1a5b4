//! Servers of the official SDKs, without a sandbox, each with the same tool.

use crate::server::Server;
use std::path::Path;
use std::process::Command;
use toolyard_tests::guests::root;

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
