//! What a task is and how it changes, the catalog of tools, and the ports through
//! which the rest of the house reaches stores and engines.
//!
//! What may not live here: IO, an async runtime, a clock, randomness. Only
//! [`apply::apply`] decides a transition; a store compares a version and writes
//! what it was given.

pub mod apply;
pub mod archive;
pub mod argument;
pub mod audit;
pub mod catalog;
pub mod clock;
pub mod gossip;
pub mod grant;
pub mod id;
pub mod keys;
pub mod node;
pub mod permission;
pub mod provider;
pub mod rate;
pub mod recovery;
pub mod room;
pub mod search;
pub mod session;
pub mod store;
pub mod task;
pub mod tool;

pub use apply::{Effect, Event, Refusal, Transition, apply};
pub use archive::Archive;
pub use argument::ArgumentValue;
pub use audit::AuditStore;
pub use catalog::Catalog;
pub use clock::{Clock, Ids};
pub use gossip::Gossip;
pub use grant::{Grant, GrantStore};
pub use id::{Digest, Incarnation, Owner, SessionDigest, SessionId, TaskId};
pub use permission::{NotPermitted, Wanted};
pub use provider::Provider;
pub use rate::Rate;
pub use recovery::Durability;
pub use room::{Room, Shortage};
pub use store::{StoreError, TaskStore};
pub use task::{Fence, Outcome, Task};
pub use tool::{RunContext, RunEnd, Tool};

/// What the crates that may not see `protocol` need of it.
pub mod wire {
    pub use toolyard_protocol::LogLevel;
    pub use toolyard_protocol::completion::{MOST_VALUES, Reference};
    pub use toolyard_protocol::error;
    pub use toolyard_protocol::progress::Progress;
    pub use toolyard_protocol::prompts::{PromptArgument, PromptDescription};
    pub use toolyard_protocol::question::{Kind as QuestionKind, check_page};
    pub use toolyard_protocol::raw::MAX_DEPTH;
    pub use toolyard_protocol::resources::{URI_BYTES, is_uri};
    pub use toolyard_protocol::response::RELATED_TASK;
    pub use toolyard_protocol::stateless::error::MISSING_CAPABILITY;
    pub use toolyard_protocol::stateless::param_headers::param_headers;
    pub use toolyard_protocol::tasks::{TaskStatus, TaskView};
    pub use toolyard_protocol::tools::{
        Execution, RequestedTtl, TaskSupport, ToolDescription, is_name, is_tool_name, text_result,
    };
    pub use toolyard_protocol::uri_template::UriRange;
    pub use toolyard_protocol::visible;
    pub use toolyard_protocol::{RawJson, RpcError, Timestamp, TraceContext};
}
