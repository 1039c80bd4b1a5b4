//! Searches (F-1 to F-8).

use crate::{Fixture, START, TTL, applied, created, finish, owner, question, remove, result, task};
use std::collections::{BTreeSet, HashSet};
use toolyard_store::Store;
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search, SortOrder, Window};
use toolyard_task::task::{EXPIRED_KEPT_MS, Summary};
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
    Search { filter, order, ..Search::all(Some(owner("a")), limit) }
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

fn ids<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> BTreeSet<TaskId> {
    tasks.into_iter().map(|task| task.id).collect()
}

fn window(after: i64, before: i64) -> Window {
    Window { after: Some(Timestamp(after)), before: Some(Timestamp(before)) }
}

/// Makes a task wait for an answer.
pub fn asked(task: &Task) -> Event {
    Event::Asked { fence: task.fence, questions: vec![question("q", task.expires_at())] }
}

/// First 30 tasks of `a` with several tools and in every state, several with the same time: created at START + 0, 0, 0,
/// 10, 10, … and, except for the working ones, changed from START + 1000 on, in reverse order. Then three tasks of
/// others.
async fn some(fixture: &Fixture, store: &dyn Store) -> Vec<Task> {
    let mut made = Vec::new();
    for (number, tool) in (0..30).zip(["count", "counts", "Count"].into_iter().cycle()) {
        fixture.clock.set(START + number / 3 * 10);
        made.push(created(store, Task { tool: tool.into(), ..task(&owner("a")) }).await);
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
        *task = applied(store, task.id, event).await;
    }
    for owner in [owner("b"), Owner::Local, owner("b")] {
        made.push(created(store, Task { tool: "count".into(), ..task(&owner) }).await);
    }
    made
}

/// Filters, each with the number of tasks of `a` that it takes.
fn filters(made: &[Task]) -> Vec<(usize, Filter)> {
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    let any = Filter::default;
    let tool = |name: &str| Some(name.to_owned());
    let (created, updated) = (made[10].created_at.0, made[14].updated_at.0);
    let (early, wide) = (window(START + 9, START + 60), window(START - 1, i64::MAX));
    let late = window(START + 1_010, START + 1_060);
    let unknown = Some([task(&owner("a")).id, made[0].id].into());
    // A state may be named twice.
    let ended = || Some(vec![Failed, Completed, Failed]);
    let mut filters = vec![
        (30, any()),
        (5, Filter { ids: Some(ids(&made[4..9])), ..any() }),
        (30, Filter { ids: Some(ids(made)), ..any() }),
        (1, Filter { ids: unknown, ..any() }),
        (0, Filter { ids: Some(BTreeSet::new()), ..any() }),
        (0, Filter { statuses: Some(Vec::new()), ..any() }),
        (12, Filter { statuses: ended(), ..any() }),
        (10, Filter { tool: tool("count"), ..any() }),
        (0, Filter { tool: tool("coun"), ..any() }),
        // Windows are without their ends.
        (18, Filter { created: window(START + 19, START + 71), ..any() }),
        (3, Filter { created: window(created - 1, created + 1), ..any() }),
        (0, Filter { created: window(created, created + 10), ..any() }),
        (0, Filter { created: window(created, created), ..any() }),
        (0, Filter { created: window(created, created - 10), ..any() }),
        (4, Filter { updated: window(updated - 1, updated + 1), ..any() }),
        (0, Filter { updated: window(updated, updated + 10), ..any() }),
        (12, Filter { updated: Window { after: Some(Timestamp(START + 1_039)), before: None }, ..any() }),
        // Several criteria.
        (12, Filter { created: early, updated: window(START + 1_009, i64::MAX), ..any() }),
        (5, Filter { created: early, updated: late, statuses: ended(), ..any() }),
        (2, Filter { created: early, statuses: Some(vec![Failed, Cancelled]), tool: tool("count"), ..any() }),
        (10, Filter { created: wide, updated: wide, tool: tool("count"), ..any() }),
        (3, Filter { ids: Some(ids(&made[1..10])), tool: tool("count"), ..any() }),
        (4, Filter { ids: Some(ids(&made[20..])), statuses: ended(), ..any() }),
        (2, Filter { statuses: Some(vec![Working]), tool: tool("count"), ..any() }),
    ];
    let each = [Working, InputRequired, Completed, Failed, Cancelled];
    filters.extend(each.map(|status| (6, Filter { statuses: Some(vec![status]), ..any() })));
    filters
}

