//! Timelines of tasks.

use crate::{
    Fixture, ManualClock, TTL, applied, claimed, created, eventually, finish, owner, remove, result, task,
};
use std::time::Duration;
use toolyard_store::Store;
use toolyard_task::store::{CommitStatus, Records};
use toolyard_task::task::Resume;
use toolyard_task::timeline::EventKind::{
    Claimed, Created, Effects, Ended, Log, Parked, Queued, Started, Unresumable, Woken,
};
use toolyard_task::timeline::{EventKind, LOST, LeftOut, NewEvent, Timeline, TimelineBounds, TimelineEvent};
use toolyard_task::tool::RunUsage;
use toolyard_task::wire::{LogLevel, RawJson};
use toolyard_task::{Event, Incarnation, Task, TaskId};

/// The whole timeline of a task.
pub async fn timeline(store: &dyn Store, id: TaskId) -> Timeline {
    store.timeline(id, None, 100_000).await.expect("reads")
}

/// The kinds of a task's events.
pub async fn kinds(store: &dyn Store, id: TaskId) -> Vec<EventKind> {
    timeline(store, id).await.events.iter().map(|event| event.kind).collect()
}

/// A log message with this text, at the first attempt.
pub fn log(text: &str) -> NewEvent {
    NewEvent::log(1, LogLevel::Info, None, &RawJson::of(text))
}

async fn started(store: &dyn Store, task: &Task) -> Task {
    applied(store, task.id, Event::Started { fence: task.fence }).await
}

/// An event of a change exists if and only if the change does.
pub async fn lifecycle_events_come_with_their_changes(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    assert_eq!(kinds(&*store, made.id).await, [Created, Queued]);
    fixture.clock.advance(5);
    let begun = started(&*store, &made).await;
    let effects = Event::Effects { fence: made.fence };
    applied(&*store, made.id, effects.clone()).await;
    let stale = store.commit(&begun, Records::changed(&effects, &begun, &toolyard_task::audit::By::host()));
    assert_eq!(stale.await.expect("answers"), CommitStatus::Stale);
    fixture.clock.advance(5);
    let ended = finish(&*store, &begun, result()).await;
    let Timeline { runs, events, more } = timeline(&*store, made.id).await;
    assert!(!more);
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Created, Queued, Started, Effects, Ended]);
    assert!(events.is_sorted_by(|one, next| one.seq < next.seq && one.at <= next.at));
    assert_eq!((events[0].at, events[4].at), (made.created_at, ended.updated_at));
    assert_eq!(events[4].body.as_str(), r#"{"status":"completed"}"#);
    let [run] = &runs[..] else { panic!("one attempt: {runs:?}") };
    assert_eq!((run.attempt, run.tool.as_str(), &run.digest), (1, made.tool.as_str(), &made.digest));
    assert_eq!((run.created, run.started), (made.created_at, begun.started_at));
    assert_eq!((run.ended, run.outcome.as_deref()), (Some(ended.updated_at), Some("completed")));
    assert_eq!(run.incarnation, made.fence.incarnation);
    assert!(run.bytes > 0);
}

/// Events are written soon, although nothing else is. Those that wait come before the change that follows them, and
/// pages show each once.
pub async fn events_of_a_run_come_soon_and_in_their_order(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    store.append(made.id, log("line 0"));
    let there = async || kinds(&*store, made.id).await.last() == Some(&Log);
    eventually("the event to be written", there).await;
    for number in 1..5 {
        store.append(made.id, log(&format!("line {number}")));
    }
    let (cpu, wall) = (Duration::from_micros(1_234), Duration::from_millis(9));
    store.append_usage(made.id, 1, RunUsage { cpu, wall, memory: Some(65_536) });
    let unknown = task(&owner("a")).id;
    store.append(unknown, log("of no task"));
    finish(&*store, &made, result()).await;
    let whole = timeline(&*store, made.id).await;
    let kinds: Vec<_> = whole.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds[..2], [Created, Queued]);
    assert_eq!(kinds[2..], [vec![Log; 5], vec![Ended]].concat());
    assert_eq!(whole.events[2].body.as_str(), r#"{"level":"info","data":"line 0"}"#);
    assert_eq!((whole.runs[0].cpu_us, whole.runs[0].memory), (Some(1_234), Some(65_536)));
    assert_eq!(timeline(&*store, unknown).await, Timeline::default());
    let (mut after, mut found) = (None, Vec::<TimelineEvent>::new());
    loop {
        let page = store.timeline(made.id, after, 3).await.expect("reads");
        assert!(page.events.len() <= 3 && page.runs == whole.runs);
        after = page.events.last().map(|last| last.seq);
        found.extend(page.events);
        if !page.more {
            break;
        }
    }
    assert_eq!(found, whole.events);
}

