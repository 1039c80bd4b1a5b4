//! A clock that jumps back and forth.

use crate::{Fixture, START, TTL, created, finish, owner, result, task};
use toolyard_task::Task;
use toolyard_task::search::{Position, Search};
use toolyard_task::store::TaskQuestion;

/// Steps of a clock that is corrected and then goes wrong again, in milliseconds.
const STEPS: [i64; 12] = [0, 5, -3, 1_000, -1_000, 1, -600_000, 2, 600_500, -50, 50, 3];

/// The store's time does not go back. So a page continues where the previous one ended, a task that
/// is created after the first page is not missing from the later ones, each change of a task is
/// later than the previous one, and no ttl passes twice.
pub async fn times_and_places_hold_whatever_the_clock_does(fixture: Fixture) {
    let store = fixture.store();
    let mut search = Search::all(Some(owner("a")), 3);
    let mut time = START;
    let (mut made, mut listed): (Vec<Task>, Vec<_>) = (Vec::new(), Vec::new());
    let mut latest = i64::MIN;
    for round in 0..10 {
        for step in STEPS {
            time += step;
            fixture.clock.set(time);
            let ttl_ms = 10 * TTL;
            let new = created(&*store, Task { ttl_ms, ..task(&owner("a")) }).await;
            assert!(new.created_at.0 >= latest, "the store's time went back");
            latest = new.created_at.0;
            let ended = if round % 2 == 0 { finish(&*store, &new, result()).await } else { new.clone() };
            assert!(ended.version == 1 || ended.updated_at > new.updated_at, "a change is later");
            let read = store.read(new.id, None).await.expect("reads").expect("is there");
            assert!(read.now.0 >= latest);
            latest = read.now.0;
            made.push(new);
            // A listing never runs ahead of the existing tasks.
            let page = store.search(&search).await.expect("lists").tasks;
            let last = page.last().map(|last| Position { at: last.created_at, id: last.id, until: None });
            search.after = last.or(search.after);
            listed.extend(page.into_iter().map(|summary| (summary.created_at, summary.id)));
        }
    }
    assert!(listed.is_sorted_by(|a, b| a < b), "in order, and none twice");
    // A task that was created in the same millisecond as the last of a page may come
    // before it, by its id. No other is missing.
    let missing = made.iter().filter(|task| !listed.contains(&(task.created_at, task.id)));
    let end = search.after.expect("there were some").at;
    for task in missing {
        let beside = listed.iter().filter(|(at, _)| *at == task.created_at).count();
        assert!(beside > 0 || task.created_at > end, "{} is missing", task.id);
    }
    fixture.clock.set(latest + (9 * TTL).cast_signed());
    let due = store.select(TaskQuestion::Due, 1_000).await.expect("answers");
    assert!(due.len() < made.len(), "the first are due, and the last are not");
    fixture.clock.set(START);
    assert_eq!(store.select(TaskQuestion::Due, 1_000).await.expect("answers"), due, "what was due stays due");
}

/// A clock that was days ahead and was corrected is trusted again, as after a restart: otherwise no
/// ttl would pass until the clock reaches the wrong time again.
pub async fn a_clock_that_was_far_ahead_is_not_followed_for_ever(fixture: Fixture) {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let store = fixture.store();
    fixture.clock.set(START + DAY);
    let ahead = created(&*store, task(&owner("a"))).await.created_at;
    fixture.clock.set(START);
    assert_eq!(created(&*store, task(&owner("a"))).await.created_at, ahead, "a day may be right");
    fixture.clock.set(START + 400 * DAY);
    created(&*store, task(&owner("a"))).await;
    fixture.clock.set(START + 2);
    let new = created(&*store, task(&owner("a"))).await;
    assert_eq!(new.created_at.0, START + 2);
    fixture.clock.set(START + 1);
    assert_eq!(created(&*store, task(&owner("a"))).await.created_at, new.created_at);
    fixture.clock.set(START + 2 + TTL.cast_signed());
    assert!(store.select(TaskQuestion::Due, 100).await.expect("answers").contains(&new.id), "its ttl passed");
}
