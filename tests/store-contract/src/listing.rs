//! Listings.

use crate::{Fixture, START, created, finish, owner, task};
use toolyard_store::Store;
use toolyard_task::store::{After, ListQuery};
use toolyard_task::task::Summary;
use toolyard_task::{Outcome, Owner, Task, TaskId};

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