/// The tasks among these that a search finds, in its order.
pub fn matches(made: &[Task], search: &Search) -> Vec<Summary> {
    let Search { owner, filter, order, .. } = search;
    let of_owner = made.iter().filter(|task| owner.as_ref().is_none_or(|owner| *owner == task.owner));
    let takes =
        |task: &&Task| filter.takes(task.id, &task.tool, task.status(), task.created_at, task.updated_at);
    let mut found: Vec<Summary> = of_owner.filter(takes).map(Summary::of).collect();
    // The operator gets the tasks by their creation, whatever order is requested.
    let by = if owner.is_some() { *order } else { BY_CREATION };
    found.sort_by_key(|task| (by.time(task.created_at, task.updated_at), task.id));
    if order.direction == Direction::Descending {
        found.reverse();
    }
    found
}

/// Each search of the tasks of `a` or of all owners finds what its filter takes, in its order and once, whatever the
/// length of its pages.
async fn each_filter_finds_what_it_takes(store: &dyn Store, made: &[Task], of: Option<Owner>) {
    for (count, filter) in filters(made) {
        for (order, limit) in ORDERS.into_iter().flat_map(|order| [1, 4, 50].map(|limit| (order, limit))) {
            let search = Search { owner: of.clone(), ..first(filter.clone(), order, limit) };
            let expected = matches(made, &search);
            assert!(of.is_none() || expected.len() == count, "{filter:?} takes {}", expected.len());
            assert_eq!(found(store, search).await, expected, "{filter:?}, {order:?}, {limit}");
        }
    }
}

/// By either time in either direction; tasks with the same time by their ids, in the same direction. Naming the ids of
/// other owners' tasks shows none of them.
pub async fn f_5_f_6_f_7_each_filter_finds_what_it_takes_of_its_owner_in_every_order(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    each_filter_finds_what_it_takes(&*store, &made, Some(owner("a"))).await;
    for order in ORDERS {
        let page = store.search(&first(Filter::default(), order, 30)).await.expect("searches");
        assert_eq!((page.tasks.len(), page.next), (30, None), "{order:?}: nothing follows a full page");
    }
    let of_others = Search { owner: Some(owner("c")), ..first(Filter::default(), BY_CREATION, 9) };
    assert_eq!(found(&*store, of_others).await, []);
}

/// For the operator: the tasks of all owners in one list, by their creation whatever order is requested.
pub async fn the_operator_finds_the_tasks_of_all_owners_by_creation(fixture: Fixture) {
    let store = fixture.store();
    let made = some(&fixture, &*store).await;
    each_filter_finds_what_it_takes(&*store, &made, None).await;
}

