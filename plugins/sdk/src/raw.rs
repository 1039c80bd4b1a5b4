//! The contract in `wit/`: the generated types, functions and export macros, under their plain names.
//! [`plugin!`](crate::plugin!) and the functions of the crate are built on these. Use them for features that
//! those do not offer.
//!
//! A plugin without [`plugin!`](crate::plugin!) implements [`Guest`] and ends with
//! `toolyard_plugin::raw::export!(Plugin with_types_in toolyard_plugin::bindings);`. The other interfaces
//! work the same way:
//! `toolyard_plugin::raw::export_resources!(Plugin with_types_in toolyard_plugin::bindings::resources);`.
//! Only the exported interfaces become part of the component.

pub use crate::bindings::completion::export_completion;
pub use crate::bindings::completion::exports::toolyard::plugin::completion;
pub use crate::bindings::export;
pub use crate::bindings::exports::toolyard::plugin::tools::Guest;
pub use crate::bindings::prompts::export_prompts;
pub use crate::bindings::prompts::exports::toolyard::plugin::prompts;
pub use crate::bindings::resources::export_resources;
pub use crate::bindings::resources::exports::toolyard::plugin::resources;
pub use crate::bindings::toolyard::plugin::host;
pub use crate::bindings::toolyard::plugin::types::{
    Answer, AskError, CallError, Change, Content, LogLevel, Media, Question, RpcError, TaskError,
    TaskSupport, TextBlock, Tool, ToolResult,
};
