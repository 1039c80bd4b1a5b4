//! Exports and imports of all tasks of a store.

use crate::{Fixture, Host, START, change, created, finish, owner, result, session, task};
use toolyard_store::{Store, jsonl};
use toolyard_task::store::Records;
use toolyard_task::task::{Question, Sent};
use toolyard_task::wire::{QuestionKind, RawJson, RpcError, Timestamp};
use toolyard_task::{AskError, Event, Fence, Incarnation, Outcome, Owner, Task};

/// All tasks of a store, as lines.
async fn exported(store: &dyn Store) -> Vec<String> {
    let mut export = store.export().await.expect("begins");
    let mut all = Vec::new();
    loop {
        let page = export.next().await.expect("goes on");
        if page.is_empty() {
            return all;
        }
        all.extend(
            page.into_iter().map(|task| jsonl::line(&task.expect("can be read"), None).expect("encodes")),
        );
    }
}

fn read(lines: &[String]) -> Vec<Task> {
    lines.iter().map(|line| jsonl::read_line(line).expect("was written by us")).collect()
}

/// Removes all tasks, so that the same store can serve as an empty one.
async fn emptied(fixture: &Fixture, store: &dyn Store) {
    for summary in store.list(&everything()).await.expect("lists") {
        // Live tasks are ended first.
        let cancelled = Event::Cancelled { message: "cancelled".into() };
        let _ = change(store, summary.id, &cancelled).await.expect("is there");
    }
    fixture.clock.advance(10 * crate::TTL);
    let due = store.due(10_000).await.expect("answers");
    store.remove(&due).await.expect("removes");
    assert_eq!(store.due(1).await.expect("answers"), []);
}

fn everything() -> toolyard_task::store::ListQuery {
    toolyard_task::store::ListQuery { owner: None, after: None, limit: 10_000 }
}

/// Tasks in every possible state, with every field in use.
async fn tasks_of_all_kinds(store: &dyn Store) {
    let ends = [
        result(),
        Outcome::Result { is_error: true, result: RawJson::trusted("{\n \"isError\" : true}") },
        Outcome::Error(RpcError::new(-7, "broke").with_data(&["why"])),
        Outcome::Cancelled,
        Outcome::Expired,
    ];
    for end in ends {
        let mut made = created(store, task(&owner("a"))).await;
        made.version += 1;
        made.outcome = Some(end);
        store.commit(&made, Records::default()).await.expect("commits");
    }
    let opened = store.open(session(), 9).await.expect("opens");
    let long = format!("{{ \"long\":\"{}\" }}", "\u{e4}\\n".repeat(100_000));
    let asked = Task {
        owner: Owner::Session(opened.id.clone()),
        session: Some(opened.id.clone()),
        arguments: RawJson::trusted(long),
        started_at: Some(Timestamp(1)),
        effects: true,
        fence: Fence { incarnation: Incarnation(40), attempt: 3 },
        ..task(&owner("a"))
    };
    let mut asked = created(store, asked).await;
    let question = |key: &str, answer| Question {
        key: key.into(),
        kind: QuestionKind::Form,
        params: RawJson::trusted("{ \"q\" : 1 }"),
        attempt: 2,
        deadline: Timestamp(START + 5),
        sent: vec![Sent { id: "7".into(), session: Some(opened.id.clone()) }],
        client_task: Some("theirs".into()),
        answer,
        asked_again: 1,
    };
    asked.questions = vec![
        question("one", Some(Ok(RawJson::trusted("{ \"a\":1.0 }")))),
        question("two", Some(Err(AskError::Refused(RpcError::new(-1, "no"))))),
        question("three", None),
    ];
    asked.version += 1;
    asked.updated_at = asked.updated_at.plus(7);
    store.commit(&asked, Records::default()).await.expect("commits");
}

/// Export, import and another export give the same lines, byte for byte.
pub async fn all_tasks_leave_and_come_back_to_the_letter(fixture: Fixture) {
    let store = fixture.store();
    tasks_of_all_kinds(&*store).await;
    for number in 0..600_u64 {
        fixture.clock.advance(number % 2);
        created(&*store, task(&owner("b"))).await;
    }
    let before = exported(&*store).await;
    assert_eq!(before.len(), 606);
    emptied(&fixture, &*store).await;
    assert_eq!(exported(&*store).await, Vec::<String>::new());
    for part in read(&before).chunks(100) {
        assert_eq!(store.import(part.to_vec()).await.expect("imports") as usize, part.len());
    }
    let after = exported(&*store).await;
    assert!(before == after, "not the same lines");
    // The store also finds them by each key that it looks up.
    for task in read(&before) {
        let found = store.read(task.id, Some(&task.owner)).await.expect("reads").expect("is there").task;
        assert_eq!(found, task);
    }
    let newer = created(&*store, task(&owner("b"))).await;
    assert_eq!(exported(&*store).await.len(), 607);
    assert!(read(&before).iter().all(|task| task.created_at <= newer.created_at));
}

