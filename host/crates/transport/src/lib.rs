//! The ways in: Streamable HTTP and stdio, one MCP behind both.
//!
//! What may not live here: what a call does, who owns a task, what a store keeps.
//! A transport turns bytes into calls of the dispatcher and answers into bytes,
//! and guards the door.

pub mod auth;
pub mod http;
pub mod stdio;

mod answer;
mod change_notifications;
mod inflight;
mod methods;
mod metrics;
mod notifications;
mod replay;
mod request;
mod session;
mod settings;
mod stateless;
mod stream;

pub use metrics::Metrics;
pub use settings::Settings;
pub use stateless::Presented;
pub use toolyard_protocol::initialize::{Implementation, ServerIdentity};

use std::sync::Arc;
use toolyard_dispatch::Dispatch;

/// What both transports serve.
pub struct Server {
    /// The application.
    pub dispatch: Arc<Dispatch>,
    /// What we are and offer.
    pub identity: ServerIdentity,
    /// What was set.
    pub settings: Settings,
    /// Who may call over HTTP. Whoever talks over stdio has started us.
    pub auth: auth::Auth,
    /// The names that are served over HTTP, and the pages that may call.
    pub allowed_names: http::host_origin::AllowedNames,
    /// What is counted.
    pub metrics: Metrics,
    /// Ourselves, as results show us.
    pub presented: Presented,
}
