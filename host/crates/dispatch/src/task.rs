//! Tasks: commits, waiters, queries, lists, questions.

pub(crate) mod commit;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod query;
pub(crate) mod questions;
pub(crate) mod waiters;
