//! Fail points: named places at which a test stops the process, to examine the state that it
//! leaves. The feature `failpoints` compiles them, only for the binary `toolyard-failpoints` of the
//! tests; a release contains none.
//!
//! Code that changes the behavior of a process that continues does not belong here. A fail point
//! kills the process as `kill -9` does, or stops it as `kill -STOP` does.

use rustix::process::Signal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use toolyard_task::Task;
use toolyard_task::audit::Action;
use toolyard_task::store::Records;
use toolyard_task::timeline::EventKind;

/// The changes of a task and its journal.
const WHAT: [&str; 14] = [
    "create", "start", "finish", "cancel", "ask", "answer", "orphan", "claim", "release", "expire", "park",
    "wake", "append", "change",
];
/// The moments: before any write; after the write and before the commit; after the commit and
/// before any answer.
const WHEN: [&str; 3] = ["before", "uncommitted", "committed"];
/// Places outside the store.
const ELSEWHERE: [&str; 12] = [
    "drain.begun",
    // A change of the plugin folder, and its steps.
    "install.staged",
    "install.committed",
    "install.step-0",
    "install.step-1",
    "install.step-2",
    "install.step-3",
    "install.step-4",
    "install.done",
    // A restore, before a store is in its place.
    "restore.unpacked",
    "restore.filled",
    "restore.placing",
];

/// The place and the signal that ends the process.
struct Armed {
    name: String,
    /// How many more times the place must be reached.
    left: AtomicU32,
    signal: Signal,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Arms a fail point: `NAME`, or `NAME:COUNT` to act when the place is reached for the COUNTth
/// time. A final `:stop` stops the process instead of killing it.
///
/// # Errors
/// The fault of the text.
pub fn arm(text: &str) -> Result<(), String> {
    let armed = Armed::named(text).ok_or_else(|| format!("there is no fail point `{text}`"))?;
    ARMED.set(armed).map_err(|_| "a fail point is armed already".to_owned())
}

impl Armed {
    fn named(text: &str) -> Option<Self> {
        let (text, signal) = match text.strip_suffix(":stop") {
            Some(text) => (text, Signal::STOP),
            None => (text, Signal::KILL),
        };
        let (name, count) = text.split_once(':').unwrap_or((text, "1"));
        let known = ELSEWHERE.contains(&name)
            || name.split_once('.').is_some_and(|(what, when)| WHAT.contains(&what) && WHEN.contains(&when));
        let count = count.parse().ok().filter(|count| known && *count > 0)?;
        Some(Self { name: name.to_owned(), left: AtomicU32::new(count), signal })
    }
}

/// Reports that the process has reached this place.
pub fn reach(name: &str) {
    let Some(armed) = ARMED.get().filter(|armed| armed.name == name) else { return };
    if armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::error!(event = "failpoint.reached", name, "fail point reached");
        // The signal goes to this thread, so that it stops here: any thread may receive a signal to
        // the process, and this one would continue until that thread runs. SAFETY: the call takes a
        // number and touches no memory of this process.
        let failed = unsafe { libc::raise(armed.signal.as_raw()) };
        // It cannot fail; a test that waits for the end would notice.
        if failed != 0 {
            tracing::error!(event = "failpoint.signal_failed", "cannot stop this process");
        }
    }
}

/// Reports that the process has reached this place in a change of a task.
pub fn reach_in(what: &str, when: &str) {
    reach(&format!("{what}.{when}"));
}

/// The change of a task, as the audit log names it.
pub fn what(after: &Task, records: &Records) -> &'static str {
    match records.audit.first().map(|entry| entry.action) {
        Some(Action::Ended) => "finish",
        Some(Action::Cancelled) => "cancel",
        Some(Action::Asked) => "ask",
        Some(Action::Answered) => "answer",
        Some(Action::Orphaned) => "orphan",
        Some(Action::Claimed) => "claim",
        Some(Action::Released) => "release",
        Some(Action::Expired) => "expire",
        None if after.parked().is_some() => "park",
        None if records.timeline.iter().any(|event| event.kind == EventKind::Woken) => "wake",
        None if has_just_started(after) => "start",
        _ => "change",
    }
}

/// Whether the last change of the task is its start, or came just after it.
fn has_just_started(task: &Task) -> bool {
    let just_now = task.started_at.is_some_and(|at| at.0 + 1 >= task.updated_at.0);
    just_now && !task.effects && task.questions.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fail_point_has_a_known_name_a_count_and_a_signal() {
        let armed = |text: &str| {
            let Armed { name, left, signal } = Armed::named(text)?;
            Some((name, left.into_inner(), signal))
        };
        let of = |name: &str, count, signal| Some((name.to_owned(), count, signal));
        assert_eq!(armed("create.before"), of("create.before", 1, Signal::KILL));
        assert_eq!(armed("finish.uncommitted:3"), of("finish.uncommitted", 3, Signal::KILL));
        assert_eq!(armed("drain.begun:stop"), of("drain.begun", 1, Signal::STOP));
        assert_eq!(armed("claim.committed:2:stop"), of("claim.committed", 2, Signal::STOP));
        for odd in ["", "create", "create.after", "made.before", "create.before:0", "create.before:x:stop"] {
            assert_eq!(armed(odd), None, "{odd}");
        }
    }
}
