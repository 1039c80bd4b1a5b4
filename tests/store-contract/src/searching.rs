//! Searches (F-1 to F-8).

use crate::{Fixture, START, TTL, change, created, finish, owner, result, task};
use std::collections::{BTreeSet, HashSet};
use toolyard_store::Store;
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search, SortOrder, Window};
use toolyard_task::task::{EXPIRED_KEPT_MS, Question, Summary};
use toolyard_task::wire::{RawJson, TaskStatus, Timestamp};
use toolyard_task::{Event, Outcome, Owner, Task, TaskId};

/// Every order.
pub const ORDERS: [SortOrder; 4] = [
    SortOrder { by: OrderBy::Created, direction: Direction::Ascending },
    SortOrder { by: OrderBy::Created, direction: Direction::Descending },
    SortOrder { by: OrderBy::Updated, direction: Direction::Ascending },
    SortOrder { by: OrderBy::Updated, direction: Direction::Descending },
];

const BY_CREATION: SortOrder = ORDERS[0];
const BY_CHANGE: SortOrder = ORDERS[2];

/// A first page of the tasks of `a`.
fn first(filter: Filter, order: SortOrder, limit: u32) -> Search {
    Search { owner: Some(owner("a")), filter, order, after: None, limit }
}

/// Everything that the search finds, page by page.
///
/// # Panics
/// If it does not end.
pub async fn found(store: &dyn Store, search: Search) -> Vec<Summary> {
    let (mut all, mut after) = (Vec::new(), search.after);
    for _ in 0..1_000 {
        let Page { tasks, next } = store.search(&Search { after, ..search.clone() }).await.expect("searches");
        assert!(tasks.len() <= search.limit as usize, "a page is too long");
        all.extend(tasks);
        after = next;
        if after.is_none() {
            return all;
        }
    }
    panic!("there is no end to {search:?}");
}

/// A search finds all matches, whatever the order and the page size.
async fn all(store: &dyn Store, filter: Filter) -> BTreeSet<TaskId> {
    let mut ids = None;
    for (order, limit) in ORDERS.into_iter().zip([100, 1, 7, 3]) {
        let found = found(store, first(filter.clone(), order, limit)).await;
        let set: BTreeSet<TaskId> = found.iter().map(|summary| summary.id).collect();
        assert_eq!(set.len(), found.len(), "{filter:?}, {order:?}: one was found twice");
        assert_eq!(*ids.get_or_insert_with(|| set.clone()), set, "{filter:?}, {order:?}");
    }
    ids.unwrap_or_default()
}

fn ids<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> BTreeSet<TaskId> {
    tasks.into_iter().map(|task| task.id).collect()
}

fn window(after: i64, before: i64) -> Window {
    Window { after: Some(Timestamp(after)), before: Some(Timestamp(before)) }
}

/// Makes a task wait for an answer.
pub fn asked(task: &Task) -> Event {
    let question = Question {
        key: "q".into(),
        kind: toolyard_task::wire::QuestionKind::Form,
        params: RawJson::empty_object(),
        attempt: 1,
        deadline: task.expires_at(),
        sent: Vec::new(),
        client_task: None,
        answer: None,
        asked_again: 0,
    };
    Event::Asked { fence: task.fence, questions: vec![question] }
}

/// Tasks in every state, several with the same time: created at START + 0, 0, 0, 10, 10, … and,
/// except for the working ones, changed from START + 1000 on, in reverse order.
async fn some(fixture: &Fixture, store: &dyn Store) -> Vec<Task> {
    let mut made = Vec::new();
    for number in 0..30 {
        fixture.clock.set(START + number / 3 * 10);
        made.push(created(store, task(&owner("a"))).await);
    }
    for (number, task) in made.iter_mut().enumerate().rev() {
        fixture.clock.set(START + 1_000 + (30 - number as i64) / 4 * 10);
        let end = |outcome| Event::Finished { fence: task.fence, outcome, message: None };
        let event = match number % 5 {
            0 => continue,
            1 => asked(task),
            2 => end(result()),
            3 => end(Outcome::Result { is_error: true, result: RawJson::empty_object() }),
            _ => Event::Cancelled { message: "so".into() },
        };
        *task = change(store, task.id, &event).await.expect("is there").expect("is live");
    }
    made
}

