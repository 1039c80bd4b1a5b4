//! The workshop of plugin authors: `toolyard new`, `build`, `test`, `dev` and `call` without their
//! flags.
//!
//! A project is a folder with a `project.toml` that says how a component is made of the files in it.
//! A case is a recorded call with what is expected of it. The commands print to the terminal, and run
//! calls against a dispatcher that the program has assembled: the workshop reads no configuration and
//! starts no host.

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
mod new;
mod project;
mod run_call;
mod run_case;
mod shell;
mod sources;
mod templates;
mod test;
mod toml_json;

pub use build::build;
pub use call::{Call, CallOptions};
pub use dev::{CallLog, Dev, GuestLines, Session};
pub use new::create;
pub use project::Project;
pub use test::{TestOptions, Tests};

use std::time::Duration;

/// A duration for people: `12 ms`, `1.5 s`.
fn shown_time(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..1_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}
