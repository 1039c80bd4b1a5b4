//! `toolyard tasks watch`, and `tasks list --watch`: what changes, until the task ends or Ctrl-C.

use super::{as_json, said};
use crate::command::operator;
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, Task, TaskId, TaskStatus, Tasks, Timestamp, visible};

/// How often the store is asked.
const PAUSE: Duration = Duration::from_millis(500);

/// Prints each change of a task until it ends. The exit code is that of its end: 0 if it completed without an error.
pub async fn run(tasks: &Tasks, id: &str, json: bool) -> anyhow::Result<ExitCode> {
    let mut last = None;
    loop {
        let task = tasks.task(&Caller::operator(), id).await.map_err(|fault| said(&fault, id))?;
        let shown = line(&task);
        if last.as_ref() != Some(&shown) {
            match json {
                true => output::json(task.view().render().as_str()),
                false => say!("{}  {shown}", task.updated_at),
            }
            last = Some(shown);
        }
        if !task.is_live() {
            return Ok(match task.status() {
                TaskStatus::Completed => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints each task, and again whenever it changes. Ends at Ctrl-C.
pub async fn all(tasks: &Tasks, json: bool) -> anyhow::Result<ExitCode> {
    let mut known: HashMap<TaskId, Timestamp> = HashMap::new();
    loop {
        let summaries = operator::find_tasks(tasks, None).await?;
        for summary in &summaries {
            if known.insert(summary.id, summary.updated_at) == Some(summary.updated_at) {
                continue;
            }
            if json {
                output::json(as_json(summary));
                continue;
            }
            let (status, message) = (summary.status.as_str(), summary.status_message.as_deref());
            let text =
                format!("{}  {status:<14}  {}  {}", summary.id, summary.tool, message.unwrap_or_default());
            say!("{}  {}", summary.updated_at, visible::line(text.trim_end()));
        }
        known.retain(|id, _| summaries.iter().any(|summary| summary.id == *id));
        tokio::time::sleep(PAUSE).await;
    }
}

fn line(task: &Task) -> String {
    let message = task.status_message.as_deref().unwrap_or_default();
    visible::line(&format!("{}  {message}", task.status().as_str())).trim_end().to_owned()
}
