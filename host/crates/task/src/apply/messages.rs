//! Status messages of transitions.

use crate::recovery::{Departure, NotRerun};
use crate::task::Task;
use crate::wire::Timestamp;

/// The status message of a task whose caller stopped waiting before it knew the task.
#[must_use]
pub fn caller_left(status: Option<&str>) -> String {
    const LEFT: &str = "(its caller stopped waiting)";
    match status {
        Some(status) if status.ends_with(LEFT) => status.to_owned(),
        Some(status) => format!("{status} {LEFT}"),
        None => format!("Running {LEFT}"),
    }
}

/// The status message of a task whose run needs more memory than its host has now.
pub const WAITING_FOR_MEMORY: &str =
    "Waiting for memory: its host has too little left for its run now (`calls.memory`).";

/// The status message of a task whose tool no host has loaded.
#[must_use]
pub fn waiting_for_tool(tool: &str) -> String {
    format!("Waiting for the tool `{tool}`, which is not loaded now.")
}

/// The message of an orphaned task: when its host was found to be gone, how long that host may have run
/// it, why no host runs it again, and whether it may have had effects.
pub(super) fn orphan_message(task: &Task, departure: Departure, why: &NotRerun, now: Timestamp) -> String {
    let effects =
        if task.effects { "it has had effects, or some of them" } else { "it may have had effects" };
    match task.started_at {
        None if !task.has_begun() => {
            let reason = match why {
                NotRerun::Misfit(what) => {
                    format!(" Its tool has changed and its arguments do not fit: {what}")
                }
                _ => String::new(),
            };
            format!(
                "The host that had accepted this task {departure} (seen at {now}); the task had not begun, \
                 so nothing was done.{reason}"
            )
        }
        None => format!(
            "The host that was to run this task again {departure} (seen at {now}); an earlier run had begun. \
             {why}; {effects}."
        ),
        Some(started) => format!(
            "The host that ran this task {departure} (seen at {now}); the task had begun at {started}, \
             {} before. {why}; {effects}.",
            seconds(now.since(started))
        ),
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}
