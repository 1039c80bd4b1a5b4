//! Streamable HTTP: one endpoint, `/mcp`, with POST, GET and DELETE. The body of a POST determines its
//! generation (26B); GET and DELETE belong to sessions.

mod accept;
pub mod access;
pub mod admin;
mod body;
mod client_channels;
mod connection_limit;
mod cors;
mod endpoint;
mod get;
pub(crate) mod header_check;
pub mod host_origin;
mod large_messages;
mod media;
pub mod operator_listener;
mod overflow;
mod post;
mod refusal_log;
pub(crate) mod relayed;
pub(crate) mod reply;
mod session_registry;
mod sse;
mod stateless;
mod write_timeout;

pub use accept::{Listener, serve};
pub use media::{accepts, is_json};
pub use sse::EventId;
