//! The plugin contract (`wit/`) for guests written in Rust: the generated
//! bindings under their plain names, and short ways to make the records that
//! most plugins return.
//!
//! A plugin with tools implements [`Guest`] and ends with
//! `contract::export!(Plugin with_types_in contract::bindings);`. One that has
//! resources, prompts or completion implements the `Guest` of
//! [`resources`], [`prompts`] or [`completion`] as well and says so:
//! `contract::export_resources!(Plugin with_types_in contract::bindings::resources);`
//! and so on. Only what is exported becomes part of the component.

pub mod arguments;
#[allow(missing_docs, reason = "generated; the documentation is in wit/")]
pub mod bindings;
pub mod declaration;
pub mod result;

pub use bindings::completion::export_completion;
pub use bindings::completion::exports::toolyard::plugin::completion;
pub use bindings::export;
pub use bindings::exports::toolyard::plugin::tools::Guest;
pub use bindings::prompts::export_prompts;
pub use bindings::prompts::exports::toolyard::plugin::prompts;
pub use bindings::resources::export_resources;
pub use bindings::resources::exports::toolyard::plugin::resources;
pub use bindings::toolyard::plugin::host;
pub use bindings::toolyard::plugin::types::{
    Answer, AskError, CallError, Change, Content, LogLevel, Media, Question, RpcError, TaskError,
    TaskSupport, TextBlock, Tool, ToolResult,
};