/// Ids, states, and both times.
pub async fn f_5_each_criterion_alone(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    assert_eq!(all(&*store, Filter::default()).await, ids(&made));
    let named = ids(&made[4..9]);
    assert_eq!(all(&*store, Filter { ids: Some(named.clone()), ..Filter::default() }).await, named);
    for status in [
        TaskStatus::Working,
        TaskStatus::InputRequired,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Cancelled,
    ] {
        let filter = Filter { statuses: Some(vec![status]), ..Filter::default() };
        let expected = ids(made.iter().filter(|task| task.status() == status));
        assert_eq!(expected.len(), 6);
        assert_eq!(all(&*store, filter).await, expected, "{status:?}");
    }
    let between = |time: i64| time > START + 19 && time < START + 71;
    let expected = ids(made.iter().filter(|task| between(task.created_at.0)));
    assert_eq!(expected.len(), 18);
    let filter = Filter { created: window(START + 19, START + 71), ..Filter::default() };
    assert_eq!(all(&*store, filter).await, expected);
    let expected = ids(made.iter().filter(|task| task.updated_at.0 > START + 1_039));
    assert_eq!(expected.len(), 12);
    let updated = Window { after: Some(Timestamp(START + 1_039)), before: None };
    assert_eq!(all(&*store, Filter { updated, ..Filter::default() }).await, expected);
}

/// AND between criteria, OR within one; a state may be named twice.
pub async fn f_5_criteria_hold_together_and_the_members_of_one_in_turn(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    let ended = [TaskStatus::Failed, TaskStatus::Completed, TaskStatus::Failed];
    let expected: Vec<&Task> = made
        .iter()
        .filter(|task| ended.contains(&task.status()))
        .filter(|task| task.created_at.0 > START + 9 && task.created_at.0 < START + 90)
        .filter(|task| task.updated_at.0 > START + 1_010 && task.updated_at.0 < START + 1_060)
        .collect();
    assert!(expected.len() > 3);
    let filter = Filter {
        ids: None,
        statuses: Some(ended.to_vec()),
        tool: None,
        created: window(START + 9, START + 90),
        updated: window(START + 1_010, START + 1_060),
    };
    assert_eq!(all(&*store, filter.clone()).await, ids(expected.iter().copied()));
    // Some tasks that match and some that do not.
    let named = Some(ids(expected[1..].iter().copied().chain(&made[..5])));
    let both: BTreeSet<TaskId> = ids(expected.iter().copied())
        .intersection(named.as_ref().expect("there are some"))
        .copied()
        .collect();
    assert!(both.len() >= expected.len() - 1);
    assert_eq!(all(&*store, Filter { ids: named, ..filter }).await, both);
}

/// A task whose time equals a bound of the window is outside it.
pub async fn f_5_windows_are_without_their_ends(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    let at = made[10].created_at.0;
    let of = async |created| all(&*store, Filter { created, ..Filter::default() }).await;
    assert_eq!(of(window(at, at + 10)).await, BTreeSet::new());
    assert_eq!(of(window(at, at)).await, BTreeSet::new());
    assert_eq!(of(window(at, at - 10)).await, BTreeSet::new(), "the ends are crossed");
    assert_eq!(of(window(at - 1, at + 1)).await, ids(&made[9..12]));
    let at = made[14].updated_at.0;
    let of = async |updated| all(&*store, Filter { updated, ..Filter::default() }).await;
    assert_eq!(of(window(at, at + 10)).await, BTreeSet::new());
    assert!(of(window(at - 1, at + 1)).await.contains(&made[14].id));
}

/// An empty list of ids or of states matches nothing.
pub async fn f_5_an_empty_list_takes_nothing_and_unknown_ids_are_not_there(fixture: Fixture) {
    let store = fixture.store();
    let made = created(&*store, task(&owner("a"))).await;
    let none = Filter { ids: Some(BTreeSet::new()), ..Filter::default() };
    assert_eq!(all(&*store, none).await, BTreeSet::new());
    let none = Filter { statuses: Some(Vec::new()), ..Filter::default() };
    assert_eq!(all(&*store, none).await, BTreeSet::new());
    let unknown = Some([task(&owner("a")).id, made.id].into());
    let filter = Filter { ids: unknown, ..Filter::default() };
    assert_eq!(all(&*store, filter).await, ids([&made]));
}

/// By either time in either direction; tasks with the same time by their ids, in the same
/// direction. A full page that nothing follows is the last.
pub async fn f_6_in_every_order_pages_show_each_task_once(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    for order in ORDERS {
        let mut expected: Vec<Summary> = made.iter().map(Summary::of).collect();
        expected.sort_by_key(|task| (order.time(task.created_at, task.updated_at), task.id));
        if order.direction == Direction::Descending {
            expected.reverse();
        }
        for limit in [1, 3, 7, 29, 30, 31] {
            assert_eq!(found(&*store, first(Filter::default(), order, limit)).await, expected, "{order:?}");
        }
        let whole = store.search(&first(Filter::default(), order, 30)).await.expect("searches");
        assert_eq!(whole.next, None, "{order:?}: there is nothing after a full page");
        let states = vec![TaskStatus::Failed, TaskStatus::Working, TaskStatus::Cancelled];
        let filter = Filter { statuses: Some(states.clone()), ..Filter::default() };
        expected.retain(|task| states.contains(&task.status));
        assert_eq!(found(&*store, first(filter, order, 4)).await, expected, "{order:?}: several states");
    }
}

