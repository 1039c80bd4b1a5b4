//! A run of a guest: what it reports and what it asks.

pub(crate) mod as_task;
pub(crate) mod begin;
pub(crate) mod client;
pub(crate) mod deps;
pub(crate) mod journal;
mod journal_sink;
mod journal_writer;
mod parking;
pub(crate) mod promotion;
pub(crate) mod questions;
#[expect(clippy::module_inception, reason = "it holds `Run`")]
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod task_run;
mod throttle;
pub(crate) mod view;
pub(crate) mod voice;
