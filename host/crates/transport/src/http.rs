//! Streamable HTTP: one endpoint, `/mcp`, with POST, GET and DELETE.

mod accept;
pub mod admin;
mod body;
mod cors;
mod endpoint;
mod get;
pub mod guard;
mod hub;
mod media;
mod outlets;
mod post;
mod reply;
mod sse;

pub use accept::serve;
pub use media::{accepts, is_json};
pub use sse::EventId;
