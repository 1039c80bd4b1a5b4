//! The timeline of a task: its attempts, and what happened in each.

use crate::text::{count, line, precise};
use maud::{Markup, PreEscaped, html};
use toolyard_dispatch::{Caller, Dispatch, EventKind, Fault, RunRecord, Timeline, TimelineEvent, Timestamp};

/// Events that are read at once. A timeline has at most 256 KiB.
const PAGE: u32 = 500;
/// The events that a page shows: the first ones and the latest ones.
const FIRST: usize = 40;
const LATEST: usize = 160;

/// All events of a task that is known to exist, and its attempts.
pub(super) async fn read(dispatch: &Dispatch, id: &str) -> Result<Timeline, Fault> {
    let mut all = Timeline::default();
    loop {
        let after = all.events.last().map(|event| event.seq);
        let page = dispatch.tasks().await?.timeline(&Caller::operator(), id, after, PAGE).await?;
        all.runs = page.runs;
        all.events.extend(page.events);
        if !page.more {
            return Ok(all);
        }
    }
}

pub(super) fn section(timeline: &Timeline, now: Timestamp, is_live: bool, shows: bool) -> Markup {
    let events = &timeline.events;
    let hidden = events.len().saturating_sub(FIRST + LATEST);
    let end = if is_live { now } else { events.last().map_or(now, |event| event.at) };
    let Some(began) = events.first().map(|event| event.at) else {
        return html! { p.muted { "No events are kept." } };
    };
    let row = |event: &TimelineEvent| {
        let (shape, word) = word(event.kind);
        html! {
            tr.(event.kind.as_str()) {
                td { time datetime=(event.at) title=(event.at) { "+" (between(began, event.at)) } }
                td { span aria-hidden="true" { (shape) } " " (word) }
                td.long { @if shows || !is_content(event.kind) { (line(&event.details())) } }
            }
        }
    };
    let attempt = |run: &RunRecord| {
        let of_run =
            |from: usize, to: usize| events[from..to].iter().filter(|event| event.attempt == run.attempt);
        let head = if hidden > 0 { FIRST } else { events.len() };
        html! {
            @if timeline.runs.len() > 1 { h3 { "Attempt " (run.attempt) } }
            (bar(run, events, end))
            (facts(run))
            div.scroll tabindex="0" role="region" aria-label={ "Events of attempt " (run.attempt) } { table.events {
                thead { tr { th scope="col" { "After" } th scope="col" { "Event" } th scope="col" { "Details" } } }
                tbody {
                    @for event in of_run(0, head) { (row(event)) }
                    @if hidden > 0 && of_run(FIRST, FIRST + hidden).next().is_some() {
                        tr { td {} td { "…" } td.long {
                            (count(hidden, "event is", "events are")) " not shown; "
                            code { "toolyard tasks show --timeline" } " prints all."
                        } }
                    }
                    @if hidden > 0 { @for event in of_run(FIRST + hidden, events.len()) { (row(event)) } }
                }
            } }
        }
    };
    html! {
        @for run in &timeline.runs { (attempt(run)) }
        @if is_live { p.muted { "Log messages and progress appear within a quarter of a second, and so much may be lost if the host is killed." } }
    }
}

fn between(from: Timestamp, to: Timestamp) -> String {
    precise(to.0.saturating_sub(from.0).max(0))
}

/// Whether the details of an event are content of a caller or a guest.
const fn is_content(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Progress
            | EventKind::Status
            | EventKind::Log
            | EventKind::Stdout
            | EventKind::Stderr
            | EventKind::Asked
            | EventKind::Ended
    )
}

fn facts(run: &RunRecord) -> Markup {
    let parts = [
        run.started.map(|started| format!("waited {}", between(run.created, started))),
        run.started.zip(run.ended).map(|(started, ended)| format!("ran {}", between(started, ended))),
        run.cpu_us.map(|cpu| format!("{:.1} ms of CPU time", cpu as f64 / 1_000.0)),
        run.memory.map(|memory| format!("{:.1} MiB of memory at most", memory as f64 / 1_048_576.0)),
        run.outcome.as_deref().map(line),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    html! { @if !parts.is_empty() { p.muted { (parts.join(", ")) } } }
}

/// The shape and the word of an event.
const fn word(kind: EventKind) -> (&'static str, &'static str) {
    match kind {
        EventKind::Created => ("+", "created"),
        EventKind::Queued => ("◐", "queued"),
        EventKind::Started => ("●", "started"),
        EventKind::Progress => ("▸", "progress"),
        EventKind::Status => ("▸", "status"),
        EventKind::Log => ("≡", "log"),
        EventKind::Stdout => ("≡", "stdout"),
        EventKind::Stderr => ("≡", "stderr"),
        EventKind::Asked => ("?", "asked"),
        EventKind::Answered => ("✓", "answered"),
        EventKind::Approved => ("✓", "approved"),
        EventKind::Denied => ("✕", "denied"),
        EventKind::HostCall => ("→", "host call"),
        EventKind::Effects => ("!", "effects begin"),
        EventKind::Released => ("–", "left by its host"),
        EventKind::Claimed => ("+", "taken over"),
        EventKind::Ended => ("■", "ended"),
        EventKind::LeftOut => ("…", "left out"),
        EventKind::Parked => ("–", "parked"),
        EventKind::Woken => ("+", "woken"),
        EventKind::Unresumable => ("!", "cannot be resumed"),
        EventKind::Doubt => ("!", "request in doubt"),
    }
}

/// A part of an attempt's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Asking,
}

