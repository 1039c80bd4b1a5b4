//! `toolyard tasks show --timeline` and `toolyard tasks logs`: the events of a task.

use super::said;
use crate::command::table::table;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, EventKind, Fault, TaskId, Tasks, Timeline, TimelineEvent, visible};
use toolyard_store::Backend;

/// Events that are read at once.
const PAGE: u32 = 500;
/// How often `--follow` looks for new events. The host that runs the task writes them as often.
const PAUSE: Duration = Duration::from_millis(250);

/// Prints the attempts at a task and all its events.
pub async fn show(tasks: &Tasks, id: &str, json: bool) -> anyhow::Result<()> {
    let events = of_task(tasks, id).await?;
    if json {
        events.iter().for_each(|event| output::json(as_json(event)));
        return Ok(());
    }
    let mut rows = table(&["TIME", "ELAPSED", "ATTEMPT", "EVENT", "DETAILS"]);
    let began = events.first().map_or(0, |first| first.at.0);
    for event in &events {
        rows.add_row([
            event.at.to_string(),
            format!("{:.3} s", (event.at.0 - began) as f64 / 1_000.0),
            event.attempt.to_string(),
            event.kind.as_str().to_owned(),
            event.details(),
        ]);
    }
    say!("{rows}");
    Ok(())
}

/// Prints what the guest of a task logs; with `follow`, until the task ends.
pub async fn logs(tasks: &Tasks, id: &str, follow: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut after = None;
    loop {
        // Before the events are read, so that none of them comes after the last look.
        let is_live = match tasks.task(&Caller::operator(), id).await {
            Ok(task) => task.is_live(),
            Err(Fault::UnknownTask) => false,
            Err(fault) => return Err(said(&fault, id)),
        };
        let Timeline { events, more, .. } = page(tasks, id, after).await?;
        for event in &events {
            match event.kind {
                EventKind::Log | EventKind::Stdout | EventKind::Stderr | EventKind::LeftOut if json => {
                    output::json(as_json(event));
                }
                EventKind::Stdout | EventKind::Stderr => {
                    for line in event.details().lines() {
                        say!("{}  {} {}", event.at, event.kind.as_str(), visible::line(line));
                    }
                }
                EventKind::Log | EventKind::LeftOut => {
                    say!("{}  {}", event.at, visible::line(&event.details()));
                }
                _ => {}
            }
        }
        after = events.last().map(|last| last.seq).or(after);
        if more {
            continue;
        }
        if !follow || !is_live {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn page(tasks: &Tasks, id: &str, after: Option<u64>) -> anyhow::Result<Timeline> {
    tasks.timeline(&Caller::operator(), id, after, PAGE).await.map_err(|fault| said(&fault, id))
}

/// All events of a task.
async fn of_task(tasks: &Tasks, id: &str) -> anyhow::Result<Vec<TimelineEvent>> {
    all(async |after| page(tasks, id, after).await).await
}

/// All events of a task in the store.
async fn in_store(store: &dyn Backend, task: TaskId) -> anyhow::Result<Vec<TimelineEvent>> {
    all(async |after| Ok(store.timeline(task, after, PAGE).await?)).await
}

/// All events of a timeline that is read page by page.
async fn all(
    page: impl AsyncFn(Option<u64>) -> anyhow::Result<Timeline>,
) -> anyhow::Result<Vec<TimelineEvent>> {
    let (mut all, mut after): (Vec<TimelineEvent>, _) = (Vec::new(), None);
    loop {
        let Timeline { events, more, .. } = page(after).await?;
        after = events.last().map(|last| last.seq).or(after);
        all.extend(events);
        if !more {
            return Ok(all);
        }
    }
}

/// Why a task in the store no longer resumes, if that is in its timeline.
pub(super) async fn unresumable_reason(store: &dyn Backend, task: TaskId) -> anyhow::Result<Option<String>> {
    Ok(reason(&in_store(store, task).await?))
}

/// Why a task no longer resumes, if that is in its timeline.
pub(super) async fn unresumable_reason_of(tasks: &Tasks, id: &str) -> anyhow::Result<Option<String>> {
    Ok(reason(&of_task(tasks, id).await?))
}

fn reason(events: &[TimelineEvent]) -> Option<String> {
    let event = events.iter().find(|event| event.kind == EventKind::Unresumable)?;
    Some(body(event)["message"].as_str().unwrap_or_default().to_owned())
}

fn body(event: &TimelineEvent) -> serde_json::Value {
    event.body.decode().unwrap_or_default()
}

fn as_json(event: &TimelineEvent) -> serde_json::Value {
    serde_json::json!({
        "seq": event.seq,
        "attempt": event.attempt,
        "at": event.at.to_string(),
        "event": event.kind.as_str(),
        "details": body(event),
    })
}
