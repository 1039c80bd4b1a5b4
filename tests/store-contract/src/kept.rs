//! Checks the count of bytes kept for each owner, and the removal of tasks to make room.

use crate::audit::waiting;
use crate::{Fixture, TTL, applied, created, finish, owner, remove, result, task};
use toolyard_task::audit::Entry;
use toolyard_task::store::{Removable, Total};
use toolyard_task::task::Summary;
use toolyard_task::wire::RawJson;
use toolyard_task::{Event, Outcome, Owner, Task, TaskId};

/// The maximum size of a record without arguments and outcome, in bytes.
const RECORD: u64 = 2_000;

fn long(bytes: usize) -> RawJson {
    RawJson::trusted(format!("{{\"pad\":\"{}\"}}", "x".repeat(bytes)))
}

async fn kept(fixture: &Fixture, of: Option<&Owner>) -> u64 {
    fixture.store().total(Total::Bytes(of)).await.expect("answers")
}

/// A store counts arguments and outcomes, for each owner and in total, whichever host wrote them.
/// It does not count removed tasks.
pub async fn kept_bytes_are_counted_by_owner_and_in_all(fixture: Fixture) {
    let (store, other) = (fixture.store(), fixture.store());
    let (a, b) = (owner("a"), owner("b"));
    assert_eq!((kept(&fixture, Some(&a)).await, kept(&fixture, None).await), (0, 0));
    let first = created(&*store, Task { arguments: long(10_000), ..task(&a) }).await;
    let of_a = kept(&fixture, Some(&a)).await;
    assert!((10_000..10_000 + RECORD).contains(&of_a), "{of_a}");
    created(&*other, task(&b)).await;
    let of_b = kept(&fixture, Some(&b)).await;
    assert!((1..RECORD).contains(&of_b), "{of_b}");
    assert_eq!(kept(&fixture, None).await, of_a + of_b);
    let outcome = Outcome::Result { is_error: false, result: long(50_000) };
    finish(&*other, &first, outcome).await;
    let ended = kept(&fixture, Some(&a)).await;
    assert!((60_000..60_000 + RECORD).contains(&ended), "{ended}");
    assert_eq!(kept(&fixture, Some(&owner("nobody"))).await, 0);
    assert_eq!(store.largest_owners(9).await.expect("answers"), [a.clone(), b]);
    assert_eq!(store.largest_owners(1).await.expect("answers"), std::slice::from_ref(&a));
    fixture.clock.advance(TTL);
    assert_eq!(remove(&*store, &[first.id]).await, 1);
    assert_eq!((kept(&fixture, Some(&a)).await, kept(&fixture, None).await), (0, of_b));
}

/// The tasks that ended first are removed first; live tasks and those of other owners stay.
pub async fn the_tasks_that_ended_first_are_found(fixture: Fixture) {
    let store = fixture.store();
    let (a, b) = (owner("a"), owner("b"));
    let mut made = Vec::new();
    for of in [&a, &a, &b, &a, &a] {
        made.push(created(&*store, Task { arguments: long(1_000), ..task(of) }).await);
        fixture.clock.advance(1);
    }
    // Not in the order in which they were created.
    for at in [3, 0, 2] {
        finish(&*store, &made[at], result()).await;
        fixture.clock.advance(1);
    }
    applied(&*store, made[1].id, Event::Cancelled { message: "by the test".into() }).await;
    let found = async |limit| -> Vec<TaskId> {
        let found = store.ended_first(&a, limit).await.expect("answers");
        let fits = |(task, bytes): &(Summary, u64)| task.owner == a && (1_000..4_000).contains(bytes);
        assert!(found.iter().all(fits), "{found:?}");
        found.into_iter().map(|(task, _)| task.id).collect()
    };
    assert_eq!(found(9).await, [made[3].id, made[0].id, made[1].id]);
    assert_eq!(found(2).await, [made[3].id, made[0].id]);
    assert_eq!(found(0).await, []);
}

/// A store discards ended tasks before their ttl and says so in the log; live tasks stay.
pub async fn only_what_has_ended_is_discarded_and_the_log_says_so(fixture: Fixture) {
    let store = fixture.store();
    let a = owner("a");
    let (ended, live) = (created(&*store, task(&a)).await, created(&*store, task(&a)).await);
    finish(&*store, &ended, result()).await;
    let (summary, _) = store.ended_first(&a, 1).await.expect("answers").remove(0);
    let entry = Entry::discarded(&summary, "tasks.kept-bytes");
    let of = |id| (id, vec![entry.clone()]);
    let tasks = [ended.id, live.id, TaskId(crate::random())].map(of).to_vec();
    assert_eq!(store.remove(tasks, Removable::Ended).await.expect("answers"), 1);
    assert!(store.read(ended.id, None).await.expect("reads").is_none());
    assert!(store.read(live.id, None).await.expect("reads").is_some());
    assert_eq!(store.remove(vec![of(ended.id)], Removable::Ended).await.expect("answers"), 0);
    assert_eq!(store.remove(Vec::new(), Removable::Ended).await.expect("answers"), 0);
    finish(&*store, &live, result()).await;
    let mut lines = waiting(&*store).await;
    lines.retain(|(_, line)| line["action"] == "task.discarded");
    let [(_, line)] = &lines[..] else { panic!("one line: {lines:?}") };
    assert!(line["task"] == ended.id.to_string() && line["reason"] == "tasks.kept-bytes", "{line}");
}
