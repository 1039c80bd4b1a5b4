//! `tasks/list` (T-30 to T-33), with and without a filter (F-1 to F-8).
//!
//! Without one, the list is by creation and its cursor is bound to the principal.
//! With one, the cursor is bound to the filter and its order as well.

use crate::access::caller::Caller;
use crate::error::Fault;
use crate::task::Tasks;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toolyard_protocol::page::{cursor, page};
use toolyard_protocol::task_filter::{self, TaskFilter};
use toolyard_protocol::{RawJson, RpcError, Timestamp};
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search, SortOrder, Window};
use toolyard_task::task::Summary;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Owner, TaskId};

impl Tasks {
    /// A page of the caller's tasks: those that `params` asks for.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`], [`Fault::InvalidCursor`], [`Fault::Store`].
    pub async fn list_tasks(&self, caller: &Caller, params: Option<&RawJson>) -> Result<RawJson, Fault> {
        let invalid = |error: RpcError| Fault::InvalidParams(error.message);
        let filter = TaskFilter::decode(params).map_err(invalid)?;
        let cursor = cursor(params).map_err(invalid)?;
        let all = Search::all(None, self.settings.page);
        let (scope, search) = match (filter, &caller.owner) {
            (None, owner) => (format!("tasks:{}", owner.as_ref().map(Owner::key).unwrap_or_default()), all),
            (Some(_), None) => {
                return Err(Fault::InvalidParams(
                    "the tasks of all principals cannot be filtered".to_owned(),
                ));
            }
            (Some(filter), Some(_)) if !filter.takes_tool_calls() => {
                // No cursor was ever issued for such a filter.
                return if cursor.is_some() { Err(Fault::InvalidCursor) } else { Ok(rendered(&[], None)) };
            }
            (Some(filter), Some(owner)) => {
                let (filter, order) = (criteria(&filter), order(&filter));
                (scope(owner, &filter, order), Search { filter, order, ..all })
            }
        };
        let after = match cursor {
            Some(cursor) => {
                let position = self.clients.open_cursor(&scope, &cursor).await?;
                Some(parse_position(&position).ok_or(Fault::InvalidCursor)?)
            }
            None => None,
        };
        let Page { tasks, next } = match caller.reads() {
            Ok(owner) => self.store.search(&Search { owner: owner.cloned(), after, ..search }).await?,
            // Such a caller has no tasks.
            Err(_) => Page::default(),
        };
        let next = match next {
            Some(next) => Some(self.clients.seal_cursor(&scope, &position(next)).await?),
            None => None,
        };
        Ok(rendered(&tasks, next.as_deref()))
    }
}

fn rendered(tasks: &[Summary], next: Option<&str>) -> RawJson {
    let shown: Vec<RawJson> = tasks.iter().map(|summary| summary.view().render()).collect();
    page("tasks", shown.iter(), next)
}

/// The criteria for the store. A text that does not look like an id of this host is the id of no
/// task; the answer does not reveal the difference (F-5).
fn criteria(filter: &TaskFilter) -> Filter {
    let ids = |ids: &Vec<String>| ids.iter().filter_map(|id| TaskId::parse(id)).collect::<BTreeSet<_>>();
    Filter {
        ids: filter.task_ids.as_ref().map(ids),
        statuses: filter.status.clone(),
        tool: None,
        created: Window { after: filter.created_after, before: filter.created_before },
        updated: Window { after: filter.last_updated_after, before: filter.last_updated_before },
    }
}

const fn order(filter: &TaskFilter) -> SortOrder {
    SortOrder {
        by: match filter.order_by {
            task_filter::OrderBy::CreatedAt => OrderBy::Created,
            task_filter::OrderBy::LastUpdatedAt => OrderBy::Updated,
        },
        direction: match filter.order {
            task_filter::Direction::Asc => Direction::Ascending,
            task_filter::Direction::Desc => Direction::Descending,
        },
    }
}

/// The list that a cursor is valid for. Equivalent filters have the same list.
fn scope(owner: &Owner, filter: &Filter, order: SortOrder) -> String {
    let mut scope = "found".to_owned();
    let mut add = |name: char, value: Option<&dyn std::fmt::Display>| {
        // Writing to a string does not fail.
        let _ = value.map(|value| write!(scope, " {name}{value}"));
    };
    add(
        'o',
        Some(&match (order.by, order.direction) {
            (OrderBy::Created, Direction::Ascending) => "c+",
            (OrderBy::Created, Direction::Descending) => "c-",
            (OrderBy::Updated, Direction::Ascending) => "u+",
            (OrderBy::Updated, Direction::Descending) => "u-",
        }),
    );
    for (name, window) in [('c', filter.created), ('u', filter.updated)] {
        add(name, window.after.map(|after| format!(">{}", after.0)).as_ref().map(|text| text as _));
        add(name, window.before.map(|before| format!("<{}", before.0)).as_ref().map(|text| text as _));
    }
    if let Some(statuses) = &filter.statuses {
        let names: BTreeSet<&str> = statuses.iter().copied().map(TaskStatus::as_str).collect();
        add('s', Some(&names.into_iter().collect::<Vec<_>>().join(",")));
    }
    if let Some(ids) = &filter.ids {
        add('i', Some(&ids.iter().map(TaskId::to_string).collect::<Vec<_>>().join(",")));
    }
    // Last, since nothing is known about its characters.
    scope + ":" + &owner.key()
}

fn position(next: Position) -> String {
    let until = next.until.map(|until| format!(":{}", until.0)).unwrap_or_default();
    format!("{}:{}{until}", next.at.0, next.id)
}

fn parse_position(position: &str) -> Option<Position> {
    let mut parts = position.splitn(3, ':');
    let at = Timestamp(parts.next()?.parse().ok()?);
    let id = TaskId::parse(parts.next()?)?;
    let until = match parts.next() {
        // Earlier releases write an empty end.
        None | Some("") => None,
        Some(until) => Some(Timestamp(until.parse().ok()?)),
    };
    Some(Position { at, id, until })
}
