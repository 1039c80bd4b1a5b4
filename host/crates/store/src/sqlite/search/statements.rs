//! The statements of a search. Each names its index, since without statistics the planner might
//! choose another one and sort.

use crate::codec;
use crate::search_plan::column;
use toolyard_task::search::{Direction, OrderBy};
use toolyard_task::wire::TaskStatus;

pub(super) const SPAN: &str = "SELECT longest FROM span";

pub(super) const LATEST: &str =
    "SELECT max(updated) FROM task INDEXED BY task_by_owner_updated WHERE owner = ?1";

pub(super) const ONE: &str =
    "SELECT seq, id, created, updated FROM task WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)";

pub(super) const FETCH: &str = "
    SELECT id, status, created, updated, record FROM task
    WHERE seq = ?1 AND (status <= 2 OR due > ?2)";

/// Rows of an index from (?2, ?3), exclusive, to ?4. A time that the index does not contain is 0.
pub(super) fn ordered(state: Option<TaskStatus>, by: OrderBy, direction: Direction) -> String {
    let (index, column, times) = (index(state, by), column(by), times(state, by));
    let state = of_state(state);
    let (later, bound, direction) = comparisons(direction);
    format!(
        "SELECT seq, id, {times} FROM task INDEXED BY {index}
         WHERE owner = ?1{state} AND ({column}, id) {later} (?2, ?3) AND {column} {bound} ?4
         ORDER BY {column}{direction}, id{direction}"
    )
}

/// The same for the tasks of all owners, by their creation. There is no ?1.
pub(super) fn of_all(direction: Direction) -> String {
    let (later, bound, direction) = comparisons(direction);
    format!(
        "SELECT seq, id, created, 0 FROM task INDEXED BY task_by_created
         WHERE (created, id) {later} (?2, ?3) AND created {bound} ?4
         ORDER BY created{direction}, id{direction}"
    )
}

/// How a later row compares to the start and to the end of the range, and how rows are sorted.
const fn comparisons(direction: Direction) -> (&'static str, &'static str, &'static str) {
    match direction {
        Direction::Ascending => (">", "<=", ""),
        Direction::Descending => ("<", ">=", " DESC"),
    }
}

/// The number of tasks from ?2 to ?3, counted up to ?4.
pub(super) fn counted(state: Option<TaskStatus>, by: OrderBy) -> String {
    let (index, column, state) = (index(state, by), column(by), of_state(state));
    format!(
        "SELECT count(*) FROM (
            SELECT 1 FROM task INDEXED BY {index}
            WHERE owner = ?1{state} AND {column} BETWEEN ?2 AND ?3 LIMIT ?4)"
    )
}

/// All tasks from ?2 to ?3, with the same times as [`ordered`].
pub(super) fn windowed(state: Option<TaskStatus>, by: OrderBy) -> String {
    let (index, column, times) = (index(state, by), column(by), times(state, by));
    let state = of_state(state);
    format!(
        "SELECT seq, id, {times} FROM task INDEXED BY {index}
         WHERE owner = ?1{state} AND {column} BETWEEN ?2 AND ?3"
    )
}

const fn index(state: Option<TaskStatus>, by: OrderBy) -> &'static str {
    match (state, by) {
        (None, OrderBy::Created) => "task_by_owner_created",
        (None, OrderBy::Updated) => "task_by_owner_updated",
        (Some(_), OrderBy::Created) => "task_by_status_created",
        (Some(_), OrderBy::Updated) => "task_by_status_updated",
    }
}

/// The times that the index contains.
const fn times(state: Option<TaskStatus>, by: OrderBy) -> &'static str {
    match (state, by) {
        (None, OrderBy::Created) => "created, 0",
        _ => "created, updated",
    }
}

/// The state is written into the statement, so that each state has its own: several of them are
/// walked at the same time.
fn of_state(state: Option<TaskStatus>) -> String {
    state.map_or_else(String::new, |state| format!(" AND status = {}", codec::status(state)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::Sealing;
    use crate::sqlite::schema;
    use crate::sqlite::tasks::tests::plan;
    use std::time::Duration;

    const ORDERS: [(OrderBy, &str); 2] = [(OrderBy::Created, "created"), (OrderBy::Updated, "updated")];
    const STATES: [Option<TaskStatus>; 2] = [None, Some(TaskStatus::Failed)];

    /// Whether the plan finds its rows in this way and does nothing else.
    fn assert_plan(on: &rusqlite::Connection, sql: &str, how: &str) {
        let plan = plan(on, sql);
        assert!(plan.contains(&format!("SEARCH task USING {how}")), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }

    #[test]
    fn a_8_every_statement_of_a_search_walks_the_range_of_one_index_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_, on) =
            schema::prepare(folder.path(), Duration::from_secs(1), &Sealing::default()).expect("opens");
        for (state, (by, column)) in STATES.into_iter().flat_map(|state| ORDERS.map(|by| (state, by))) {
            let (prefix, index) = match state {
                None => ("owner=?", format!("task_by_owner_{column}")),
                Some(_) => ("owner=? AND status=?", format!("task_by_status_{column}")),
            };
            let found = format!("COVERING INDEX {index} ({prefix}");
            let within = format!("{found} AND {column}>? AND {column}<?)");
            assert_plan(&on, &counted(state, by), &within);
            assert_plan(&on, &windowed(state, by), &within);
            for (direction, range) in [
                (Direction::Ascending, format!("AND ({column},id)>(?,?) AND {column}<?)")),
                (Direction::Descending, format!("AND {column}>? AND ({column},id)<(?,?))")),
            ] {
                assert_plan(&on, &ordered(state, by, direction), &format!("{found} {range}"));
            }
        }
        let all = "COVERING INDEX task_by_created";
        let ascending = format!("{all} ((created,id)>(?,?) AND created<?)");
        assert_plan(&on, &of_all(Direction::Ascending), &ascending);
        let descending = format!("{all} (created>? AND (created,id)<(?,?))");
        assert_plan(&on, &of_all(Direction::Descending), &descending);
        assert_plan(&on, LATEST, "COVERING INDEX task_by_owner_updated (owner=?)");
        assert_plan(&on, ONE, "INDEX sqlite_autoindex_task_1 (id=?)");
        assert_plan(&on, FETCH, "INTEGER PRIMARY KEY (rowid=?)");
    }
}
