use super::*;
use crate::sqlite::transaction::SqliteTransaction;
use crate::sqlite::{SqliteOptions, SqliteStore};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store_contract::searching::{ORDERS, asked, found, matches};
use toolyard_store_contract::{ManualClock, START, applied, change, created, owner, result, task};
use toolyard_task::search::{Filter, Window};
use toolyard_task::{Event, Task, TaskStore as _};

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Create(u8),
    Change(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..4).prop_map(Step::Wait),
        (0_u8..2).prop_map(Step::Create),
        (any::<prop::sample::Index>(), 0_u8..5).prop_map(|(which, how)| Step::Change(which.index(64), how)),
    ]
}

fn window() -> impl Strategy<Value = Window> {
    let end = || prop::option::weighted(0.4, (0_i64..60).prop_map(|ms| Timestamp(START + ms)));
    (end(), end()).prop_map(|(after, before)| Window { after, before })
}

const TOOLS: [&str; 2] = ["count", "sleep"];

/// Each id stands for the task with its number.
fn filter() -> impl Strategy<Value = (Option<Vec<usize>>, Filter)> {
    let tool = prop::option::weighted(0.3, prop::sample::select(&TOOLS[..]).prop_map(str::to_owned));
    let ids = prop::option::weighted(0.2, prop::collection::vec(0_usize..64, 0..30));
    let statuses = prop::option::of(prop::collection::vec(prop::sample::select(&codec::STATUSES[..]), 0..5));
    (ids, statuses, tool, window(), window()).prop_map(|(ids, statuses, tool, created, updated)| {
        (ids, Filter { ids: None, statuses, tool, created, updated })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// F-5, F-6: whatever the content and the search, all matches are found in order, whatever the page sizes.
    #[test]
    fn f_5_f_6_any_search_finds_what_its_filter_takes(
        steps in prop::collection::vec(step(), 20..90),
        searches in prop::collection::vec((any::<bool>(), filter(), 0_usize..4, 1_u32..9), 12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (clock, folder) = (ManualClock::at(START), tempfile::tempdir().expect("a folder"));
            let store = SqliteStore::open(folder.path(), SqliteOptions::new(clock.clone())).expect("opens");
            let mut made: Vec<Task> = Vec::new();
            for step in steps {
                match step {
                    Step::Wait(ms) => clock.advance(ms),
                    Step::Create(number) => {
                        let tool = TOOLS[made.len() % TOOLS.len()].to_owned();
                        let owner = owner(["a", "b"][usize::from(number)]);
                        made.push(created(&*store, Task { tool, ..task(&owner) }).await);
                    }
                    Step::Change(which, how) => {
                        let count = made.len().max(1);
                        let Some(task) = made.get_mut(which % count) else { continue };
                        let event = match how {
                            0 => asked(task),
                            1 => Event::Finished { fence: task.fence, outcome: result(), message: None },
                            2 => Event::Cancelled { message: "so".into() },
                            _ => Event::Said { fence: task.fence, message: "so".into() },
                        };
                        // Refused if the task has already ended.
                        if let Ok(changed) = change(&*store, task.id, &event).await.expect("is there") {
                            *task = changed;
                        }
                    }
                }
            }
            for (one_owner, (named, filter), order, limit) in searches {
                let ids = named.map(|named| {
                    named.iter().filter_map(|number| made.get(*number)).map(|task| task.id).collect::<BTreeSet<_>>()
                });
                let search = Search {
                    filter: Filter { ids, ..filter },
                    order: ORDERS[order],
                    ..Search::all(one_owner.then(|| owner("a")), limit)
                };
                prop_assert_eq!(found(&*store, search.clone()).await, matches(&made, &search));
            }
            Ok(())
        })?;
    }
}

/// A store with many tasks, written without the port: `number` of them were created one second
/// apart, and each changed once, within a minute.
async fn many(number: i64) -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(START);
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(clock)).expect("opens");
    let model = created(&*store, task(&owner("a"))).await;
    let id = model.id;
    let operation = move |writing: &mut SqliteTransaction<'_>| {
        writing.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
             INSERT INTO task (id, owner, status, created, updated, due, incarnation, version, record, arguments)
             SELECT randomblob(16), owner, 3 + i % 2, ?3 + i * 1000, ?3 + i * 1000 + i * 7919 % 60000,
                    ?3 + 1000000000, 1, 2, record, arguments
             FROM task, n WHERE id = ?1",
            rusqlite::params![id.0.as_bytes(), number, START],
        )?;
        writing.counts.spanned(writing.on, 60_000)?;
        writing.execute("DELETE FROM task WHERE id = ?1", [id.0.as_bytes()])
    };
    assert_eq!(store.writer.write(operation).await.expect("writes"), 1);
    (folder, store)
}

/// Runs a statement with [`START`] as `?1`. Returns how many rows it changed.
async fn execute(store: &SqliteStore, sql: &'static str) -> usize {
    let operation = move |writing: &mut SqliteTransaction<'_>| writing.execute(sql, [START]);
    store.writer.write(operation).await.expect("writes")
}

