//! The timeline of a task, which people read: the events of its runs, and the port to their store.
//!
//! Lifecycle events come with the commit of the change that they belong to, in [`Records`]. Everything
//! else that a run reports is buffered and joins the writer's next commit. It waits for nothing and makes
//! nothing wait, so a host that is killed loses its last fraction of a second.
//!
//! [`Records`]: crate::store::Records

mod details;
pub(crate) mod kind;

use crate::approval::CONFIRM_KEY;
use crate::audit::decider;
use crate::error::{AskError, StoreError};
use crate::event::Event;
use crate::host_call::{HostCall, HostCallCounts};
use crate::id::{Digest, Incarnation, TaskId};
use crate::task::{Outcome, Task};
use crate::tool::{OutputStream, RunUsage};
use crate::wire::visible::clip;
use crate::wire::{LogLevel, Progress, RawJson, Timestamp};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use toolyard_journal::{DecidedBy, DoubtDecision};

pub use kind::EventKind;

/// The most bytes of an event's body. A longer text is clipped, so that one message cannot take the place
/// of a hundred others.
pub const MAX_EVENT: usize = 16 << 10;

/// An event that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The attempt that it belongs to, from 1.
    pub attempt: u32,
    /// The kind.
    pub kind: EventKind,
    /// The details: an object, at most [`MAX_EVENT`] bytes.
    pub body: RawJson,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineEvent {
    /// The number of the event within its task; numbers grow, with gaps where events were left out.
    pub seq: u64,
    /// The attempt that it belongs to, from 1.
    pub attempt: u32,
    /// When it happened, by the store's clock.
    pub at: Timestamp,
    /// The kind.
    pub kind: EventKind,
    /// The details: an object.
    pub body: RawJson,
}

/// The record of one attempt at a task, without arguments and results. It outlives its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The tool.
    pub tool: String,
    /// The component that the tool came from.
    pub digest: Digest,
    /// The owner, as the audit log names it.
    pub owner: String,
    /// The host process.
    pub incarnation: Incarnation,
    /// When it began to wait for a slot.
    pub created: Timestamp,
    /// When a guest began to work on it.
    pub started: Option<Timestamp>,
    /// When it ended or was taken over.
    pub ended: Option<Timestamp>,
    /// How it ended: the status of the task, [`LOST`] or [`PARKED`].
    pub outcome: Option<String>,
    /// Processor time of the guest, in microseconds.
    pub cpu_us: Option<u64>,
    /// The peak linear memory of the guest, in bytes.
    pub memory: Option<u64>,
    /// The bytes of its events that are stored.
    pub bytes: u64,
}

/// The outcome of an attempt whose host was gone before the attempt ended.
pub const LOST: &str = "lost";

/// The outcome of an attempt that ended because the task waits.
pub const PARKED: &str = "parked";

impl RunRecord {
    /// The attempt that the task is at now.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let outcome = match &task.outcome {
            Some(_) => Some(task.status().as_str()),
            None => task.parked().map(|_| PARKED),
        };
        Self {
            attempt: task.fence.attempt,
            tool: clip(&task.tool, 128),
            digest: task.digest.clone(),
            owner: crate::audit::name_of(&task.owner),
            incarnation: task.fence.incarnation,
            created: if task.fence.attempt == 1 { task.created_at } else { task.updated_at },
            started: task.started_at,
            ended: outcome.map(|_| task.updated_at),
            outcome: outcome.map(str::to_owned),
            cpu_us: None,
            memory: None,
            bytes: 0,
        }
    }

    /// The record as of a commit at this time. A change that clients do not see leaves the times of the task
    /// as they were, and the time of its commit counts.
    #[must_use]
    pub fn committed_at(self, at: Timestamp) -> Self {
        let created = if self.attempt == 1 { self.created } else { at };
        Self { created, ended: self.ended.map(|_| at), ..self }
    }

    /// The later state of the same attempt. It keeps the values that only the earlier state knows, and the
    /// host of an attempt that is parked.
    #[must_use]
    pub fn updated(self, now: Self) -> Self {
        let incarnation =
            if now.incarnation == Incarnation::NOBODY { self.incarnation } else { now.incarnation };
        let Self { created, cpu_us, memory, bytes, .. } = self;
        Self { created, cpu_us, memory, bytes, incarnation, ..now }
    }
}