impl Phase {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Waiting => ("waiting", "waits"),
            Self::Running => ("running", "runs"),
            Self::Asking => ("asking", "asks"),
        }
    }
}

/// The phases of an attempt, each with its begin and end.
fn phases(run: &RunRecord, events: &[TimelineEvent], end: Timestamp) -> Vec<(Phase, i64, i64)> {
    let (mut phase, mut since, mut open) = (Phase::Waiting, run.created.0, 0_usize);
    let mut phases = Vec::new();
    for event in events.iter().filter(|event| event.attempt == run.attempt) {
        let next = match event.kind {
            EventKind::Started => Phase::Running,
            EventKind::Asked => {
                open += 1;
                Phase::Asking
            }
            EventKind::Answered => {
                open = open.saturating_sub(1);
                if open == 0 { Phase::Running } else { Phase::Asking }
            }
            EventKind::Approved | EventKind::Queued => {
                open = 0;
                Phase::Waiting
            }
            _ => phase,
        };
        if next != phase {
            phases.push((phase, since, event.at.0));
            (phase, since) = (next, event.at.0);
        }
    }
    let end = run.ended.unwrap_or(end).0;
    phases.push((phase, since, end.max(since)));
    phases
}

/// The phases of an attempt to scale.
fn bar(run: &RunRecord, events: &[TimelineEvent], end: Timestamp) -> Markup {
    let phases = phases(run, events, end);
    let (Some((_, first, _)), Some((.., last))) = (phases.first(), phases.last()) else { return html! {} };
    let all = (last - first).max(1) as f64;
    let label: Vec<String> = phases
        .iter()
        .map(|(phase, from, to)| format!("{} {}", phase.words().1, precise(to - from)))
        .collect();
    html! {
        svg.bar viewBox="0 0 1000 12" preserveAspectRatio="none" role="img" aria-label=(label.join(", ")) {
            @for ((phase, from, to), label) in phases.iter().zip(&label) {
                (PreEscaped(format!("<rect class=\"{}\" x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"12\">",
                    phase.words().0, (from - first) as f64 / all * 1_000.0, ((to - from) as f64 / all * 1_000.0).max(1.0))))
                title { (label) }
                (PreEscaped("</rect>"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_dispatch::{Digest, Incarnation, RawJson};

    fn run() -> RunRecord {
        RunRecord {
            attempt: 1,
            tool: "t".into(),
            digest: Digest(String::new()),
            owner: "local".into(),
            incarnation: Incarnation(1),
            created: Timestamp(0),
            started: Some(Timestamp(10)),
            ended: Some(Timestamp(100)),
            outcome: Some("completed".into()),
            cpu_us: None,
            memory: None,
            bytes: 0,
        }
    }

    fn event(at: i64, kind: EventKind) -> TimelineEvent {
        TimelineEvent {
            seq: at as u64 + 1,
            attempt: 1,
            at: Timestamp(at),
            kind,
            body: RawJson::trusted("{}"),
        }
    }

    #[test]
    fn an_attempt_waits_runs_asks_and_runs_again() {
        let events = [
            event(0, EventKind::Created),
            event(0, EventKind::Queued),
            event(10, EventKind::Started),
            event(20, EventKind::Asked),
            event(20, EventKind::Asked),
            event(30, EventKind::Answered),
            event(40, EventKind::Answered),
            event(100, EventKind::Ended),
        ];
        let expected = [
            (Phase::Waiting, 0, 10),
            (Phase::Running, 10, 20),
            (Phase::Asking, 20, 40),
            (Phase::Running, 40, 100),
        ];
        assert_eq!(phases(&run(), &events, Timestamp(500)), expected);
    }

    #[test]
    fn a_long_timeline_shows_its_begin_and_its_end() {
        let events: Vec<_> = (0..1_000).map(|at| event(at, EventKind::Log)).collect();
        let timeline = Timeline { runs: vec![run()], events, more: false };
        let shown = section(&timeline, Timestamp(1_000), false, true).into_string();
        assert_eq!(shown.matches("</tr>").count(), 1 + FIRST + 1 + LATEST);
        assert!(shown.contains("800 events are not shown"));
    }
}