/// The tasks created between these seconds.
fn created_within(after: i64, before: i64) -> Filter {
    let at = |second: i64| Some(Timestamp(START + second * 1_000));
    Filter { created: Window { after: at(after), before: at(before) }, ..Filter::default() }
}

#[tokio::test]
async fn a_8_a_walk_that_finds_little_ends_early_and_goes_on_where_it_was() {
    let (_folder, store) = many(46_000).await;
    // All but the first change late, so that they come first; and some task once took so long that
    // the span excludes none of them.
    let spread = |writing: &mut SqliteTransaction<'_>| {
        writing.counts.spanned(writing.on, 100_000_000)?;
        let sql = "UPDATE task SET updated = created + 50000000 WHERE created >= ?1 + 21000000";
        writing.execute(sql, [START])
    };
    assert_eq!(store.writer.write(spread).await.expect("writes"), 25_000);
    for (seconds, on_first_page, first_page) in [
        (21_000, 0, "the budget went to those that changed later, and there are too many to be sorted"),
        (15_000, 50, "these were sorted after all"),
        (1_000, 50, "these were sorted at once"),
    ] {
        let filter = created_within(-1, seconds);
        let search = Search { owner: Some(owner("a")), filter, order: ORDERS[3], after: None, limit: 50 };
        let page = store.search(&search).await.expect("searches");
        assert_eq!(page.tasks.len(), on_first_page, "{first_page}");
        assert!(page.next.is_some());
        let all = found(&*store, Search { limit: 3_000, ..search }).await;
        assert_eq!(all.len() as i64, seconds);
        assert!(all.is_sorted_by(|one, other| (one.updated_at, one.id) > (other.updated_at, other.id)));
    }
}

#[tokio::test]
async fn a_8_tasks_that_are_gone_and_not_yet_removed_cost_no_more_than_others() {
    let (_folder, store) = many(9_000).await;
    assert_eq!(execute(&store, "UPDATE task SET due = 0 WHERE created < ?1 + 8990000").await, 8_990);
    for filter in [Filter::default(), created_within(-1, 9_000)] {
        let search = Search { owner: Some(owner("a")), filter, order: ORDERS[2], after: None, limit: 50 };
        let page = store.search(&search).await.expect("searches");
        assert!(page.tasks.is_empty() && page.next.is_some(), "the budget went to those that are gone");
        assert_eq!(found(&*store, search).await.len(), 10);
    }
}

#[tokio::test]
async fn a_8_a_search_of_all_owners_for_what_is_rare_ends_early_and_goes_on_where_it_was() {
    let (_folder, store) = many(12_000).await;
    let rare = "UPDATE task SET status = 5, record = replace(record, 'example.sleep', 'rare')
        WHERE created = ?1 OR created = ?1 + 7000000";
    assert_eq!(execute(&store, rare).await, 2);
    for filter in [
        Filter { tool: Some("rare".into()), ..Filter::default() },
        Filter { statuses: Some(vec![TaskStatus::Cancelled]), ..Filter::default() },
    ] {
        let search = Search { owner: None, filter, order: ORDERS[1], after: None, limit: 50 };
        let page = store.search(&search).await.expect("searches");
        assert!(page.tasks.len() < 2 && page.next.is_some(), "the budget went to the others");
        assert_eq!(found(&*store, search).await.len(), 2);
    }
}

#[tokio::test]
async fn a_8_a_window_on_the_other_time_fills_its_pages_narrow_or_wide_at_either_end() {
    let (_folder, store) = many(30_000).await;
    for (after, before) in [(9_999, 10_500), (-1, 5_000), (25_000, 30_000)] {
        for order in [ORDERS[2], ORDERS[3]] {
            let filter = created_within(after, before);
            let search = Search { owner: Some(owner("a")), filter, order, after: None, limit: 50 };
            let page = store.search(&search).await.expect("searches");
            assert_eq!(page.tasks.len(), 50, "{after}..{before}");
            let all = found(&*store, search).await;
            assert_eq!(all.len() as i64, before - after - 1, "{after}..{before}");
        }
    }
}

#[tokio::test]
async fn the_longest_span_is_stored_before_a_search_relies_on_it_and_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(START);
    let open = || SqliteStore::open(folder.path(), SqliteOptions::new(clock.clone())).expect("opens");
    let (here, there) = (open(), open());
    let spans = async || {
        let read = |on: &Connection| rows::only::<i64>(on, SPAN, []);
        here.readers.read(read).await.expect("reads")
    };
    assert_eq!(spans().await, 0);
    let (one, two) = (created(&*here, task(&owner("a"))).await, created(&*here, task(&owner("a"))).await);
    let said = |task: &Task| Event::Said { fence: task.fence, message: "so".into() };
    clock.advance(1);
    applied(&*here, one.id, said(&one)).await;
    assert_eq!(spans().await, 60_000, "in whole minutes");
    clock.advance(150_000);
    // Another process writes; this one must notice.
    applied(&*there, two.id, said(&two)).await;
    assert_eq!(spans().await, 180_000);
    applied(&*here, one.id, said(&one)).await;
    assert_eq!(spans().await, 180_000);
}
