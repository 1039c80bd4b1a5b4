//! Listings.

use crate::{Fixture, START, TTL, change, created, finish, owner, remove, result, task};
use std::collections::HashSet;
use toolyard_store::Store;
use toolyard_task::store::{After, ListQuery};
use toolyard_task::task::{EXPIRED_KEPT_MS, Summary};
use toolyard_task::{Event, Outcome, Owner, Task, TaskId};

async fn page(store: &dyn Store, owner: Option<&Owner>, after: Option<&Summary>, limit: u32) -> Vec<Summary> {
    let after = after.map(|last| After { created_at: last.created_at, id: last.id });
    store.list(&ListQuery { owner: owner.cloned(), after, limit }).await.expect("lists")
}

fn ids(page: &[Summary]) -> Vec<TaskId> {
    page.iter().map(|summary| summary.id).collect()
}

/// By creation time; by id, where several tasks were created in the same millisecond.
pub async fn tasks_are_listed_by_creation_and_id(fixture: Fixture) {
    let store = fixture.store();
    let mut all: Vec<Task> = Vec::new();
    for round in 0..5 {
        for _ in 0..5 {
            all.push(created(&*store, task(&owner("a"))).await);
        }
        fixture.clock.set(START + 10 * (round + 1));
    }
    let ended = finish(&*store, &all[3], Outcome::Cancelled).await;
    all[3] = ended;
    all.sort_by_key(|task| (task.created_at, task.id));
    let expected: Vec<Summary> = all.iter().map(Summary::of).collect();
    assert_eq!(page(&*store, Some(&owner("a")), None, 100).await, expected);
    assert_eq!(page(&*store, None, None, 100).await, expected);
    assert_eq!(page(&*store, Some(&owner("a")), None, 0).await, []);
    assert_eq!(page(&*store, Some(&owner("a")), Some(&expected[6]), 3).await, expected[7..10]);
    assert_eq!(page(&*store, None, Some(&expected[23]), 3).await, expected[24..]);
    assert_eq!(page(&*store, None, Some(&expected[24]), 3).await, []);
}

/// Tasks are created, changed and removed between two pages; a task that exists throughout is
/// listed exactly once.
pub async fn pages_are_stable_under_change(fixture: Fixture) {
    let store = fixture.store();
    let me = owner("a");
    let mut stay = HashSet::new();
    let mut go = Vec::new();
    for number in 0..40 {
        let ttl_ms = if number % 4 == 0 { 100 } else { TTL };
        let made = created(&*store, Task { ttl_ms, ..task(&me) }).await;
        if ttl_ms == TTL {
            stay.insert(made.id);
        } else {
            finish(&*store, &made, result()).await;
            go.push(made.id);
        }
        fixture.clock.advance(number % 2);
    }
    let mut seen = Vec::new();
    let mut last: Option<Summary> = None;
    let mut pages = 0;
    loop {
        let page = page(&*store, Some(&me), last.as_ref(), 7).await;
        let Some(end) = page.last().cloned() else { break };
        seen.extend(ids(&page));
        last = Some(end);
        pages += 1;
        if pages == 2 {
            fixture.clock.advance(1_000);
            assert_eq!(remove(&*store, &go).await, 10);
        }
        let someone = *stay.iter().next().expect("there are some");
        // Ended or not, a task stays until its ttl.
        let _ = change(&*store, someone, &Event::Cancelled { message: "so".into() }).await;
        if pages < 5 {
            stay.insert(created(&*store, task(&me)).await.id);
        }
    }
    let unique: HashSet<TaskId> = seen.iter().copied().collect();
    assert_eq!(unique.len(), seen.len(), "one was listed twice");
    assert!(stay.is_subset(&unique), "one was left out");
}

/// An owner sees only its own tasks; the operator sees all.
pub async fn tasks_of_others_are_not_listed(fixture: Fixture) {
    let store = fixture.store();
    let owners = [owner("a"), owner("b"), Owner::Local];
    let mut made = Vec::new();
    for owner in &owners {
        made.push(created(&*store, task(owner)).await.id);
        fixture.clock.advance(1);
    }
    for (owner, id) in owners.iter().zip(&made) {
        assert_eq!(ids(&page(&*store, Some(owner), None, 9).await), [*id]);
    }
    assert_eq!(page(&*store, Some(&owner("c")), None, 9).await, []);
    assert_eq!(ids(&page(&*store, None, None, 9).await), made);
}

/// An ended task whose ttl has passed is not listed, even if it is not removed yet; a live one is.
pub async fn gone_tasks_are_not_listed(fixture: Fixture) {
    let store = fixture.store();
    let me = owner("a");
    let ended = created(&*store, task(&me)).await;
    finish(&*store, &ended, result()).await;
    let live = created(&*store, task(&me)).await;
    let listed = async || {
        let all = ids(&page(&*store, None, None, 9).await);
        assert_eq!(ids(&page(&*store, Some(&me), None, 9).await), all);
        all.into_iter().collect::<HashSet<_>>()
    };
    fixture.clock.set(START + TTL.cast_signed() - 1);
    assert_eq!(listed().await, HashSet::from([ended.id, live.id]));
    fixture.clock.advance(1);
    assert_eq!(listed().await, HashSet::from([live.id]));
    // A task that its ttl ended is shown for a while and then disappears as well.
    let expired = change(&*store, live.id, &Event::Expired).await.expect("is there").expect("is due");
    assert_eq!(listed().await, HashSet::from([live.id]));
    fixture.clock.set(expired.updated_at.plus(EXPIRED_KEPT_MS).0);
    assert_eq!(listed().await, HashSet::new());
}
