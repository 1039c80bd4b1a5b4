//! The parts of `protocol` for crates that must not depend on it.

pub use toolyard_protocol::LogLevel;
pub use toolyard_protocol::completion::{MAX_VALUES, Reference};
pub use toolyard_protocol::error;
pub use toolyard_protocol::members;
pub use toolyard_protocol::progress::Progress;
pub use toolyard_protocol::prompts::{PromptArgument, PromptDescription};
pub use toolyard_protocol::question::{Kind as QuestionKind, check_page};
pub use toolyard_protocol::raw::{MAX_DEPTH, RawJsonError};
pub use toolyard_protocol::resources::{MAX_URI_BYTES, is_uri};
pub use toolyard_protocol::response::RELATED_TASK;
pub use toolyard_protocol::stateless::error::MISSING_CAPABILITY;
pub use toolyard_protocol::stateless::param_headers::param_headers;
pub use toolyard_protocol::tasks::{TaskStatus, TaskView};
pub use toolyard_protocol::tools::{
    Execution, RequestedTtl, TaskSupport, ToolDescription, is_name, is_tool_name, text_result,
};
pub use toolyard_protocol::uri_range::UriRange;
pub use toolyard_protocol::visible;
pub use toolyard_protocol::{RawJson, RpcError, Timestamp, TraceContext};