/// Tasks are created, changed and removed between two pages: an unchanged task is found once, and
/// no task is found twice.
pub async fn f_6_pages_are_stable_while_tasks_change(fixture: Fixture) {
    let store = fixture.store();
    for (round, order) in ORDERS.into_iter().enumerate() {
        let me = owner(&format!("{round}"));
        let mut stay = HashSet::new();
        let mut busy = Vec::new();
        for number in 0..40 {
            let made = created(&*store, task(&me)).await;
            if number % 3 == 0 {
                busy.push(made);
            } else {
                stay.insert(made.id);
            }
            fixture.clock.advance(number % 2);
        }
        // So that the changes happen in a later millisecond.
        fixture.clock.advance(5);
        let mut search =
            Search { owner: Some(me.clone()), filter: Filter::default(), order, after: None, limit: 7 };
        let mut seen = Vec::new();
        for page in 0.. {
            let Page { tasks, next } = store.search(&search).await.expect("searches");
            seen.extend(tasks.iter().map(|summary| summary.id));
            if next.is_none() {
                break;
            }
            assert!(page < 20, "{order:?}: no end");
            search.after = next;
            fixture.clock.advance(1);
            created(&*store, task(&me)).await;
            for task in &busy {
                let said = Event::Said { fence: task.fence, message: format!("page {page}") };
                change(&*store, task.id, &said).await.expect("is there").expect("is live");
            }
        }
        let unique: HashSet<TaskId> = seen.iter().copied().collect();
        assert_eq!(unique.len(), seen.len(), "{order:?}: one was found twice");
        assert!(stay.is_subset(&unique), "{order:?}: one was left out");
    }
}

/// Later pages stop at the last change that existed when the first page was read.
pub async fn f_6_a_walk_from_the_oldest_change_ends_though_tasks_go_on_changing(fixture: Fixture) {
    let store = fixture.store();
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(created(&*store, task(&owner("a"))).await);
        fixture.clock.advance(1);
    }
    let latest = made[5].updated_at;
    let page = store.search(&first(Filter::default(), BY_CHANGE, 2)).await.expect("searches");
    let at =
        |number: usize| Position { at: made[number].updated_at, id: made[number].id, until: Some(latest) };
    assert_eq!(page.next, Some(at(1)));
    let said = Event::Said { fence: made[3].fence, message: "busy".into() };
    change(&*store, made[3].id, &said).await.expect("is there").expect("is live");
    let rest = Search { after: page.next, ..first(Filter::default(), BY_CHANGE, 2) };
    let page = store.search(&rest).await.expect("searches");
    let listed: Vec<TaskId> = page.tasks.iter().map(|task| task.id).collect();
    assert_eq!(listed, [made[2].id, made[4].id], "what changed is left to a new listing");
    assert_eq!(page.next, Some(at(4)));
    let rest = Search { after: page.next, ..rest };
    let page = store.search(&rest).await.expect("searches");
    assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [made[5].id]);
    assert_eq!(page.next, None);
    // In the other orders no task can appear twice.
    let page = store.search(&first(Filter::default(), BY_CREATION, 2)).await.expect("searches");
    assert_eq!(page.next.expect("there is more").until, None);
}

/// A filter never shows more tasks, not even by naming ids.
pub async fn f_7_a_search_sees_its_owners_tasks_only(fixture: Fixture) {
    let store = fixture.store();
    let mut made = Vec::new();
    for owner in [owner("a"), owner("b"), Owner::Local] {
        made.push(created(&*store, task(&owner)).await);
    }
    let named = Filter { ids: Some(ids(&made)), ..Filter::default() };
    let working = Filter { statuses: Some(vec![TaskStatus::Working]), ..Filter::default() };
    for filter in [Filter::default(), named, working] {
        for order in ORDERS {
            for task in &made {
                let search = Search { owner: Some(task.owner.clone()), ..first(filter.clone(), order, 9) };
                assert_eq!(found(&*store, search).await, [Summary::of(task)], "{filter:?}");
            }
            let search = Search { owner: Some(owner("c")), ..first(filter.clone(), order, 9) };
            assert_eq!(found(&*store, search).await, []);
        }
    }
}

