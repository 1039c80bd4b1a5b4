//! The plan of a search, for SQLite and for PostgreSQL: which index is read, how far, and
//! where a page ends. The statements are in `sqlite/search.rs` and `postgres/search.rs`.
//!
//! Every criterion but one is a range of an index in the requested order: the owner, the states
//! (one index range each, merged), a window on the time that determines the order. The exception is
//! a window on the *other* time. It limits the ordering time as well, since a task changes no
//! earlier than it is created, and later by no more than the longest span that ever occurred. If
//! few tasks are left, they are sorted; if more are left, the walk in order soon finds enough of
//! them. If it does not, the walk ends after [`MAX_INDEX_ROWS`] rows. Then the tasks in the window are
//! sorted after all, unless there are more than [`MANY`]; in that case the page is short and says
//! where the walk ended.
//!
//! A search over all owners walks the index of creations. The other criteria, and the tool of any
//! search, are checked on the rows that are read, within the same budget.

use crate::codec;
use std::collections::BTreeSet;
use toolyard_task::TaskId;
use toolyard_task::search::{Direction, OrderBy, Page, Position, Search, SortOrder, Window};
use toolyard_task::task::Summary;
use toolyard_task::wire::{TaskStatus, Timestamp};
use uuid::Uuid;

/// Rows of an index that are read for one page.
pub(crate) const MAX_INDEX_ROWS: u32 = 20_000;
/// A window of no more tasks than this is read whole and sorted.
pub(crate) const FEW: u32 = 2_000;
/// A window of no more tasks than this is too, if the walk in order ended too early.
pub(crate) const MANY: u32 = 20_000;

/// The sort key of a task.
pub(crate) type SortKey = (Timestamp, TaskId);

/// The plan for one page.
pub(crate) struct SearchPlan<'a> {
    pub(crate) search: &'a Search,
    /// The order of the results.
    pub(crate) order: SortOrder,
    /// The window on the time that does not determine the order.
    pub(crate) other: Window,
    /// The range of the ordering time that can contain matches, in milliseconds: its own window,
    /// the limits that the window on the other time sets, and the time of the first page.
    first: i64,
    last: i64,
}

/// The rows that must be read for a page.
pub(crate) enum RowAccess<'a> {
    /// No task can match.
    Nothing,
    /// The tasks of these ids, sorted.
    Ids(&'a BTreeSet<TaskId>),
    /// The index of the order, in order.
    Walk,
    /// The window on the other time, sorted, if it has no more than [`FEW`] tasks. Otherwise a walk
    /// and, if that finds too few and the window has no more than [`MANY`], the window.
    WindowOrWalk,
}

/// The tasks that were found for a page, in order.
#[derive(Default)]
pub(crate) struct FoundTasks {
    /// Up to [`SearchPlan::enough`] of them.
    pub(crate) tasks: Vec<Summary>,
    /// The last key that was read, if the budget ended before the range did.
    pub(crate) short: Option<SortKey>,
}

impl<'a> SearchPlan<'a> {
    /// `longest` is the longest span that ever occurred between a creation and a change.
    pub(crate) fn new(search: &'a Search, longest: i64) -> Self {
        let (created, updated) = (search.filter.created.bounds(), search.filter.updated.bounds());
        let until = search.after.and_then(|after| after.until).map_or(i64::MAX, |until| until.0);
        let order = search.sort_order();
        let (other, first, last) = match order.by {
            OrderBy::Created => (
                search.filter.updated,
                created.0.max(updated.0.saturating_sub(longest)),
                created.1.min(updated.1),
            ),
            OrderBy::Updated => (
                search.filter.created,
                updated.0.max(created.0),
                updated.1.min(created.1.saturating_add(longest)).min(until),
            ),
        };
        Self { search, order, other, first, last }
    }

    pub(crate) fn access(&self) -> RowAccess<'a> {
        match &self.search.filter.ids {
            _ if self.first > self.last => RowAccess::Nothing,
            Some(ids) => RowAccess::Ids(ids),
            None if self.search.owner.is_none() || self.other.is_everything() => RowAccess::Walk,
            None => RowAccess::WindowOrWalk,
        }
    }

    /// The number of tasks of a page and one more, which shows whether there is a next page.
    pub(crate) fn enough(&self) -> usize {
        self.search.limit.max(1) as usize + 1
    }

    /// The start of the range, or of its rest on a later page: after this time and id, in the
    /// direction of the order.
    pub(crate) fn start(&self) -> (i64, Uuid) {
        let after = self.search.after.map(|after| (after.at.0, after.id.0));
        match self.order.direction {
            Direction::Ascending => {
                // Before all ids of its first millisecond: after the greatest id of the previous
                // one.
                let first = (self.first.saturating_sub(1), Uuid::max());
                after.map_or(first, |after| after.max(first))
            }
            Direction::Descending => {
                let last = (self.last.saturating_add(1), Uuid::nil());
                after.map_or(last, |after| after.min(last))
            }
        }
    }

    /// The last millisecond of the range, in the direction of the order.
    pub(crate) const fn end(&self) -> i64 {
        match self.order.direction {
            Direction::Ascending => self.last,
            Direction::Descending => self.first,
        }
    }

    /// The requested states, each once; `None` for all.
    pub(crate) fn states(&self) -> Option<Vec<TaskStatus>> {
        let mut states = self.search.filter.statuses.clone()?;
        states.sort_unstable_by_key(|status| codec::status(*status));
        states.dedup();
        Some(states)
    }

    /// The time that does not determine the order.
    pub(crate) const fn other_time(&self) -> OrderBy {
        match self.order.by {
            OrderBy::Created => OrderBy::Updated,
            OrderBy::Updated => OrderBy::Created,
        }
    }

    /// The page of the tasks that were found. If [`SearchPlan::ends_at_latest`], the store sets the
    /// end of the next one.
    pub(crate) fn page(&self, FoundTasks { mut tasks, short }: FoundTasks) -> Page {
        let order = self.order;
        let next = if tasks.len() >= self.enough() {
            tasks.truncate(self.enough() - 1);
            tasks.last().map(|task| (order.time(task.created_at, task.updated_at), task.id))
        } else {
            short
        };
        let until = match (order.by, order.direction) {
            (OrderBy::Updated, Direction::Ascending) => self.search.after.and_then(|after| after.until),
            _ => None,
        };
        Page { tasks, next: next.map(|(at, id)| Position { at, id, until }) }
    }

    /// Whether later pages end at the latest change that the owner's tasks have now. Otherwise
    /// tasks that change while they are listed would appear repeatedly.
    pub(crate) fn ends_at_latest(&self) -> bool {
        let order = self.order;
        self.search.after.is_none() && order.by == OrderBy::Updated && order.direction == Direction::Ascending
    }
}

/// The column of a time.
pub(crate) const fn column(by: OrderBy) -> &'static str {
    match by {
        OrderBy::Created => "created",
        OrderBy::Updated => "updated",
    }
}
