//! Write tools for Toolyard in Rust: a function with typed arguments and a typed result becomes an MCP tool.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use toolyard_plugin::{Error, Tool, ask, check_cancelled, plugin, progress};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greet {
//!     /// The number of greetings.
//!     #[schemars(range(min = 1, max = 100))]
//!     times: u32,
//!     /// The name to greet; the tool asks the user if it is absent.
//!     name: Option<String>,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Greeting {
//!     text: String,
//! }
//!
//! fn greet(Greet { times, name }: Greet) -> Result<Greeting, Error> {
//!     let name = match name {
//!         Some(name) => name,
//!         None => ask("name", "What is your name?")?.accepted()?,
//!     };
//!     if name.trim().is_empty() {
//!         return Err(Error::new("A greeting needs a name."));
//!     }
//!     let mut text = String::new();
//!     for time in 0..times {
//!         check_cancelled()?;
//!         progress(f64::from(time), f64::from(times), "greeting");
//!         text.push_str(&format!("Hello, {name}! "));
//!     }
//!     Ok(Greeting { text })
//! }
//!
//! plugin! {
//!     tools: [
//!         Tool::new("greet", greet)
//!             .title("Greet")
//!             .description("Greets a person one or more times.")
//!             .read_only(),
//!     ]
//! }
//! # fn main() {}
//! ```
//!
//! The crate type is `cdylib` and the target `wasm32-wasip2`; the file that `cargo build` makes is the
//! plugin. Before the function runs, the host checks the arguments against the schema of their type. Doc
//! comments become descriptions. Use attributes of `schemars` (`range`, `length`, `regex`) and `serde`
//! (`default`, `rename_all`, `deny_unknown_fields`) for constraints that the type alone cannot express.
//! [`IntoResult`] lists the return types of a tool, and [`Error`] the ways to fail.
//!
//! [`http`] sends requests. Environment variables and files that the manifest grants are in [`std::env`] and
//! [`std::fs`].
//!
//! In native unit tests, [`testing`] replaces the host. Plugins with resources, prompts or completion
//! implement the `Guest` of [`resources`], [`prompts`] or [`completion`], and name the type in [`plugin!`].
//! The raw contract is in [`raw`].

mod asking;
#[allow(missing_docs, clippy::unwrap_used, reason = "generated; the documentation is in wit/")]
#[doc(hidden)]
pub mod bindings;
mod error;
mod form;
pub mod http;
pub mod raw;
mod result;
mod running;
mod schema;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
#[doc(hidden)]
pub mod tool;

use serde::Deserialize;

pub use asking::{
    Answer, Answers, AskError, Question, Root, ask, ask_all, ask_each, ask_url, roots, sample, url_completed,
};
pub use error::{Context, Error, INVALID_PARAMS};
pub use raw::{Change, Content, LogLevel, completion, prompts, resources};
pub use result::{IntoResult, ToolResult, Unstructured};
pub use running::{
    CallInfo, TaskError, begin_task, call_info, cancelled, changed, check_cancelled, continue_with, effects,
    log, progress, release_stream, restored, sleep, status,
};
pub use tool::Tool;
pub use {schemars, serde, serde_json};

/// The arguments of a tool without arguments: `fn now(_: NoArguments) -> …`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Makes the crate a plugin with these tools, and with the resources, prompts or completion of types that
/// implement the `Guest` of those interfaces:
///
/// ```ignore
/// plugin! {
///     tools: [Tool::new("greet", greet), Tool::new("part", part)],
///     resources: Letters,
/// }
/// ```
#[macro_export]
macro_rules! plugin {
    (tools: [$($tool:expr),+ $(,)?] $(, $interface:ident: $guest:ident)* $(,)?) => {
        const _: () = {
            struct Plugin;

            fn tools() -> ::std::vec::Vec<$crate::Tool> {
                ::std::vec![$($tool),+]
            }

            impl $crate::raw::Guest for Plugin {
                fn list_tools() -> ::std::vec::Vec<$crate::raw::Tool> {
                    $crate::tool::list(&tools())
                }

                fn call(
                    name: ::std::string::String,
                    arguments: ::std::string::String,
                ) -> ::core::result::Result<$crate::raw::ToolResult, $crate::raw::CallError> {
                    $crate::tool::call(&tools(), &name, &arguments)
                }
            }

            $crate::raw::export!(Plugin with_types_in $crate::bindings);
        };
        $($crate::plugin!(@$interface $guest);)*
    };
    (@resources $guest:ident) => {
        $crate::raw::export_resources!($guest with_types_in $crate::bindings::resources);
    };
    (@prompts $guest:ident) => {
        $crate::raw::export_prompts!($guest with_types_in $crate::bindings::prompts);
    };
    (@completion $guest:ident) => {
        $crate::raw::export_completion!($guest with_types_in $crate::bindings::completion);
    };
}
