//! Searching in memory: a scan of all tasks, the reference for the other stores.

use super::State;
use toolyard_task::Task;
use toolyard_task::search::{Direction, OrderBy, Page, Position, Search};
use toolyard_task::task::Summary;
use toolyard_task::wire::Timestamp;

pub(super) fn search(state: &State, search: &Search, now: Timestamp) -> Page {
    let Search { owner, filter, after, limit, .. } = search;
    let order = search.sort_order();
    let mine = || state.tasks.values().filter(|task| owner.as_ref().is_none_or(|owner| task.owner == *owner));
    let place = |task: &Task| (order.time(task.created_at, task.updated_at), task.id);
    let is_later = |task: &Task| {
        after.is_none_or(|after| match order.direction {
            Direction::Ascending => place(task) > (after.at, after.id),
            Direction::Descending => place(task) < (after.at, after.id),
        })
    };
    let until = after.and_then(|after| after.until);
    let mut found: Vec<&Task> = mine()
        .filter(|task| filter.takes(task.id, &task.tool, task.status(), task.created_at, task.updated_at))
        .filter(|task| is_later(task) && until.is_none_or(|until| task.updated_at <= until))
        .filter(|task| !task.is_gone(now))
        .collect();
    found.sort_by_key(|task| place(task));
    if order.direction == Direction::Descending {
        found.reverse();
    }
    let limit = limit.max(&1);
    let more = found.len() > *limit as usize;
    found.truncate(*limit as usize);
    let next = found.last().filter(|_| more).map(|last| {
        let (at, id) = place(last);
        let until = match (order.by, order.direction, after) {
            (OrderBy::Updated, Direction::Ascending, Some(after)) => after.until,
            (OrderBy::Updated, Direction::Ascending, None) => mine().map(|task| task.updated_at).max(),
            _ => None,
        };
        Position { at, id, until }
    });
    Page { tasks: found.into_iter().map(Summary::of).collect(), next }
}
