//! The export format of tasks: one JSON object a line.

use crate::monotonic_clock::MAX_SKEW_MS;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use toolyard_task::wire::{RawJson, Timestamp};
use toolyard_task::{Incarnation, Outcome, Task};

/// The format of the lines that this release writes, and the latest that it reads.
pub const FORMAT: u32 = 1;

/// No store creates counters or times beyond this bound. They would leave no room for later ones.
const MAX_INTEGER: u64 = 1 << 53;

/// A store continues counting from the version of a live task and from the number of its host, so a
/// line must not bring them near 2^53, beyond which lines cannot be read. No host gets
/// there: it would have to change one task a thousand times a second for 35 years.
pub const MAX_COUNTER: u64 = 1 << 40;

/// Why a line is not a task.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Not JSON, or not of this shape.
    #[error("not a task of format {FORMAT}")]
    Malformed(#[from] serde_json::Error),
    /// Written by a later release.
    #[error("format {0} is not known here, only up to {FORMAT}; import it with the release that wrote it")]
    Newer(u32),
    /// No store can have contained it.
    #[error("{0}")]
    Impossible(&'static str),
    /// Longer than any store writes it, or with a character that PostgreSQL cannot store.
    #[error("`{field}` is longer than {most} bytes or holds a NUL character")]
    Text {
        /// The field.
        field: &'static str,
        /// The maximum length of the field, in bytes.
        most: usize,
    },
    /// The time of the line is later than the current time.
    #[error("`{field}` ({at}) is ahead of the store's clock ({now}); check the clock of this machine")]
    Ahead {
        /// The field.
        field: &'static str,
        /// The time in the field.
        at: Timestamp,
        /// The time of the clock.
        now: Timestamp,
    },
}

#[derive(Serialize)]
struct TaskLine<'a> {
    format: u32,
    task: &'a Task,
    arguments: &'a RawJson,
    outcome: &'a Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<&'a [serde_json::Value]>,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedLine {
    #[serde(rename = "format")]
    _format: u32,
    task: Task,
    arguments: RawJson,
    outcome: Option<Outcome>,
    /// For people and other programs. A store makes the timeline of its tasks itself.
    #[serde(rename = "timeline", default)]
    _timeline: IgnoredAny,
}

/// A task as one line, without the line end. Line breaks within JSON that is stored verbatim become
/// spaces; they can only occur between two of its tokens. The events of its timeline are added if they are
/// given; [`read_line`] ignores them.
///
/// # Errors
/// The error of `serde_json` if the JSON in the task is invalid.
pub fn line(task: &Task, timeline: Option<&[serde_json::Value]>) -> Result<String, serde_json::Error> {
    let Task { arguments, outcome, .. } = task;
    let line = serde_json::to_string(&TaskLine { format: FORMAT, task, arguments, outcome, timeline })?;
    Ok(if line.contains(['\n', '\r']) { line.replace(['\n', '\r'], " ") } else { line })
}

/// The task in a line.
///
/// # Errors
/// [`LineError`], if it is not what [`line`] writes.
pub fn read_line(text: &str) -> Result<Task, LineError> {
    let Format { format } = serde_json::from_str(text)?;
    if format == 0 {
        return Err(LineError::Impossible("`format` counts from 1"));
    }
    if format > FORMAT {
        return Err(LineError::Newer(format));
    }
    let ParsedLine { task, arguments, outcome, .. } = serde_json::from_str(text)?;
    let task = Task { arguments, outcome, ..task };
    check(&task).map_err(LineError::Impossible)?;
    check_texts(&task)?;
    Ok(task)
}

/// Every store keeps these fields in separate columns, most of them indexed. In PostgreSQL, an
/// index entry has at most 2,704 bytes, and text contains no NUL. Hosts write far less: a subject
/// has at most 255 bytes, an id of a session or a digest 64.
fn check_texts(task: &Task) -> Result<(), LineError> {
    let (owner, session) = (task.owner.key(), task.session.as_ref().map_or("", |id| &id.0));
    for (field, text, most) in [
        ("owner", &*owner, 2_048),
        ("session", session, 256),
        ("digest", &task.digest.0, 256),
        ("tool", &task.tool, 2_048),
    ] {
        if text.len() > most || text.contains('\0') {
            return Err(LineError::Text { field, most });
        }
    }
    Ok(())
}

/// How many milliseconds a store must wait until every time in this task has passed.
///
/// # Errors
/// [`LineError::Ahead`] if that exceeds the possible difference between the clocks of two machines.
pub fn ahead(task: &Task, now: Timestamp) -> Result<u64, LineError> {
    let times = [
        ("created_at", Some(task.created_at)),
        ("updated_at", Some(task.updated_at)),
        ("started_at", task.started_at),
    ];
    let mut longest = 0;
    for (field, at) in times.into_iter().filter_map(|(field, at)| Some((field, at?))) {
        longest = longest.max(at.since(now));
        if longest > MAX_SKEW_MS {
            return Err(LineError::Ahead { field, at, now });
        }
    }
    Ok(longest)
}

fn check(task: &Task) -> Result<(), &'static str> {
    let time = |ms: i64| ms.unsigned_abs() < MAX_INTEGER;
    let started = task.started_at.map_or(0, |at| at.0);
    let Incarnation(incarnation) = task.fence.incarnation;
    match () {
        () if !task.arguments.is_object() => Err("`arguments` is not an object"),
        () if !(1..MAX_INTEGER).contains(&task.version) => Err("`version` counts from 1"),
        () if task.is_live() && task.version > MAX_COUNTER => Err("`version` is out of bounds"),
        () if incarnation >= MAX_INTEGER => Err("`fence.incarnation` is out of bounds"),
        () if task.fence.attempt == 0 => Err("`fence.attempt` counts from 1"),
        () if task.ttl_ms >= MAX_INTEGER => Err("`ttl_ms` is out of bounds"),
        () if !time(task.created_at.0) || !time(task.updated_at.0) || !time(started) => {
            Err("a time is out of bounds")
        }
        () if task.updated_at < task.created_at => Err("`updated_at` is before `created_at`"),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_task::task::{Era, Fence};
    use toolyard_task::wire::{RequestedTtl, RpcError, Timestamp};
    use toolyard_task::{Digest, Owner, SessionId, TaskId};
    use uuid::Uuid;

    fn task() -> Task {
        Task {
            id: TaskId(Uuid::from_u128(7)),
            owner: Owner::Local,
            session: None,
            era: Era::Sessions,
            client_capabilities: RawJson::trusted("{\n}"),
            tool: "a.tool".into(),
            digest: Digest("ab".repeat(32)),
            arguments: RawJson::trusted("{ \"a\" :\r\n1.50 }"),
            progress_token: None,
            requested_ttl: RequestedTtl::Absent,
            ttl_ms: 1_000,
            poll_interval_ms: 1_000,
            created_at: Timestamp(1_000),
            updated_at: Timestamp(1_001),
            status_message: Some("line\nbreak".into()),
            version: 2,
            fence: Fence { incarnation: Incarnation(1), attempt: 1 },
            started_at: None,
            effects: false,
            rerun: false,
            resume: None,
            bridged: None,
            unresumable: None,
            approval: None,
            questions: Vec::new(),
            outcome: Some(Outcome::Error(RpcError::new(-1, "no"))),
        }
    }

    #[test]
    fn a_task_is_one_line_and_reads_back() {
        let text = line(&task(), None).expect("encodes");
        assert!(!text.contains(['\n', '\r']), "{text}");
        let arguments = RawJson::trusted("{ \"a\" :  1.50 }");
        let expected = Task { arguments, client_capabilities: RawJson::trusted("{ }"), ..task() };
        let back = read_line(&text).expect("decodes");
        assert_eq!(back, expected);
        assert_eq!(line(&back, None).expect("encodes"), text);
    }

    #[test]
    fn a_time_ahead_of_the_clock_is_named_unless_clocks_may_differ_by_it() {
        let task = Task { started_at: Some(Timestamp(1_000)), ..task() };
        assert_eq!(ahead(&task, Timestamp(2_000)).expect("has ended"), 0);
        assert_eq!(ahead(&task, Timestamp(900)).expect("a little"), 101);
        let later = Timestamp(1_001 + 60_001);
        for (field, task) in [
            ("`created_at`", Task { created_at: later, ..task.clone() }),
            ("`updated_at`", Task { updated_at: later, ..task.clone() }),
            ("`started_at`", Task { started_at: Some(later), ..task.clone() }),
            ("`started_at`", Task { started_at: Some(Timestamp(i64::MAX)), ..task.clone() }),
        ] {
            let error = ahead(&task, Timestamp(1_001)).expect_err(field).to_string();
            assert!(error.contains(field) && error.contains("ahead of the store's clock"), "{error}");
            assert!(ahead(&task, later).is_ok() || field == "`started_at`");
        }
    }

    #[test]
    fn texts_that_not_every_store_can_keep_are_refused_by_name() {
        let long = "x".repeat(3_000);
        for bad in ["a\0b", &*long] {
            let session = || Some(SessionId(bad.into()));
            let subject = Owner::Subject { issuer: "i".into(), subject: bad.into() };
            for (field, task) in [
                ("`owner`", Task { owner: Owner::Session(SessionId(bad.into())), ..task() }),
                ("`owner`", Task { owner: subject, ..task() }),
                ("`session`", Task { session: session(), ..task() }),
                ("`digest`", Task { digest: Digest(bad.into()), ..task() }),
                ("`tool`", Task { tool: bad.into(), ..task() }),
            ] {
                let text = line(&task, None).expect("encodes");
                let error = read_line(&text).expect_err(field).to_string();
                assert!(error.contains(field), "{error}");
            }
        }
    }

    #[test]
    fn what_no_store_can_have_had_is_refused_in_words() {
        let text = line(&task(), None).expect("encodes");
        for (from, to, says) in [
            ("\"format\":1", "\"format\":2", "format 2 is not known here"),
            ("\"format\":1", "\"format\":0", "`format` counts from 1"),
            ("\"format\":1", "\"form\":1", "not a task of format 1"),
            ("\"version\":2", "\"version\":0", "`version`"),
            ("\"attempt\":1", "\"attempt\":0", "`fence.attempt`"),
            ("\"incarnation\":1", "\"incarnation\":18446744073709551615", "`fence.incarnation`"),
            ("{ \"a\" :  1.50 }", "[]", "`arguments`"),
            ("\"outcome\":", "\"outcomes\":", "not a task"),
            ("{\"format\"", "[{\"format\"", "not a task"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = read_line(&changed).expect_err(&changed);
            assert!(error.to_string().contains(says), "{error}");
        }
        let live = line(&Task { outcome: None, ..task() }, None).expect("encodes");
        for (version, taken) in [(MAX_COUNTER, true), (MAX_COUNTER + 1, false), (MAX_INTEGER - 1, false)] {
            let of = |text: &str| text.replacen("\"version\":2", &format!("\"version\":{version}"), 1);
            assert_eq!(read_line(&of(&live)).is_ok(), taken, "{version}");
            read_line(&of(&text)).expect("an ended task changes no more, so its version stays readable");
        }
        let times = text.replacen("\"updated_at\":1001", "\"updated_at\":1", 1);
        assert_ne!(times, text);
        assert!(matches!(read_line(&times), Err(LineError::Impossible(_))));
    }
}
