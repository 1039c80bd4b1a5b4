//! The transports: Streamable HTTP and stdio, with the same MCP behind both.
//!
//! Runs, the owners of tasks and the records of a store are the concern of other crates. A transport turns
//! bytes into calls of the dispatcher and answers into bytes, and authenticates clients.

pub mod auth;
pub mod http;
pub mod relay;
pub mod stdio;

mod answer;
mod change_notifications;
mod conversation;
mod failure;
mod gate;
mod inflight;
mod methods;
mod metrics;
mod notifications;
mod request;
mod server;
mod session;
mod settings;
mod stateless;
mod stream;

pub use metrics::Metrics;
pub use server::{Server, ServerInfo};
pub use settings::Settings;
pub use toolyard_protocol::initialize::{Implementation, ServerIdentity};