/// The attempt of a host that is gone is lost, and the next one has its own record.
pub async fn a_second_attempt_has_its_own_record(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, Task { rerun: true, ..task(&owner("a")) }).await;
    started(&*store, &made).await;
    fixture.clock.advance(7);
    let from = made.fence.incarnation;
    let second = applied(&*store, made.id, claimed(from, Incarnation(from.0 + 1), 0)).await;
    assert_eq!(second.fence.attempt, 2);
    let begun = started(&*store, &second).await;
    store.append(made.id, NewEvent { attempt: 2, ..log("again") });
    finish(&*store, &begun, result()).await;
    let Timeline { runs, events, .. } = timeline(&*store, made.id).await;
    let [first, next] = &runs[..] else { panic!("two attempts: {runs:?}") };
    assert_eq!((first.outcome.as_deref(), first.ended), (Some(LOST), Some(second.updated_at)));
    assert_eq!((next.attempt, next.outcome.as_deref()), (2, Some("completed")));
    assert_eq!((next.incarnation, &next.digest), (second.fence.incarnation, &second.digest));
    assert_eq!(next.created, second.updated_at);
    let of_second = events.iter().filter(|event| event.attempt == 2).map(|event| event.kind);
    assert_eq!(of_second.collect::<Vec<_>>(), [Claimed, Started, Log, Ended]);
}

/// The first quarter of a long timeline stays, and the newest events; the gap says how many are missing.
pub async fn a_long_timeline_keeps_its_beginning_and_its_end(fixture: Fixture) {
    const EVENTS: u64 = 100;
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    let text = "x".repeat(8_000);
    for number in 0..EVENTS {
        store.append(made.id, log(&format!("{number} {text}")));
        if number % 20 == 19 {
            // The buffer is bounded as well.
            let said = Event::Said { fence: made.fence, message: number.to_string() };
            applied(&*store, made.id, said).await;
        }
    }
    finish(&*store, &made, result()).await;
    let Timeline { events, runs, .. } = timeline(&*store, made.id).await;
    let bytes: u64 = events.iter().map(|event| event.body.as_bytes().len() as u64).sum();
    assert!((100_000..=256 << 10).contains(&bytes), "{bytes} bytes");
    // Sealed bodies are a little longer.
    assert!((bytes..bytes + 100 * 64).contains(&runs[0].bytes), "{} of {bytes}", runs[0].bytes);
    let gaps: Vec<&TimelineEvent> = events.iter().filter(|event| event.kind == EventKind::LeftOut).collect();
    let [gap] = &gaps[..] else { panic!("one gap: {gaps:?}") };
    let missing: LeftOut = gap.body.decode().expect("numbers");
    // Created, queued, five status messages and the end are events as well.
    assert_eq!(missing.events + events.len() as u64 - 1, EVENTS + 8);
    assert!(missing.bytes > missing.events * 7_000);
    assert_eq!(events[0].kind, Created);
    assert!(events[2].body.as_str().contains("\"0 xx"), "the beginning is there");
    assert_eq!(events.last().map(|event| event.kind), Some(Ended));
    assert!(events[events.len() - 3].body.as_str().contains("\"99 xx"), "the end is there");
}

