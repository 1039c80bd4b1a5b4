//! Plugin projects: what `toolyard new` writes, what `build`, `dev` and `test` take.
//!
//! A project is a folder with a `project.toml` that says how a component is made of
//! what is in it. What may not live here: printing, and the reading of flags, which are
//! the commands' own.

pub mod answers;
pub mod build;
pub mod case;
pub mod case_text;
pub mod compare;
pub mod contract;
pub mod fields;
pub mod file;
pub mod find;
pub mod play;
pub mod rehearsal;
pub mod shell;
pub mod sources;
pub mod templates;
pub mod toml_json;
