//! The plugin contract (`wit/`) for guests written in Rust: the generated
//! bindings under their plain names, and short ways to make the records that
//! most tools return.
//!
//! A plugin implements [`Guest`] and ends with
//! `contract::export!(Plugin with_types_in contract::bindings);`.

pub mod arguments;
#[allow(missing_docs, reason = "generated; the documentation is in wit/")]
pub mod bindings;
pub mod declaration;
pub mod result;

pub use bindings::export;
pub use bindings::exports::toolyard::plugin::tools::Guest;
pub use bindings::toolyard::plugin::host;
pub use bindings::toolyard::plugin::types::{
    Answer, AskError, CallError, Change, Content, LogLevel, Question, RpcError, TaskError, TaskSupport,
    TextBlock, Tool, ToolResult,
};
