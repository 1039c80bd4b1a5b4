//! The search of tasks: criteria, an order, a position to continue from. Plain values, and the one
//! definition of a match.
//!
//! Not here: the encoding of a search on a wire, or the look-up in a store.
//!
//! # Tasks that change between two pages (F-6)
//!
//! A task that does not change is found exactly once. In the order of creation, a task keeps its place
//! whatever happens to it; its state when its page is read decides whether it is found. In the order of
//! the last change, a change moves a task towards the newest end:
//!
//! * the latest first: it moves before the pages that were read, so it is not found again. If no
//!   page had it yet, it is missing from the remaining pages; a new listing begins with it.
//! * the longest unchanged first: it would be found again, and a listing of busy tasks would never
//!   end. So the first page notes the last change of all ([`Position::until`]), and later pages stop
//!   there. Times are whole milliseconds: a task that changes within the very millisecond that was
//!   noted can be found a second time, at its new place.

use crate::id::{Owner, TaskId};
use crate::task::Summary;
use crate::wire::{TaskStatus, Timestamp};
use std::collections::BTreeSet;

/// A span of time, excluding its ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Only later times.
    pub after: Option<Timestamp>,
    /// Only earlier times.
    pub before: Option<Timestamp>,
}

impl Window {
    /// Whether it has no end on either side.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.after.is_none() && self.before.is_none()
    }

    /// Whether `time` lies within it.
    #[must_use]
    pub fn contains(&self, time: Timestamp) -> bool {
        self.after.is_none_or(|after| time > after) && self.before.is_none_or(|before| time < before)
    }

    /// The first and the last millisecond of the window.
    #[must_use]
    pub fn bounds(&self) -> (i64, i64) {
        let first = self.after.map_or(i64::MIN, |after| after.0.saturating_add(1));
        let last = self.before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
        (first, last)
    }
}

/// The criteria of a search. All of them must hold; an absent one holds for every task (F-5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The id of the task is one of these.
    pub ids: Option<BTreeSet<TaskId>>,
    /// The state of the task is one of these.
    pub statuses: Option<Vec<TaskStatus>>,
    /// The exact name of its tool. No index contains it: the tasks that the other criteria leave are read
    /// until a page is full.
    pub tool: Option<String>,
    /// When it was created.
    pub created: Window,
    /// When it last changed.
    pub updated: Window,
}

impl Filter {
    /// Whether it matches a task with these properties.
    #[must_use]
    pub fn takes(
        &self,
        id: TaskId,
        tool: &str,
        status: TaskStatus,
        created: Timestamp,
        updated: Timestamp,
    ) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&status))
            && self.takes_tool(tool)
            && self.created.contains(created)
            && self.updated.contains(updated)
    }

    /// Whether it matches tasks of this tool.
    #[must_use]
    pub fn takes_tool(&self, tool: &str) -> bool {
        self.tool.as_ref().is_none_or(|wanted| wanted == tool)
    }
}

/// The time that tasks are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderBy {
    /// Their creation.
    Created,
    /// Their last change.
    Updated,
}

/// The direction of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The oldest first.
    Ascending,
    /// The newest first.
    Descending,
}

/// The order of the results. Tasks of the same millisecond are ordered by their ids, in the same
/// direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortOrder {
    /// The time.
    pub by: OrderBy,
    /// The direction.
    pub direction: Direction,
}

impl SortOrder {
    /// The time of a task that decides its place in this order.
    #[must_use]
    pub const fn time(&self, created: Timestamp, updated: Timestamp) -> Timestamp {
        match self.by {
            OrderBy::Created => created,
            OrderBy::Updated => updated,
        }
    }
}

/// The position of a search: after this place in its order. The place need not be that of a
/// matching task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The time that decides the place in the order.
    pub at: Timestamp,
    /// The id.
    pub id: TaskId,
    /// Tasks that changed later are left out. Present only if the order would show them again: by
    /// change, the oldest first.
    pub until: Option<Timestamp>,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The owner of the tasks; `None` means all owners, for the operator only. A client's search always
    /// has its owner: a filter never widens the view (F-7).
    pub owner: Option<Owner>,
    /// The criteria.
    pub filter: Filter,
    /// The requested order. [`Search::sort_order`] is the order of the results.
    pub order: SortOrder,
    /// The position to continue from.
    pub after: Option<Position>,
    /// The maximum number of tasks; at least one.
    pub limit: u32,
}

impl Search {
    /// The first page of all tasks of this owner, or of all owners, in the order of (createdAt, id) (T-33).
    #[must_use]
    pub fn all(owner: Option<Owner>, limit: u32) -> Self {
        let order = SortOrder { by: OrderBy::Created, direction: Direction::Ascending };
        Self { owner, filter: Filter::default(), order, after: None, limit }
    }

    /// The order of the results. The tasks of all owners are always ordered by their creation: no index
    /// orders them by their last change, which every commit would have to write.
    #[must_use]
    pub const fn sort_order(&self) -> SortOrder {
        match &self.owner {
            Some(_) => self.order,
            None => SortOrder { by: OrderBy::Created, direction: self.order.direction },
        }
    }
}

/// A part of the results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The tasks. There may be fewer than requested, or none, even if more follow: a store looks at a
    /// bounded number of tasks.
    pub tasks: Vec<Summary>,
    /// The position of the next page; `None` at the end.
    pub next: Option<Position>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_5_a_window_and_its_bounds_are_without_its_ends() {
        let ends = [None, Some(i64::MIN), Some(-1), Some(0), Some(1), Some(5), Some(i64::MAX)];
        for (after, before) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
            let window = Window { after: after.map(Timestamp), before: before.map(Timestamp) };
            assert_eq!(window.is_everything(), after.is_none() && before.is_none());
            let (first, last) = window.bounds();
            // The extreme bounds themselves are not times.
            for time in [-2, -1, 0, 1, 2, 4, 5, 6] {
                let within = after.is_none_or(|end| end < time) && before.is_none_or(|end| time < end);
                assert_eq!(window.contains(Timestamp(time)), within, "{time} in {after:?}..{before:?}");
                assert_eq!((first..=last).contains(&time), within, "{time} in {after:?}..{before:?}");
            }
        }
    }
}
