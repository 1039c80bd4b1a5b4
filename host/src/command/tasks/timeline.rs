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
    let mut after = None;
    let mut events = table(&["TIME", "ELAPSED", "ATTEMPT", "EVENT", "DETAILS"]);
    let mut first = None;
    loop {
        let Timeline { events: found, more, .. } = page(tasks, id, after).await?;
        for event in &found {
            let began = first.get_or_insert(event.at.0);
            if json {
                output::json(as_json(event));
                continue;
            }
            events.add_row([
                event.at.to_string(),
                format!("{:.3} s", (event.at.0 - *began) as f64 / 1_000.0),
                event.attempt.to_string(),
                event.kind.as_str().to_owned(),
                event.details(),
            ]);
        }
        after = found.last().map(|last| last.seq).or(after);
        if !more {
            break;
        }
    }
    if !json {
        say!("{events}");
    }
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

/// Why a task no longer resumes, if its timeline says so.
pub(super) async fn unresumable_reason(store: &dyn Backend, task: TaskId) -> anyhow::Result<Option<String>> {
    let mut after = None;
    loop {
        let Timeline { events, more, .. } = store.timeline(task, after, PAGE).await?;
        if let Some(why) = reason_in(&events) {
            return Ok(Some(why));
        }
        after = events.last().map(|last| last.seq).or(after);
        if !more {
            return Ok(None);
        }
    }
}

/// The same, of the tasks of a dispatcher.
pub(super) async fn unresumable_reason_of(tasks: &Tasks, id: &str) -> anyhow::Result<Option<String>> {
    let mut after = None;
    loop {
        let Timeline { events, more, .. } = page(tasks, id, after).await?;
        if let Some(why) = reason_in(&events) {
            return Ok(Some(why));
        }
        after = events.last().map(|last| last.seq).or(after);
        if !more {
            return Ok(None);
        }
    }
}

fn reason_in(events: &[TimelineEvent]) -> Option<String> {
    let event = events.iter().find(|event| event.kind == EventKind::Unresumable)?;
    Some(body(event)["message"].as_str().unwrap_or_default().to_owned())
}

/// All events of a task, for an export.
pub(super) async fn events(store: &dyn Backend, task: TaskId) -> anyhow::Result<Vec<serde_json::Value>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let Timeline { events, more, .. } = store.timeline(task, after, PAGE).await?;
        all.extend(events.iter().map(as_json));
        after = events.last().map(|last| last.seq).or(after);
        if !more {
            return Ok(all);
        }
    }
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
