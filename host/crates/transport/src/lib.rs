//! The transports: Streamable HTTP and stdio, with the same MCP behind both.
//!
//! Runs, the owners of tasks and the records of a store are the concern of other crates. A transport turns
//! bytes into calls of the dispatcher and answers into bytes, and authenticates clients.

pub mod auth;
pub mod http;
pub mod stdio;

mod answer;
mod change_notifications;
mod inflight;
mod message_budget;
mod methods;
mod metrics;
mod notifications;
mod replay;
mod request;
mod session;
mod settings;
mod stateless;
mod stream;

pub use message_budget::MessageBudget;
pub use metrics::Metrics;
pub use settings::Settings;
pub use stateless::ServerInfo;
pub use toolyard_protocol::initialize::{Implementation, ServerIdentity};

use http::access::HttpAccess;
use std::sync::Arc;
use toolyard_dispatch::Dispatch;

/// The state that both transports share.
pub struct Server {
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// The identity and instructions of the server.
    pub identity: ServerIdentity,
    /// The settings.
    pub settings: Settings,
    /// Access to the endpoint over HTTP. The client over stdio needs none, because it started this process.
    pub access: HttpAccess,
    /// The budget for the memory of large messages.
    pub messages: Arc<MessageBudget>,
    /// The metrics.
    pub metrics: Metrics,
    /// This server, as results show it.
    pub server_info: ServerInfo,
}
