//! `toolyard connect` and `toolyard doctor`, without their flags: the configuration files of MCP clients, and
//! checks of this machine.
//!
//! [`CLIENTS`] describes each client in one row. [`plan`] decides without side effects how a file changes, and
//! [`apply`] carries that out. [`check`] turns facts about this machine into findings. This crate reads no
//! environment variables: the program passes them to [`Environment::find`].

mod apply;
mod client;
mod command;
mod doctor;
mod edit;
mod entry;
mod environment;
mod facts;
mod fields;
mod json;
mod plan;
mod refusal;
mod toml;
mod value;

pub use apply::{Applied, ApplyError, apply, read};
pub use client::{CLIENTS, Client, client};
pub use command::{connect, list, report};
pub use doctor::{
    DataFolder, EntryFacts, Facts, Finding, FolderState, PortState, ProgramState, Severity, check, to_json,
    to_text,
};
pub use edit::Format;
pub use entry::{DEFAULT_NAME, Launch, Server};
pub use environment::{Environment, System};
pub use facts::{HostFacts, gather};
pub use plan::{Action, CommandLine, MAX_BYTES, Options, Plan, plan};
pub use refusal::Refusal;
pub use value::Value;
