//! Streamable HTTP: one endpoint, `/mcp`, with POST, GET and DELETE. Which
//! generation a POST is of, its body says (26B); GET and DELETE belong to sessions.

mod accept;
pub mod admin;
mod body;
mod cors;
mod endpoint;
mod get;
pub mod guard;
mod hub;
mod large_messages;
mod lobby;
mod media;
mod mirrored;
mod outlets;
mod patience;
mod post;
mod reply;
mod seats;
mod sse;
mod stateless;

pub use accept::serve;
pub use media::{accepts, is_json};
pub use sse::EventId;
