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
use toolyard_task::store::After;
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
        match filter {
            None => self.all_tasks(caller, cursor.as_deref()).await,
            Some(filter) => self.tasks_found(caller, &filter, cursor.as_deref()).await,
        }
    }

    async fn all_tasks(&self, caller: &Caller, cursor: Option<&str>) -> Result<RawJson, Fault> {
        let scope = format!("tasks:{}", caller.owner.as_ref().map(Owner::key).unwrap_or_default());
        let after = match cursor {
            Some(cursor) => {
                let position = self.clients.open_cursor(&scope, cursor).await?;
                Some(parse_after(&position).ok_or(Fault::InvalidCursor)?)
            }
            None => None,
        };
        let limit = self.settings.page;
        // One more than the page says whether there is a next.
        let mut found = self.summaries(caller, after, limit + 1).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = match found.last() {
            Some(last) if more => {
                let position = format!("{}:{}", last.created_at.0, last.id);
                Some(self.clients.seal_cursor(&scope, &position).await?)
            }
            _ => None,
        };
        Ok(rendered(&found, next.as_deref()))
    }

    async fn tasks_found(
        &self,
        caller: &Caller,
        filter: &TaskFilter,
        cursor: Option<&str>,
    ) -> Result<RawJson, Fault> {
        let Some(owner) = &caller.owner else {
            return Err(Fault::InvalidParams("the tasks of all principals cannot be filtered".to_owned()));
        };
        if !filter.takes_tool_calls() {
            // No cursor was ever issued for such a filter.
            return if cursor.is_some() { Err(Fault::InvalidCursor) } else { Ok(rendered(&[], None)) };
        }
        let (filter, order) = (criteria(filter), order(filter));
        let scope = scope(owner, &filter, order);
        let after = match cursor {
            Some(cursor) => {
                let position = self.clients.open_cursor(&scope, cursor).await?;
                Some(parse_position(&position).ok_or(Fault::InvalidCursor)?)
            }
            None => None,
        };
        let search = Search { owner: Some(owner.clone()), filter, order, after, limit: self.settings.page };
        let Page { tasks, next } = self.store.search(&search).await?;
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

fn parse_after(position: &str) -> Option<After> {
    let (created, id) = position.split_once(':')?;
    Some(After { created_at: Timestamp(created.parse().ok()?), id: TaskId::parse(id)? })
}

fn position(next: Position) -> String {
    let until = next.until.map(|until| until.0.to_string()).unwrap_or_default();
    format!("{}:{}:{until}", next.at.0, next.id)
}

fn parse_position(position: &str) -> Option<Position> {
    let mut parts = position.splitn(3, ':');
    let at = Timestamp(parts.next()?.parse().ok()?);
    let id = TaskId::parse(parts.next()?)?;
    let until = match parts.next()? {
        "" => None,
        until => Some(Timestamp(until.parse().ok()?)),
    };
    Some(Position { at, id, until })
}
