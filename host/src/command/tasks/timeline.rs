//! `toolyard tasks show --timeline` and `toolyard tasks logs`: the events of a task.

use super::said;
use crate::command::table::{Column, object, of_rows};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, EventKind, Fault, TaskId, Tasks, Timeline, TimelineEvent, visible};
use toolyard_store::Backend;

/// Events that are read at once.
const PAGE: u32 = 500;
/// How often `--follow` looks for new events. The host that runs the task writes them as often.
const PAUSE: Duration = Duration::from_millis(250);

/// An event, and the time of the first one in milliseconds.
type Row<'a> = (&'a TimelineEvent, i64);

const fn columns<'a>() -> [Column<Row<'a>>; 7] {
    [
        Column::member("seq", |(event, _)| event.seq.into()),
        Column::new("TIME", "at", |(event, _)| event.at.to_string().into()),
        Column::shown("ELAPSED", |(event, began)| {
            format!("{:.3} s", (event.at.0 - began) as f64 / 1_000.0).into()
        }),
        Column::new("ATTEMPT", "attempt", |(event, _)| event.attempt.into()),
        Column::new("EVENT", "event", |(event, _)| event.kind.as_str().into()),
        Column::shown("DETAILS", |(event, _)| event.details().into()),
        Column::member("details", |(event, _)| body(event)),
    ]
}

/// Prints the attempts at a task and all its events.
pub async fn show(tasks: &Tasks, id: &str, json: bool) -> anyhow::Result<ExitCode> {
    let events = all(async |after| page(tasks, id, after).await).await?;
    let began = events.first().map_or(0, |first| first.at.0);
    match json {
        true => events.iter().for_each(print_json),
        false => {
            say!("{}", of_rows(&columns(), &events.iter().map(|event| (event, began)).collect::<Vec<_>>()))
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(event: &TimelineEvent) {
    output::json(object(&columns(), &(event, 0)));
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
                    print_json(event);
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

/// Why a task no longer resumes, if that is in its timeline.
pub(super) async fn unresumable_reason(store: &dyn Backend, task: TaskId) -> anyhow::Result<Option<String>> {
    let events = all(async |after| Ok(store.timeline(task, after, PAGE).await?)).await?;
    let event = events.iter().find(|event| event.kind == EventKind::Unresumable);
    Ok(event.map(|event| body(event)["message"].as_str().unwrap_or_default().to_owned()))
}

fn body(event: &TimelineEvent) -> serde_json::Value {
    event.body.decode().unwrap_or_default()
}
