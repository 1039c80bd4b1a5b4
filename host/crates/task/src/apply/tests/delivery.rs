//! Whether the caller of a task has been told of it.

use super::*;
use crate::task::Bridged;

fn undelivered() -> Task {
    Task { bridged: Some(Bridged { waited_ms: 5, undelivered: true }), ..task() }
}

#[test]
fn a_caller_is_told_once_also_after_the_end_and_clients_see_no_change() {
    let now = Timestamp(IN_TIME);
    let told = apply(&undelivered(), Event::Delivered, now).expect("not told before");
    assert!(!told.is_undelivered());
    assert_eq!((told.version, told.updated_at), (2, undelivered().updated_at));
    assert_eq!(apply(&told, Event::Delivered, now), Err(Refusal::AlreadyDelivered));
    let ended = apply(&undelivered(), finished(result(false)), now).expect("is live");
    let Transition { task: told, effects } =
        transition(&ended, Event::Delivered, now).expect("the one event after the end");
    let bridged = Some(Bridged { waited_ms: 5, undelivered: false });
    assert_eq!(told, Task { bridged, version: 3, ..ended });
    assert!(!effects.contains(&Some(Effect::RecordEnd)), "the end was counted before");
    assert_eq!(apply(&told, cancelled(), now), Err(Refusal::Terminal));
    let stopped = apply(&undelivered(), cancelled(), now).expect("is live");
    assert!(!stopped.is_undelivered(), "no call joins a cancelled task");
}

#[test]
fn a_status_message_says_that_the_caller_stopped_waiting() {
    let now = Timestamp(IN_TIME);
    let left = apply(&undelivered(), Event::CallerLeft, now).expect("not told");
    assert_eq!(left.status_message.as_deref(), Some("waits (its caller stopped waiting)"));
    let again = apply(&left, Event::CallerLeft, now).expect("not told");
    assert_eq!(again.status_message, left.status_message, "it says so once");
    assert_eq!(caller_left(None), "Running (its caller stopped waiting)");
    assert_eq!(apply(&task(), Event::CallerLeft, now), Err(Refusal::AlreadyDelivered), "it knows the task");
}