/// The events of a task are removed with it. The records of its attempts are kept longer.
pub async fn events_go_with_their_task_and_records_stay(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    finish(&*store, &made, result()).await;
    fixture.clock.advance(TTL);
    assert_eq!(remove(&*store, &[made.id]).await, 1);
    store.append(made.id, log("late"));
    store.tidy_timeline().await.expect("tidies");
    let Timeline { runs, events, .. } = timeline(&*store, made.id).await;
    assert_eq!(events, []);
    assert_eq!((runs.len(), runs[0].bytes, runs[0].outcome.as_deref()), (1, 0, Some("completed")));
    let live = created(&*store, task(&owner("a"))).await;
    fixture.clock.advance(8 * 24 * 3_600_000);
    store.tidy_timeline().await.expect("tidies");
    assert_eq!(timeline(&*store, made.id).await, Timeline::default());
    assert_eq!(timeline(&*store, live.id).await.events.len(), 2, "a live task keeps its timeline");
}

/// Bounds that a few tasks exceed.
pub fn narrow() -> TimelineBounds {
    TimelineBounds { total: 30_000, rows: 3, ..TimelineBounds::default() }
}

/// All timelines together have bounds, which are [`narrow`] in this store.
pub async fn the_timelines_that_ended_first_give_way(store: &dyn Store, clock: &ManualClock) {
    let mut made = Vec::new();
    for _ in 0..5 {
        clock.advance(1);
        let task = created(store, task(&owner("a"))).await;
        store.append(task.id, log(&"x".repeat(9_000)));
        made.push(finish(store, &task, result()).await.id);
    }
    let kept = async || {
        let mut kept = Vec::new();
        for id in &made {
            let Timeline { runs, events, .. } = timeline(store, *id).await;
            kept.push((runs.len(), events.len()));
        }
        kept
    };
    for _ in 0..2 {
        store.tidy_timeline().await.expect("tidies");
        assert_eq!(kept().await, [(1, 1), (1, 1), (1, 4), (1, 4), (1, 4)], "a gap is left of the oldest");
    }
    clock.advance(TTL);
    assert_eq!(remove(store, &made).await, 5);
    store.tidy_timeline().await.expect("tidies");
    assert_eq!(kept().await, [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)], "the oldest records go first");
}

/// A task that parks ends its attempt, whose host stays known. The next attempt begins when a host wakes it.
pub async fn a_parked_attempt_is_not_lost(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, Task { resume: Some(Resume::default()), ..task(&owner("a")) }).await;
    let begun = started(&*store, &made).await;
    fixture.clock.advance(5);
    let parked = Event::Parked { fence: begun.fence, wake: None, reached: 1 };
    applied(&*store, made.id, parked).await;
    fixture.clock.advance(7);
    let by = Incarnation(made.fence.incarnation.0 + 1);
    let woken = applied(&*store, made.id, Event::Woken { by }).await;
    let lasting = Event::Unresumable { fence: woken.fence, why: "its journal is full".into() };
    applied(&*store, made.id, lasting).await;
    finish(&*store, &woken, result()).await;
    let kept = timeline(&*store, made.id).await;
    let runs = kept.runs.iter().map(|run| (run.attempt, run.incarnation, run.outcome.as_deref()));
    let first = (1, made.fence.incarnation, Some("parked"));
    assert_eq!(runs.collect::<Vec<_>>(), [first, (2, by, Some("completed"))]);
    // Clients do not see these changes, so the task has other times.
    let (left, taken) = (made.created_at.plus(5), made.created_at.plus(12));
    assert_eq!((kept.runs[0].started, kept.runs[0].ended), (begun.started_at, Some(left)));
    assert_eq!((kept.runs[1].created, kept.events[3].at, kept.events[4].at), (taken, left, taken));
    let expected = [Created, Queued, Started, Parked, Woken, Started, Unresumable, Ended];
    assert_eq!(kinds(&*store, made.id).await, expected);
}
