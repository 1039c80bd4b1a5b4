//! `toolyard tasks show --timeline` and `toolyard tasks logs`: the events of a task.

use super::said;
use crate::command::table::table;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, Dispatch, EventKind, Fault, Timeline, TimelineEvent, visible};

/// Events that are read at once.
const PAGE: u32 = 500;
/// How often `--follow` looks for new events. The host that runs the task writes them as often.
const PAUSE: Duration = Duration::from_millis(250);

/// Prints the attempts at a task and all its events.
pub async fn show(dispatch: &Dispatch, id: &str, json: bool) -> anyhow::Result<()> {
    let mut after = None;
    let mut events = table(&["TIME", "ELAPSED", "ATTEMPT", "EVENT", "DETAILS"]);
    let mut first = None;
    loop {
        let Timeline { events: found, more, .. } = page(dispatch, id, after).await?;
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
                details(event),
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
pub async fn logs(dispatch: &Dispatch, id: &str, follow: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut after = None;
    loop {
        // Before the events are read, so that none of them comes after the last look.
        let is_live = match dispatch.task(&Caller::operator(), id).await {
            Ok(task) => task.is_live(),
            Err(Fault::UnknownTask) => false,
            Err(fault) => return Err(said(&fault, id)),
        };
        let Timeline { events, more, .. } = page(dispatch, id, after).await?;
        for event in &events {
            match event.kind {
                EventKind::Log | EventKind::Stdout | EventKind::Stderr | EventKind::LeftOut if json => {
                    output::json(as_json(event));
                }
                EventKind::Log | EventKind::Stdout | EventKind::Stderr | EventKind::LeftOut => {
                    say!("{}  {}", event.at, visible::line(&details(event)));
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

async fn page(dispatch: &Dispatch, id: &str, after: Option<u64>) -> anyhow::Result<Timeline> {
    dispatch.timeline(&Caller::operator(), id, after, PAGE).await.map_err(|fault| said(&fault, id))
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

/// The details of an event in one line.
fn details(event: &TimelineEvent) -> String {
    let body = body(event);
    let text = |name: &str| match &body[name] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    match event.kind {
        EventKind::Log => {
            let logger = text("logger").map(|logger| format!(" {logger}:")).unwrap_or_default();
            let (level, data) = (text("level").unwrap_or_default(), text("data").unwrap_or_default());
            format!("{level}{logger} {data}")
        }
        EventKind::LeftOut => {
            let (events, bytes) = (text("events").unwrap_or_default(), text("bytes").unwrap_or_default());
            format!("{events} events are missing here ({bytes} bytes)")
        }
        EventKind::Progress => {
            let of = text("total").map(|total| format!(" of {total}")).unwrap_or_default();
            let message = text("message").map(|message| format!(" {message}")).unwrap_or_default();
            format!("{}{of}{message}", text("progress").unwrap_or_default())
        }
        _ => {
            let names = ["status", "code", "key", "method", "reason", "message", "incarnation"];
            names.into_iter().filter_map(text).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_dispatch::{RawJson, Timestamp};

    fn event(kind: EventKind, body: &'static str) -> TimelineEvent {
        TimelineEvent { seq: 1, attempt: 1, at: Timestamp(0), kind, body: RawJson::trusted(body) }
    }

    #[test]
    fn the_details_of_an_event_are_one_line_of_words() {
        for (kind, body, expected) in [
            (EventKind::Log, r#"{"level":"info","data":"so"}"#, "info so"),
            (
                EventKind::Log,
                r#"{"level":"error","logger":"disk","data":{"full":1}}"#,
                r#"error disk: {"full":1}"#,
            ),
            (EventKind::Progress, r#"{"progress":1.5,"total":3.0,"message":"half"}"#, "1.5 of 3.0 half"),
            (
                EventKind::Ended,
                r#"{"status":"failed","code":-32603,"message":"broke"}"#,
                "failed -32603 broke",
            ),
            (EventKind::LeftOut, r#"{"events":3,"bytes":99}"#, "3 events are missing here (99 bytes)"),
            (EventKind::Queued, "{}", ""),
        ] {
            assert_eq!(details(&event(kind, body)), expected);
        }
    }
}
