//! One run of a guest: what it reports and what it asks.

pub(crate) mod approval;
pub(crate) mod as_task;
pub(crate) mod begin;
pub(crate) mod client;
pub(crate) mod client_task;
pub(crate) mod deps;
pub(crate) mod doubt;
pub(crate) mod elicitation;
pub(crate) mod guest_log;
pub(crate) mod journal;
mod journal_writer;
pub(crate) mod kept_reports;
pub(crate) mod pending_question;
pub(crate) mod permission;
pub(crate) mod permissions;
pub(crate) mod promote;
pub(crate) mod promotion;
pub(crate) mod question_history;
pub(crate) mod round_trip;
#[expect(clippy::module_inception, reason = "it holds `Run`")]
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod task_run;
pub(crate) mod throttle;
