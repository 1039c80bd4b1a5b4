//! JSON-RPC and MCP on the wire: this crate decodes messages that arrive and encodes those that
//! leave, and only this crate knows the wire revisions.
//!
//! Not here: an async runtime, a clock, randomness, the state of a session or a task. Everything is
//! a function from bytes to values or back, so it is tested and fuzzed without a server.

pub mod capabilities;
pub mod completion;
pub mod error;
pub mod initialize;
pub mod logging;
pub mod members;
pub mod message;
pub mod method;
pub mod notification;
pub mod offers;
pub mod page;
pub mod progress;
pub mod prompts;
pub mod question;
pub mod raw;
pub mod resources;
pub mod response;
pub mod revision;
pub mod stateless;
pub mod task_filter;
pub mod tasks;
pub mod timestamp;
pub mod tools;
pub mod trace;
pub mod uri_range;
pub mod visible;

pub use capabilities::ClientCapabilities;
pub use error::RpcError;
pub use logging::LogLevel;
pub use message::{DecodeError, Id, Incoming, Message};
pub use method::Method;
pub use raw::RawJson;
pub use revision::Revision;
pub use timestamp::Timestamp;
pub use trace::TraceContext;