/// A page of a task's timeline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// All attempts.
    pub runs: Vec<RunRecord>,
    /// The events after the requested one, in order.
    pub events: Vec<TimelineEvent>,
    /// Whether there are more events after these.
    pub more: bool,
}

/// The body of [`EventKind::LeftOut`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many events are missing.
    pub events: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
}

impl LeftOut {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { events: self.events + other.events, bytes: self.bytes + other.bytes }
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineBounds {
    /// Bytes of the events of one task.
    pub task: u64,
    /// Bytes of the events of all tasks.
    pub total: u64,
    /// How long the record of an attempt is kept after its end (milliseconds).
    pub keep_ms: u64,
    /// Records of attempts whose tasks are removed.
    pub rows: u64,
}

/// The most bytes of the timeline of one task: its log, its progress and its other events. The first quarter and
/// the newest events stay, which show how a run began and ended.
const MAX_TASK_BYTES: u64 = 256 << 10;
/// The most bytes of the timelines of all tasks: a thousand at their bound.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// The most records of runs whose tasks are removed. A record takes a few hundred bytes, so that they need about
/// 20 MiB of disk.
const MAX_ROWS: u64 = 50_000;

impl Default for TimelineBounds {
    fn default() -> Self {
        Self { task: MAX_TASK_BYTES, total: MAX_TOTAL_BYTES, keep_ms: 7 * 24 * 3_600_000, rows: MAX_ROWS }
    }
}

/// The store of timelines. Lifecycle events come with the commits of
/// [`TaskStore`](crate::TaskStore), and the events of a task are removed with it.
#[async_trait]
pub trait TimelineStore: Send + Sync + 'static {
    /// Accepts an event of a run. Does not wait: the event is written with the next commit, or soon, and
    /// never makes the disk flush. The buffer is bounded; a [`LeftOut`] says how many were lost.
    fn append(&self, task: TaskId, event: NewEvent);

    /// Accepts the resources that an attempt used, in the same way.
    fn append_usage(&self, task: TaskId, attempt: u32, used: RunUsage);

    /// The timeline of a task after this event. Without attempts, nothing is known of the task.
    async fn timeline(&self, task: TaskId, after: Option<u64>, limit: u32) -> Result<Timeline, StoreError>;

    /// Removes what exceeds the bounds on all tasks together: events of the tasks that ended first, and
    /// the oldest records of attempts. It does a bounded amount of work and is called again.
    async fn tidy_timeline(&self) -> Result<(), StoreError>;
}

/// A range of events to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The first event. The [`LeftOut`] takes its place.
    pub from: u64,
    /// The last event.
    pub to: u64,
}

/// The events to leave out of a task whose events, with their bytes, are longer than `limit`. The first
/// quarter stays, and the newest half, so that a task at its limit is not cut at each event.
#[must_use]
pub fn cut(events: &[(u64, EventKind, u64)], limit: u64) -> Option<Cut> {
    let mut head = 0;
    let first = events.iter().take_while(|(_, kind, bytes)| {
        head += bytes;
        // A gap is where the first quarter ended before.
        head <= limit / 4 && *kind != EventKind::LeftOut
    });
    let first = first.count();
    let mut tail = 0;
    let last = events.iter().skip(first).rev().take_while(|(.., bytes)| {
        tail += bytes;
        tail <= limit / 2
    });
    let last = events.len().checked_sub(last.count() + 1)?;
    (first <= last).then(|| Cut { from: events[first].0, to: events[last].0 })
}

/// A body of an event.
#[derive(Default, Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    further: Option<HostCallCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u64>,
}

/// Room in an event for everything but its text.
const FRAME: usize = 1024;
/// The longest name of a logger or a question (characters).
const MAX_NAME: usize = 128;

/// A text as JSON, clipped so that it fits into an event.
fn fitting(text: &str) -> RawJson {
    let mut most = MAX_EVENT - FRAME;
    loop {
        let json = RawJson::of(&clip(text, most));
        if json.as_bytes().len() <= MAX_EVENT - FRAME {
            return json;
        }
        // Escapes make JSON up to six times as long as its text.
        most /= 2;
    }
}