/// Changes during an export do not show in it.
pub async fn an_export_is_of_one_moment(fixture: Fixture) {
    let store = fixture.store();
    let mut made = Vec::new();
    for _ in 0..700 {
        fixture.clock.advance(1);
        made.push(created(&*store, task(&owner("a"))).await);
    }
    let mut export = store.export().await.expect("begins");
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let page = export.next().await.expect("goes on");
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|task| task.expect("can be read")));
        // One task that was already exported, and one that was not.
        if let Some(task) = made.get(seen.len() + pages) {
            finish(&*store, task, result()).await;
        }
        finish(&*store, &made[pages], result()).await;
        pages += 1;
        created(&*store, task(&owner("a"))).await;
    }
    assert!(seen == made, "{} were seen", seen.len());
}

/// A task whose id is known stays unchanged, however often it is imported.
pub async fn an_import_changes_no_task_that_exists(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    let other = task(&owner("b"));
    let ended = finish(&*store, &made, result()).await;
    let both = vec![made.clone(), other.clone(), other.clone()];
    assert_eq!(store.import(both.clone()).await.expect("imports"), 1);
    assert_eq!(store.import(both).await.expect("imports"), 0);
    assert_eq!(store.read(made.id, None).await.expect("reads").expect("is there").task, ended);
    let found = store.read(other.id, None).await.expect("reads").expect("is there").task;
    assert_eq!((found.created_at, found.version), (other.created_at, other.version));
}

/// No host runs an imported task: it counts as a task whose host died, even if this store never
/// knew a host of that number, and no later host gets the number.
pub async fn live_tasks_come_in_as_those_of_a_dead_host(fixture: Fixture) {
    let store = fixture.store();
    let fence = Fence { incarnation: Incarnation(70), attempt: 2 };
    let (live, over) = (
        Task { fence, ..task(&owner("a")) },
        Task {
            outcome: Some(result()),
            fence: Fence { incarnation: Incarnation(71), attempt: 1 },
            ..task(&owner("a"))
        },
    );
    store.import(vec![live.clone(), over.clone()]).await.expect("imports");
    assert_eq!(store.dead().await.expect("answers"), [Incarnation(70)]);
    assert_eq!(store.held_by(Incarnation(70)).await.expect("answers"), [live.id]);
    let found = store.read(live.id, None).await.expect("reads").expect("is there").task;
    assert_eq!(found, live);
    assert_eq!(store.read(over.id, None).await.expect("reads").expect("is there").task, over);
    assert!(me(&*store).await > Incarnation(70));
}

/// A host number near the bound of the line format is not kept: the numbers of later hosts would
/// exceed the bound, and tasks that they leave could not be imported anywhere.
pub async fn an_import_leaves_room_for_the_numbers_of_later_hosts(fixture: Fixture) {
    let store = fixture.store();
    assert_eq!(store.now().await.expect("answers"), Timestamp(START));
    for number in [jsonl::MAX_COUNTER, jsonl::MAX_COUNTER + 1, (1 << 53) - 1] {
        let fence = Fence { incarnation: Incarnation(number), attempt: 1 };
        store.import(vec![Task { fence, ..task(&owner("a")) }]).await.expect("imports");
        let next = me(&*store).await;
        assert!(next.0 < 2 * jsonl::MAX_COUNTER, "{number} was followed by {next}");
        created(&*store, Task { fence: Fence { incarnation: next, attempt: 1 }, ..task(&owner("a")) }).await;
    }
    let all = exported(&*store).await;
    assert_eq!(read(&all).len(), 6);
}

/// A live host keeps its number, whatever numbers an import contains.
pub async fn no_living_host_gets_tasks_that_are_not_its_own(fixture: Fixture) {
    let here = fixture.store();
    let there = (fixture.open)();
    let (mine, theirs) = (me(&*here).await, me(&*there.store).await);
    let of = |incarnation| Task { fence: Fence { incarnation, attempt: 1 }, ..task(&owner("a")) };
    let kept = created(&*there.store, of(theirs)).await;
    let brought = [of(mine), of(theirs), of(theirs)];
    here.import(brought.to_vec()).await.expect("imports");
    assert_eq!(here.held_by(mine).await.expect("answers"), []);
    assert_eq!(here.held_by(theirs).await.expect("answers"), [kept.id]);
    let mut orphans = Vec::new();
    for dead in here.dead().await.expect("answers") {
        assert!(dead != mine && dead != theirs);
        orphans.extend(here.held_by(dead).await.expect("answers"));
    }
    orphans.sort_unstable();
    let mut expected = brought.map(|task| task.id).to_vec();
    expected.sort_unstable();
    assert_eq!(orphans, expected);
    // Imported tasks join those that a dead host of the same number left behind.
    let Host { kill, .. } = there;
    kill().await;
    let more = of(theirs);
    here.import(vec![more.clone()]).await.expect("imports");
    let mut held = here.held_by(theirs).await.expect("answers");
    held.sort_unstable();
    let mut both = vec![kept.id, more.id];
    both.sort_unstable();
    assert_eq!(held, both);
}

async fn me(store: &dyn Store) -> Incarnation {
    store.register().await.expect("registers").incarnation
}