/// Tasks are created, changed and removed between two pages of a search in any order: an unchanged task is shown once,
/// and no task is shown twice.
pub async fn f_6_pages_are_stable_while_tasks_change(fixture: Fixture) {
    const LIMIT: u32 = 7;
    let store = fixture.store();
    for (round, order) in ORDERS.into_iter().enumerate() {
        let me = owner(&format!("{round}"));
        let (mut stay, mut busy, mut go) = (HashSet::new(), Vec::new(), Vec::new());
        for number in 0..40 {
            let ttl_ms = if number % 4 == 1 { 100 } else { TTL };
            let made = created(&*store, Task { ttl_ms, ..task(&me) }).await;
            match number % 4 {
                0 => busy.push(made),
                1 => go.push(finish(&*store, &made, result()).await.id),
                _ => _ = stay.insert(made.id),
            }
            fixture.clock.advance(number % 2);
        }
        // So that the changes happen in a later millisecond.
        fixture.clock.advance(5);
        let mut search = Search { order, ..Search::all(Some(me.clone()), LIMIT) };
        let mut seen = Vec::new();
        for page in 0.. {
            let Page { tasks, next } = store.search(&search).await.expect("searches");
            search.after = next;
            seen.extend(tasks.iter().map(|summary| summary.id));
            if next.is_none() {
                break;
            }
            assert!(page < 20, "{order:?}: no end");
            if page == 1 {
                fixture.clock.advance(1_000);
                assert_eq!(remove(&*store, &go).await, 10);
            }
            fixture.clock.advance(1);
            created(&*store, task(&me)).await;
            for task in &busy {
                let said = Event::Said { fence: task.fence, message: format!("page {page}") };
                applied(&*store, task.id, said).await;
            }
        }
        let unique: HashSet<TaskId> = seen.iter().copied().collect();
        assert_eq!(unique.len(), seen.len(), "{order:?}: one was shown twice");
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
    let after = |task: &Task| Some(Position { at: task.updated_at, id: task.id, until: Some(latest) });
    assert_eq!(page.next, after(&made[1]));
    let said = Event::Said { fence: made[3].fence, message: "busy".into() };
    applied(&*store, made[3].id, said).await;
    let rest = Search { after: page.next, ..first(Filter::default(), BY_CHANGE, 2) };
    let page = store.search(&rest).await.expect("searches");
    let listed: Vec<TaskId> = page.tasks.iter().map(|task| task.id).collect();
    assert_eq!(listed, [made[2].id, made[4].id], "what changed is left to a new listing");
    assert_eq!(page.next, after(&made[4]));
    let rest = Search { after: page.next, ..rest };
    let page = store.search(&rest).await.expect("searches");
    assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [made[5].id]);
    assert_eq!(page.next, None);
    // In the other orders no task can appear twice.
    let page = store.search(&first(Filter::default(), BY_CREATION, 2)).await.expect("searches");
    assert_eq!(page.next.expect("there is more").until, None);
}

/// An ended task whose ttl has passed is not found, even if it is not removed yet; a live one is, however it is looked
/// up.
pub async fn gone_tasks_are_not_found(fixture: Fixture) {
    let store = fixture.store();
    let me = owner("a");
    let ended = created(&*store, task(&me)).await;
    finish(&*store, &ended, result()).await;
    let live = created(&*store, task(&me)).await;
    let wide = window(START - 1, i64::MAX);
    let statuses = vec![TaskStatus::Working, TaskStatus::Completed, TaskStatus::Failed];
    let filters = [
        Filter::default(),
        Filter { ids: Some([ended.id, live.id].into()), ..Filter::default() },
        Filter { created: wide, updated: wide, ..Filter::default() },
        Filter { statuses: Some(statuses), ..Filter::default() },
    ];
    let expect = async |expected: &[&Task]| {
        let expected = ids(expected.iter().copied());
        let searches = filters.iter().flat_map(|filter| ORDERS.map(|order| first(filter.clone(), order, 1)));
        for search in searches.chain([Search::all(None, 9)]) {
            let found = found(&*store, search.clone()).await;
            let found: BTreeSet<TaskId> = found.iter().map(|task| task.id).collect();
            assert_eq!(found, expected, "{search:?}");
        }
    };
    fixture.clock.set(START + TTL.cast_signed() - 1);
    expect(&[&ended, &live]).await;
    fixture.clock.advance(1);
    expect(&[&live]).await;
    // A task that its ttl ended is shown for a while and then disappears as well.
    let expired = applied(&*store, live.id, Event::Expired).await;
    expect(&[&live]).await;
    fixture.clock.set(expired.updated_at.plus(EXPIRED_KEPT_MS).0);
    expect(&[]).await;
}
