//! The ways in: Streamable HTTP and stdio, one MCP behind both.
//!
//! Not here: the work of a call, the owner of a task, the records of a store. A transport turns
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
    /// Authentication over HTTP. The client over stdio has started this process.
    pub auth: auth::Auth,
    /// The names that are served over HTTP, and the pages that may call.
    pub allowed_names: http::host_origin::AllowedNames,
    /// The memory that large messages may take.
    pub messages: Arc<MessageBudget>,
    /// The metrics.
    pub metrics: Metrics,
    /// Ourselves, as results show us.
    pub server_info: ServerInfo,
}
