//! What a search looks at, whatever the store is kept in: which of the two times it walks
//! along, and which milliseconds of it.

use toolyard_task::search::{Filter, OrderBy, Search, Window};

/// The milliseconds of the time ordered by that can be of interest: its own window, what
/// the window on the other time implies, and the end of the first page's moment. `longest`
/// is the longest span there ever was between a creation and a change.
pub(crate) fn range(search: &Search, longest: i64) -> (i64, i64) {
    let Filter { created, updated, .. } = search.filter;
    let ((created_first, created_last), (updated_first, updated_last)) = (created.bounds(), updated.bounds());
    let until = search.after.and_then(|after| after.until).map_or(i64::MAX, |until| until.0);
    match search.order.by {
        OrderBy::Created => {
            (created_first.max(updated_first.saturating_sub(longest)), created_last.min(updated_last))
        }
        OrderBy::Updated => (
            updated_first.max(created_first),
            updated_last.min(created_last.saturating_add(longest)).min(until),
        ),
    }
}

/// The window on the time that is not ordered by.
pub(crate) const fn other(search: &Search) -> Window {
    match search.order.by {
        OrderBy::Created => search.filter.updated,
        OrderBy::Updated => search.filter.created,
    }
}

/// The time that is not ordered by.
pub(crate) const fn opposite(by: OrderBy) -> OrderBy {
    match by {
        OrderBy::Created => OrderBy::Updated,
        OrderBy::Updated => OrderBy::Created,
    }
}

/// The column of a time.
pub(crate) const fn column(by: OrderBy) -> &'static str {
    match by {
        OrderBy::Created => "created",
        OrderBy::Updated => "updated",
    }
}
