//! Audit entries are committed together with their change, and kept until they are exported.

use crate::{AMPLE, BOUND, Fixture, START, change, created, finish, owner, result, task};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;
use toolyard_store::Store;
use toolyard_task::audit::{Action, By, Entry};
use toolyard_task::store::{CommitStatus, Quota};
use toolyard_task::{Event, Outcome, Task, TaskId};

/// All pending lines, as pairs of the id and the rest of the line.
pub async fn waiting(store: &dyn Store) -> Vec<(String, serde_json::Value)> {
    let batches = store.pending(10_000).await.expect("answers");
    assert!(batches.is_sorted_by(|a, b| a.number < b.number), "out of order");
    let read = |line: &String| {
        let mut value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let id = value["id"].take();
        (id.as_str().expect("an id").to_owned(), value)
    };
    batches.iter().flat_map(|batch| &batch.lines).map(read).collect()
}

/// The actions of all pending lines.
pub async fn actions(store: &dyn Store) -> Vec<String> {
    let lines = waiting(store).await;
    lines.iter().map(|(_, line)| line["action"].as_str().expect("an action").to_owned()).collect()
}

fn noted(reason: &str) -> Entry {
    Entry::new(Action::Unknown, &By::principal("x", None)).for_reason(reason)
}

/// A refused creation and a late commit leave no entry. A change that is done leaves its entry,
/// with the store's time.
pub async fn t_43_an_entry_is_there_if_and_only_if_its_change_is(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    assert_eq!(actions(&*here).await, [""; 0]);
    let made = created(&*here, task(&owner("a"))).await;
    let entry = || vec![Entry::created(&made, &By::client())];
    assert!(here.create(made.clone(), AMPLE, entry().into()).await.is_err(), "the id is there");
    let none = Quota { per_owner: 0, parked_per_owner: 9, in_all: 9 };
    assert!(here.create(task(&owner("a")), none, entry().into()).await.is_err(), "there is no room");
    assert_eq!(actions(&*there).await, ["task.created"]);

    fixture.clock.advance(1_500);
    let ended = finish(&*here, &made, result()).await;
    let ending = || {
        let event = Event::Finished { fence: made.fence, outcome: result(), message: None };
        Entry::changed(&event, &ended, &By::host())
    };
    let stale = Task { version: made.version + 1, ..ended.clone() };
    assert_eq!(here.commit(&stale, ending().into()).await.expect("answers"), CommitStatus::Stale);
    let unknown = Task { id: task(&owner("a")).id, ..ended.clone() };
    assert_eq!(here.commit(&unknown, ending().into()).await.expect("answers"), CommitStatus::Stale);
    // A change that needs no entry leaves no empty row either.
    let lines = waiting(&*there).await;
    let said: Vec<_> = lines.iter().map(|(_, line)| (&line["action"], &line["at"], &line["task"])).collect();
    let id = serde_json::json!(made.id);
    let at = [made.created_at.to_string(), ended.updated_at.to_string()].map(serde_json::Value::from);
    assert_eq!(said, [(&"task.created".into(), &at[0], &id), (&"task.ended".into(), &at[1], &id)]);
    assert_eq!(made.created_at.0, START);
}

/// An entry that belongs to no change is written nevertheless; an exported entry is forgotten, and
/// its id is not used again.
pub async fn t_43_what_is_noted_is_written_in_order_and_forgotten_when_exported(fixture: Fixture) {
    let (here, there) = (fixture.store(), fixture.store());
    let mut ids = BTreeSet::new();
    for round in 0..3 {
        for number in 0..10 {
            here.note(noted(&format!("{round}.{number}")));
        }
        tokio::time::timeout(BOUND, here.written()).await.expect("is notified");
        here.exported(0).await.expect("writes");
        let lines = waiting(&*there).await;
        let reasons: Vec<_> = lines.iter().map(|(_, line)| line["reason"].as_str().expect("one")).collect();
        let expected: Vec<_> = (0..10).map(|number| format!("{round}.{number}")).collect();
        assert_eq!(reasons, expected);
        ids.extend(lines.into_iter().map(|(id, _)| id));
        let batches = there.pending(10_000).await.expect("answers");
        assert_eq!(there.pending(1).await.expect("answers"), batches[..1]);
        let last = batches.last().expect("some").number;
        there.exported(last).await.expect("forgets");
        there.exported(last).await.expect("does no harm");
        assert_eq!(waiting(&*here).await, []);
    }
    assert_eq!(ids.len(), 30, "an id came twice");
}

/// However many changes share a transaction or lose a race, each acknowledged change has one entry,
/// and no other change has any.
pub async fn t_43_of_changes_that_race_each_is_written_once(fixture: Fixture) {
    let hosts = [fixture.store(), fixture.store()];
    let mut lanes = JoinSet::new();
    for lane in 0..32_usize {
        let hosts: [Arc<dyn Store>; 2] = hosts.clone();
        lanes.spawn(async move {
            let made = created(&*hosts[lane % 2], task(&owner("a"))).await;
            let finished = Event::Finished { fence: made.fence, outcome: result(), message: None };
            let cancelled = Event::Cancelled { message: String::new() };
            let (one, two) =
                tokio::join!(change(&*hosts[0], made.id, &finished), change(&*hosts[1], made.id, &cancelled));
            let won = one.expect("is there").or(two.expect("is there")).expect("one of them won");
            let ending =
                if won.outcome == Some(Outcome::Cancelled) { "task.cancelled" } else { "task.ended" };
            (made.id, ending.to_owned())
        });
    }
    let expected: BTreeSet<(TaskId, String)> = lanes.join_all().await.into_iter().collect();
    let lines = waiting(&*hosts[0]).await;
    let of = |line: &serde_json::Value| {
        let task = line["task"].as_str().and_then(TaskId::parse).expect("a task");
        (task, line["action"].as_str().expect("an action").to_owned())
    };
    let found: Vec<_> = lines.iter().map(|(_, line)| of(line)).collect();
    assert_eq!(found.len(), 64, "one creation and one end each");
    let ends: BTreeSet<_> = found.into_iter().filter(|(_, action)| action != "task.created").collect();
    assert_eq!(ends, expected);
    let ids: BTreeSet<_> = lines.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 64, "an id came twice");
}

/// Without an export, the oldest entries are dropped, and a line in the rest says how many, however
/// often that happens.
pub async fn the_oldest_entries_give_way_and_are_counted(fixture: Fixture) {
    let store = fixture.store();
    for round in 0..4_u64 {
        for number in 0..5 {
            store.note(noted(&format!("{round}.{number}")));
            store.exported(0).await.expect("writes");
        }
        assert_eq!(store.trim(1 << 20).await.expect("answers"), 0, "there is room");
        // There is room only for the last entry; earlier losses are counted again.
        let length = 120;
        let lost = store.trim(length).await.expect("trims");
        let lines = waiting(&*store).await;
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0].1["reason"], format!("{round}.4"));
        assert_eq!(lines[1].1["action"], "audit.lost");
        assert_eq!(lines[1].1["count"], lost);
        let before = if round == 0 { 0 } else { 1 };
        assert!(lost >= 4 + before, "{lost}");
    }
    let lost = store.trim(0).await.expect("trims");
    // Every entry except the line that reports the loss, which counts itself each time it is
    // dropped.
    assert!(lost >= 20, "{lost}");
    assert_eq!(actions(&*store).await, ["audit.lost"]);
}
