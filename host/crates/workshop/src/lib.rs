//! The commands for plugin authors, without their flags: `toolyard new`, `build`, `test`, `dev` and `call`.
//!
//! A project is a folder with a `project.toml` that says how to make a component from its files. A case is a
//! recorded call with its expected result. The commands print to the terminal, and run calls against a
//! dispatcher that the program has assembled: this crate reads no configuration and starts no host.

pub mod contract;

mod answers;
mod build;
mod call;
mod case;
mod case_text;
mod compare;
mod dev;
mod fields;
mod find;
mod http_entry;
mod http_tape;
mod json_values;
mod new;
mod project;
mod question;
mod run_call;
mod run_case;
mod shell;
mod sources;
mod templates;
mod test;
mod time;
mod toml_json;

pub use build::build;
pub use call::{Call, CallOptions, ask_at_terminal};
pub use dev::{CallLog, Dev, GuestLines, Session};
pub use new::create;
pub use project::Project;
pub use test::{TestOptions, Tests};
