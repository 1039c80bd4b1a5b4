//! Listings.

use crate::{Fixture, START, created, finish, owner, task};
use toolyard_task::store::{After, ListQuery};
use toolyard_task::task::Summary;
use toolyard_task::{Outcome, Owner, Task};

/// By creation time; by id, where several tasks were created in the same millisecond. An owner sees only its own tasks;
/// the operator sees all.
pub async fn tasks_are_listed_to_their_owners_by_creation_and_id(fixture: Fixture) {
    let store = fixture.store();
    let owners = [owner("a"), owner("b"), Owner::Local];
    let mut all: Vec<Task> = Vec::new();
    for round in 0..5 {
        for number in 0..6 {
            all.push(created(&*store, task(&owners[number % 3])).await);
        }
        fixture.clock.set(START + 10 * (round + 1));
    }
    all[3] = finish(&*store, &all[3], Outcome::Cancelled).await;
    all.sort_by_key(|task| (task.created_at, task.id));
    for of in owners.map(Some).into_iter().chain([None]) {
        let seen = all.iter().filter(|task| of.as_ref().is_none_or(|of| *of == task.owner));
        let expected: Vec<Summary> = seen.map(Summary::of).collect();
        let page = async |after: Option<&Summary>, limit: u32| {
            let after = after.map(|last| After { created_at: last.created_at, id: last.id });
            store.list(&ListQuery { owner: of.clone(), after, limit }).await.expect("lists")
        };
        assert_eq!(page(None, 100).await, expected);
        assert_eq!(page(None, 0).await, []);
        assert_eq!(page(Some(&expected[5]), 3).await, expected[6..9]);
        let last = expected.len() - 1;
        assert_eq!(page(Some(&expected[last - 1]), 3).await, expected[last..]);
        assert_eq!(page(Some(&expected[last]), 3).await, []);
    }
    let of_nobody = ListQuery { owner: Some(owner("c")), after: None, limit: 9 };
    assert_eq!(store.list(&of_nobody).await.expect("lists"), []);
}
