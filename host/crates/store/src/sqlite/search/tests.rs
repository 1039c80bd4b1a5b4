use super::*;
use crate::sqlite::transaction::SqliteTransaction;
use crate::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store_contract::searching::{ORDERS, found};
use toolyard_store_contract::{ManualClock, START, applied, created, owner, task};
use toolyard_task::search::{Filter, Window};
use toolyard_task::{Event, Task, TaskStore as _};

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