impl NewEvent {
    fn new(attempt: u32, kind: EventKind, body: &Body<'_>) -> Self {
        Self { attempt, kind, body: RawJson::of(body) }
    }

    /// A task is created.
    #[must_use]
    pub fn created(task: &Task) -> Vec<Self> {
        let attempt = task.fence.attempt;
        let next = match task.open_approval() {
            Some(_) => {
                let body = Body { key: Some(CONFIRM_KEY.to_owned()), ..Body::default() };
                Self::new(attempt, EventKind::Asked, &body)
            }
            None if task.started_at.is_some() => Self::new(attempt, EventKind::Started, &Body::default()),
            None => Self::new(attempt, EventKind::Queued, &Body::default()),
        };
        vec![Self::new(attempt, EventKind::Created, &Body::default()), next]
    }

    /// The call has ended.
    fn ended(after: &Task) -> Self {
        let message = after.status_message.as_deref().map(fitting);
        let code = match &after.outcome {
            Some(Outcome::Error(error)) => Some(error.code),
            _ => None,
        };
        let (status, message) = (Some(after.status().as_str()), message.as_ref());
        let body = Body { status, code, message, ..Body::default() };
        Self::new(after.fence.attempt, EventKind::Ended, &body)
    }

    /// A log message of the guest. Data that is too long becomes a clipped text.
    #[must_use]
    pub fn log(attempt: u32, level: LogLevel, logger: Option<&str>, data: &RawJson) -> Self {
        let clipped = (data.as_bytes().len() > MAX_EVENT - FRAME).then(|| fitting(data.as_str()));
        let body = Body {
            level: Some(level.as_str()),
            logger: logger.map(|logger| clip(logger, MAX_NAME)),
            data: Some(clipped.as_ref().unwrap_or(data)),
            ..Body::default()
        };
        Self::new(attempt, EventKind::Log, &body)
    }

    /// How far the guest is.
    #[must_use]
    pub fn progress(attempt: u32, progress: &Progress) -> Self {
        let message = progress.message.as_deref().map(fitting);
        let body = Body {
            progress: Some(progress.progress),
            total: progress.total,
            message: message.as_ref(),
            ..Body::default()
        };
        Self::new(attempt, EventKind::Progress, &body)
    }

    /// Text of the guest on one of its streams, clipped.
    #[must_use]
    pub fn output(attempt: u32, stream: OutputStream, text: &str) -> Self {
        let kind = match stream {
            OutputStream::Stdout => EventKind::Stdout,
            OutputStream::Stderr => EventKind::Stderr,
        };
        Self::new(attempt, kind, &Body { text: Some(&fitting(text)), ..Body::default() })
    }

    /// The host has done something for the guest.
    #[must_use]
    pub fn host_call(attempt: u32, call: &HostCall) -> Self {
        Self { attempt, kind: EventKind::HostCall, body: RawJson::of(call) }
    }

    /// The host has done more for the guest than is listed.
    #[must_use]
    pub fn further_host_calls(attempt: u32, further: HostCallCounts) -> Self {
        Self::new(attempt, EventKind::HostCall, &Body { further: Some(further), ..Body::default() })
    }

    /// A request was under way when the host stopped, and it was decided what happens to it. `request` has its method
    /// and its URL without the query.
    #[must_use]
    pub fn doubt(attempt: u32, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) -> Self {
        let body = Body {
            request: Some(clip(request, 512)),
            decision: Some(decision.as_str()),
            reason: Some(decider(by)),
            ..Body::default()
        };
        Self::new(attempt, EventKind::Doubt, &body)
    }

    /// Events were lost before they were stored.
    #[must_use]
    pub fn left_out(attempt: u32, missing: LeftOut) -> Self {
        Self { attempt, kind: EventKind::LeftOut, body: RawJson::of(&missing) }
    }

