//! The text of `task_list`.

use super::{ToolNames, duration, moment, tool_name};
use std::time::Duration;
use toolyard_protocol::Timestamp;
use toolyard_task::task::Summary;
use toolyard_task::wire::TaskStatus;

/// The most tasks of one list; the caller passes the newest.
const MAX_LISTED: usize = 50;

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

/// The result of `task_list`.
pub(crate) fn task_list(tasks: &[&Summary], filter: ListFilter, now: Timestamp, names: &ToolNames) -> String {
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
pub(crate) fn several_tasks(tasks: &[&Summary], now: Timestamp, names: &ToolNames) -> String {
    let wait = &names.wait;
    format!(
        "Several tasks have not ended:\n{}Call {wait} with the task_id of one of them.",
        lines(tasks, now)
    )
}

fn lines(tasks: &[&Summary], now: Timestamp) -> String {
    let mut text = String::new();
    for task in tasks.iter().take(MAX_LISTED) {
        let (id, tool, state) = (task.id, tool_name(&task.tool), state_of(task));
        let ago = duration(Duration::from_millis(now.since(task.updated_at)));
        let since = moment(task.updated_at, now);
        text += &format!("- {id}: {tool}, {state} since {since} ({ago})\n");
    }
    if tasks.len() > MAX_LISTED {
        text += &format!("- and {} more\n", tasks.len() - MAX_LISTED);
    }
    text
}

/// The state of a task, as models read it.
const fn state_of(task: &Summary) -> &'static str {
    match task.status {
        TaskStatus::Working if !task.has_started => "waiting for its turn",
        TaskStatus::Working => "running",
        TaskStatus::InputRequired => "waiting for an answer from the user",
        TaskStatus::Completed => "done",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
    }
}