/// The tool is one more criterion, with every other way to look tasks up.
pub async fn f_5_a_tool_is_found_by_its_exact_name(fixture: Fixture) {
    let store = fixture.store();
    let mut made = Vec::new();
    for tool in ["count", "sleep", "count", "counts", "Count", "count"] {
        made.push(created(&*store, Task { tool: tool.into(), ..task(&owner("a")) }).await);
        fixture.clock.advance(1);
    }
    let count = ids([&made[0], &made[2], &made[5]]);
    let filter = Filter { tool: Some("count".into()), ..Filter::default() };
    assert_eq!(all(&*store, filter.clone()).await, count);
    let wide = window(START - 1, i64::MAX);
    assert_eq!(all(&*store, Filter { created: wide, updated: wide, ..filter.clone() }).await, count);
    let named = Some(ids(&made[1..]));
    assert_eq!(all(&*store, Filter { ids: named, ..filter.clone() }).await, ids([&made[2], &made[5]]));
    let working = Some(vec![TaskStatus::Working]);
    assert_eq!(all(&*store, Filter { statuses: working, ..filter }).await, count);
    let none = Filter { tool: Some("coun".into()), ..Filter::default() };
    assert_eq!(all(&*store, none).await, BTreeSet::new());
}

/// For the operator: the tasks of all owners in one list, by their creation whatever order is requested.
pub async fn the_operator_finds_the_tasks_of_all_owners_by_creation(fixture: Fixture) {
    let store = fixture.store();
    let mut made = some(&fixture, &*store).await;
    for (number, owner) in [owner("b"), Owner::Local, owner("b")].into_iter().enumerate() {
        fixture.clock.set(START + 15 + number as i64 * 40);
        made.push(created(&*store, Task { tool: "other".into(), ..task(&owner) }).await);
    }
    made.sort_by_key(|task| (task.created_at, task.id));
    let failed = || Some(vec![TaskStatus::Failed, TaskStatus::Cancelled]);
    let filters = [
        Filter::default(),
        Filter { statuses: failed(), ..Filter::default() },
        Filter { statuses: Some(Vec::new()), ..Filter::default() },
        Filter { tool: Some("other".into()), ..Filter::default() },
        Filter { created: window(START + 9, START + 60), statuses: failed(), ..Filter::default() },
        Filter { updated: window(START + 9, START + 1_030), ..Filter::default() },
        Filter {
            updated: window(START + 1_000, i64::MAX),
            created: window(0, START + 70),
            ..Filter::default()
        },
        Filter { ids: Some(ids(made.iter().skip(3).step_by(2))), ..Filter::default() },
        Filter { ids: Some(ids(&made[20..])), tool: Some("other".into()), ..Filter::default() },
    ];
    for (filter, order) in filters.into_iter().flat_map(|filter| ORDERS.map(|order| (filter.clone(), order)))
    {
        let takes =
            |task: &&Task| filter.takes(task.id, &task.tool, task.status(), task.created_at, task.updated_at);
        let mut expected: Vec<Summary> = made.iter().filter(takes).map(Summary::of).collect();
        if order.direction == Direction::Descending {
            expected.reverse();
        }
        for limit in [1, 4, 50] {
            let search = Search { owner: None, ..first(filter.clone(), order, limit) };
            assert_eq!(found(&*store, search).await, expected, "{filter:?}, {order:?}, {limit}");
        }
    }
}

/// As in listings, however the tasks are looked up.
pub async fn gone_tasks_are_not_found(fixture: Fixture) {
    let store = fixture.store();
    let ended = created(&*store, task(&owner("a"))).await;
    finish(&*store, &ended, result()).await;
    let live = created(&*store, task(&owner("a"))).await;
    let wide = window(START - 1, i64::MAX);
    let filters = [
        Filter::default(),
        Filter { ids: Some([ended.id, live.id].into()), ..Filter::default() },
        Filter { created: wide, updated: wide, ..Filter::default() },
        Filter {
            statuses: Some(vec![TaskStatus::Working, TaskStatus::Completed, TaskStatus::Failed]),
            ..Filter::default()
        },
    ];
    let expect = async |expected: &[&Task]| {
        for filter in &filters {
            assert_eq!(all(&*store, filter.clone()).await, ids(expected.iter().copied()), "{filter:?}");
        }
    };
    fixture.clock.set(START + TTL.cast_signed() - 1);
    expect(&[&ended, &live]).await;
    fixture.clock.advance(1);
    expect(&[&live]).await;
    let expired = change(&*store, live.id, &Event::Expired).await.expect("is there").expect("is due");
    expect(&[&live]).await;
    fixture.clock.set(expired.updated_at.plus(EXPIRED_KEPT_MS).0);
    expect(&[]).await;
}
