//! The fate of a live task whose host is gone or is leaving: a pure function of its record.
//!
//! A guest can never make its task run again. If it says that effects begin, the task is not run again. A task
//! that is resumed repeats no effect, so this does not concern it.

use crate::task::Task;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The operator's setting for runs of a tool that a host has left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Unfinished runs are not run again: the task has failed.
    #[default]
    None,
    /// Unfinished runs may be run again from the start.
    Rerun,
    /// Runs are recorded, and another run continues where an unfinished one was.
    Resume,
}

/// How many runs in a row may lose their host without getting further, before the task is given up.
pub const MAX_STALLED: u32 = 3;

/// How a host left a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The host is gone, for an unknown reason.
    Died,
    /// The host was shut down.
    ShutDown,
    /// The client closed the pipe that it was started for.
    PipeClosed,
    /// The host lives, but the store reported that the record could not be written.
    LostSight,
}

/// Why a task that had begun is not run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRerun {
    /// The operator's settings do not allow it for its tool.
    #[error("The tool is not declared idempotent or read-only, so it was not run again")]
    NotDeclared,
    /// The guest had said that effects begin.
    #[error("The tool had said that its effects begin, so it was not run again")]
    Effects,
    /// The task has already been run this often, which is the limit.
    #[error("It was run {}, the most that is allowed", times(*.0))]
    Attempts(u32),
    /// The task was resumed [`MAX_STALLED`] times, and each time its host stopped before it got any further.
    #[error(
        "It was resumed {MAX_STALLED} times and its host stopped each time before the task got any further, \
         so it was not resumed again"
    )]
    Stalled,
    /// The task could not be resumed any more, for this reason.
    #[error("It was not resumed: {0}")]
    Unresumable(String),
    /// The host stopped before all of the journal was stored that was in memory when the call became a task.
    #[error("Its journal is incomplete, so it was not resumed")]
    Incomplete,
    /// The tool of that name no longer accepts its arguments; the text says what is wrong with them.
    #[error("It was not run again, since the tool has changed and its arguments do not fit: {0}")]
    Misfit(String),
    /// The host that left it does not hand tasks over.
    #[error("It was not run again")]
    Left,
}

fn times(runs: u32) -> String {
    if runs == 1 { "once".to_owned() } else { format!("{runs} times") }
}

/// The decision about a live task whose host is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Run it: for the first time, or again.
    Run,
    /// Continue it from its journal.
    Resume,
    /// End it as failed.
    End(NotRerun),
}

/// Decides about a live task whose host is gone. `declared` is the operator's current setting for its
/// tool, if it is known; `most` is the limit of attempts.
#[must_use]
pub fn recovery(task: &Task, declared: Option<Durability>, most: u32) -> Recovery {
    if !task.has_begun() {
        return Recovery::Run;
    }
    if let Some(resume) = task.resume {
        // It repeats nothing, so neither its effects nor the number of its attempts matter.
        return match declared {
            None | Some(Durability::Resume) if resume.stalled < MAX_STALLED => Recovery::Resume,
            None | Some(Durability::Resume) => Recovery::End(NotRerun::Stalled),
            Some(Durability::None | Durability::Rerun) => Recovery::End(NotRerun::NotDeclared),
        };
    }
    // An attempt that was claimed and did not begin is not counted.
    let runs = task.fence.attempt.saturating_sub(u32::from(task.started_at.is_none()));
    if let Some(why) = &task.unresumable {
        Recovery::End(NotRerun::Unresumable(why.clone()))
    } else if task.effects {
        Recovery::End(NotRerun::Effects)
    } else if !task.rerun || declared == Some(Durability::None) {
        Recovery::End(NotRerun::NotDeclared)
    } else if runs >= most {
        Recovery::End(NotRerun::Attempts(runs))
    } else {
        Recovery::Run
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Died => "stopped unexpectedly",
            Self::ShutDown => "was shut down",
            Self::PipeClosed => "ended with the pipe of its client",
            Self::LostSight => "lost sight of it when its store failed",
        })
    }
}

#[cfg(test)]
mod tests;