    /// The events of a change, for the commit that makes it.
    #[must_use]
    pub fn changed(event: &Event, after: &Task) -> Vec<Self> {
        let attempt = after.fence.attempt;
        let Some(kind) = event.row().timeline else {
            return match event {
                Event::Decided { .. } => Self::decision(after),
                _ => Vec::new(),
            };
        };
        let one = |body: Body<'_>| vec![Self::new(attempt, kind, &body)];
        match event {
            Event::Said { message, .. } | Event::Unresumable { why: message, .. } => {
                one(Body { message: Some(&fitting(message)), ..Body::default() })
            }
            Event::Asked { questions, .. } => {
                let asked = questions.iter().map(|question| Body {
                    key: Some(clip(&question.key, MAX_NAME)),
                    method: Some(question.kind.method()),
                    ..Body::default()
                });
                asked.map(|body| Self::new(attempt, kind, &body)).collect()
            }
            Event::AskedAgain { key, .. } => {
                one(Body { key: Some(clip(key, MAX_NAME)), reason: Some("does not fit"), ..Body::default() })
            }
            Event::Answered { key, .. } if key == CONFIRM_KEY && after.open_approval().is_none() => {
                Self::decision(after)
            }
            Event::Answered { key, answer } => {
                let reason = Some(AskError::name_of(answer));
                one(Body { key: Some(clip(key, MAX_NAME)), reason, ..Body::default() })
            }
            Event::Claimed { from: host, .. }
            | Event::Taken { from: host, .. }
            | Event::Released { incarnation: host } => {
                one(Body { incarnation: Some(host.0), ..Body::default() })
            }
            Event::Woken { .. } => {
                let started = Self::new(attempt, EventKind::Started, &Body::default());
                vec![Self::new(attempt, kind, &Body::default()), started]
            }
            _ if kind == EventKind::Ended => vec![Self::ended(after)],
            _ => one(Body::default()),
        }
    }

    /// The call was approved, or was denied and has ended with that.
    fn decision(after: &Task) -> Vec<Self> {
        let decided = |kind| Self::new(after.fence.attempt, kind, &Body::default());
        match after.is_live() {
            true => vec![decided(EventKind::Approved)],
            false => vec![decided(EventKind::Denied), Self::ended(after)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_number_and_name() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::of_number(kind.number()), Some(*kind));
            let same = EventKind::ALL.iter().filter(|other| other.as_str() == kind.as_str());
            assert_eq!(same.count(), 1, "{kind:?}");
        }
        assert_eq!(EventKind::of_number(0), None);
    }

    #[test]
    fn an_event_is_clipped_whatever_it_contains() {
        let progress = |message: String| Progress { progress: 1.0, total: None, message: Some(message) };
        for text in ["\u{1}".repeat(100_000), "é".repeat(100_000), "x".repeat(17_000)] {
            let data = RawJson::of(&vec![&text]);
            let log = NewEvent::log(1, LogLevel::Info, Some(&text), &data);
            assert!(log.body.as_bytes().len() <= MAX_EVENT, "{}", log.body.as_bytes().len());
            assert!(log.body.is_object());
            let said = NewEvent::progress(1, &progress(text));
            assert!(said.body.as_bytes().len() <= MAX_EVENT && said.body.as_str().contains('…'));
        }
        let short = NewEvent::log(1, LogLevel::Info, None, &RawJson::of(&"short"));
        assert_eq!(short.body.as_str(), r#"{"level":"info","data":"short"}"#);
    }

    #[test]
    fn the_first_quarter_and_the_newest_stay_and_a_second_cut_continues_the_first() {
        let events: Vec<_> = (1..=100).map(|seq| (seq, EventKind::Log, 10)).collect();
        let made = cut(&events, 800).expect("too long");
        assert_eq!(made, Cut { from: 21, to: 60 });
        let mut left: Vec<_> = events.into_iter().filter(|(seq, ..)| *seq < 21 || *seq > 60).collect();
        // Shorter than the event that it replaces; it must not count as part of the first quarter.
        left.insert(20, (21, EventKind::LeftOut, 1));
        left.extend((101..=140).map(|seq| (seq, EventKind::Log, 10)));
        assert_eq!(cut(&left, 800), Some(Cut { from: 21, to: 100 }));
        assert_eq!(cut(&[], 800), None);
        assert_eq!(cut(&[(1, EventKind::Log, 10)], 800), None);
        assert_eq!(cut(&[1, 2].map(|seq| (seq, EventKind::Log, 900)), 800), Some(Cut { from: 1, to: 2 }));
    }
}
