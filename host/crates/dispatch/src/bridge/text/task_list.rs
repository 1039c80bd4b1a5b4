//! The text of `task_list`.

use super::{ToolNames, duration, line, moment, tool_name};
use std::time::Duration;
use toolyard_protocol::Timestamp;

/// The most tasks of one list; the caller passes the newest.
const MAX_LISTED: usize = 50;

/// A task in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedTask<'a> {
    pub id: &'a str,
    pub tool: &'a str,
    pub state: TaskState,
    /// When it came into this state.
    pub since: Timestamp,
}

/// The state of a task, as models read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskState {
    Queued,
    Running,
    WaitingForAnswer,
    Done,
    Failed,
    Cancelled,
}

/// The `status` of `task_list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ListFilter {
    #[default]
    Live,
    Done,
    All,
}

impl ListFilter {
    pub const ALL: [Self; 3] = [Self::Live, Self::Done, Self::All];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Done => "done",
            Self::All => "all",
        }
    }

    /// The filter of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| filter.as_str() == name)
    }
}

impl TaskState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "waiting for its turn",
            Self::Running => "running",
            Self::WaitingForAnswer => "waiting for an answer from the user",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The result of `task_list`.
pub(crate) fn task_list(
    tasks: &[ListedTask<'_>],
    filter: ListFilter,
    now: Timestamp,
    names: &ToolNames,
) -> String {
    let (empty, title) = match filter {
        ListFilter::Live => {
            ("No background task of yours is running.", "Background tasks that have not ended:")
        }
        ListFilter::Done => ("No background task of yours has ended.", "Background tasks that have ended:"),
        ListFilter::All => ("You have no background tasks.", "Background tasks:"),
    };
    if tasks.is_empty() {
        return empty.to_owned();
    }
    let wait = &names.wait;
    format!("{title}\n{}To get a result, call {wait} with its task_id.", lines(tasks, now))
}

/// The result of a `task_wait` without an id for a caller with several live tasks.
pub(crate) fn several_tasks(tasks: &[ListedTask<'_>], now: Timestamp, names: &ToolNames) -> String {
    let wait = &names.wait;
    format!(
        "Several tasks have not ended:\n{}Call {wait} with the task_id of one of them.",
        lines(tasks, now)
    )
}

fn lines(tasks: &[ListedTask<'_>], now: Timestamp) -> String {
    let mut text = String::new();
    for ListedTask { id, tool, state, since } in tasks.iter().take(MAX_LISTED) {
        let (tool, state) = (tool_name(tool), state.as_str());
        let ago = duration(Duration::from_millis(now.since(*since)));
        let since = moment(*since, now);
        line(&mut text, format_args!("- {id}: {tool}, {state} since {since} ({ago})"));
    }
    if tasks.len() > MAX_LISTED {
        line(&mut text, format_args!("- and {} more", tasks.len() - MAX_LISTED));
    }
    text
}
