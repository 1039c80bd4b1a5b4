//! Searching in PostgreSQL: which index is walked, how far, and what is fetched.
//!
//! The plan is that of the store in SQLite, which says why: a walk in the order asked for,
//! that ends after [`BUDGET`] rows; or, for a window on the time that is not ordered by,
//! all that is in the window, sorted, if that is no more than [`FEW`], or the walk led to
//! nothing and it is no more than [`MANY`].

use super::connections::Readers;
use super::error::{failed, silent, unreadable};
use super::tasks::summary;
use crate::codec;
use crate::extent::{column, opposite, other, range};
use crate::seal::Sealing;
use deadpool_postgres::{Object, Transaction};
use std::fmt::Write as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};
use toolyard_task::TaskId;
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search};
use toolyard_task::store::StoreError;
use toolyard_task::wire::{TaskStatus, Timestamp};
use uuid::Uuid;

/// Rows that are looked at for one page.
const BUDGET: i64 = 20_000;
/// A window of no more tasks than this is read whole and sorted.
const FEW: i64 = 2_000;
/// So is one of no more than this, where the walk in order led to nothing.
const MANY: i64 = 20_000;

pub(super) async fn search(
    readers: &Readers,
    search: &Search,
    floor: i64,
    sealing: &Sealing,
) -> Result<Page, StoreError> {
    let mut on = readers.connection().await?;
    let page = tokio::time::timeout(readers.patience(), page(&mut on, search, floor, sealing)).await;
    match page {
        Ok(page) => page,
        Err(_) => {
            // It may still answer, to whoever came next.
            drop(Object::take(on));
            Err(silent(readers.patience()))
        }
    }
}

async fn page(on: &mut Object, search: &Search, floor: i64, sealing: &Sealing) -> Result<Page, StoreError> {
    // Of one moment, as otherwise a change between two statements could move a task past both.
    let moment = on.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let moment = moment.start().await.map_err(failed)?;
    let page = Walk::of(&moment, search, floor, sealing).await?.page().await?;
    moment.commit().await.map_err(failed)?;
    Ok(page)
}

/// A place in the order.
type Place = (Timestamp, TaskId);

/// A walk towards one page.
struct Walk<'a> {
    on: &'a Transaction<'a>,
    search: &'a Search,
    sealing: &'a Sealing,
    owner: Vec<u8>,
    floor: i64,
    /// The milliseconds of the time ordered by that are of interest.
    first: i64,
    last: i64,
}

/// What was met.
struct Met {
    rows: Vec<Row>,
    /// Where the walk ended before its end.
    short: Option<Place>,
}

impl<'a> Walk<'a> {
    async fn of(
        on: &'a Transaction<'a>,
        search: &'a Search,
        floor: i64,
        sealing: &'a Sealing,
    ) -> Result<Self, StoreError> {
        let rows = rows(on, "SELECT longest FROM span", &[]).await?;
        let longest = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(unreadable)?;
        let (first, last) = range(search, longest);
        Ok(Self { on, search, sealing, owner: search.owner.key().into_bytes(), floor, first, last })
    }

    async fn page(self) -> Result<Page, StoreError> {
        let met =
            if self.first > self.last { Met { rows: Vec::new(), short: None } } else { self.met().await? };
        let full = self.search.limit.max(1) as usize;
        let mut tasks =
            met.rows.iter().map(|row| summary(row, self.sealing)).collect::<Result<Vec<_>, _>>()?;
        let next = if tasks.len() > full {
            tasks.truncate(full);
            tasks.last().map(|task| (self.search.order.time(task.created_at, task.updated_at), task.id))
        } else {
            met.short
        };
        let next = match next {
            Some((at, id)) => Some(Position { at, id, until: self.until().await? }),
            None => None,
        };
        Ok(Page { tasks, next })
    }

    async fn met(&self) -> Result<Met, StoreError> {
        if let Some(ids) = &self.search.filter.ids {
            let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
            return self.named(&ids).await;
        }
        if other(self.search).is_everything() {
            return self.in_order().await;
        }
        if self.has_no_more(FEW).await? {
            return self.within_window().await;
        }
        let met = self.in_order().await?;
        if met.short.is_some() && self.has_no_more(MANY).await? {
            return self.within_window().await;
        }
        Ok(met)
    }

    /// Where later pages stop.
    async fn until(&self) -> Result<Option<Timestamp>, StoreError> {
        match (self.search.order.by, self.search.order.direction, self.search.after) {
            (OrderBy::Updated, Direction::Ascending, Some(after)) => Ok(after.until),
            (OrderBy::Updated, Direction::Ascending, None) => {
                let sql = "SELECT max(updated) FROM task WHERE owner = $1";
                let rows = rows(self.on, sql, &[&self.owner]).await?;
                let latest = rows.first().map_or(Ok(None), |row| row.try_get::<_, Option<i64>>(0));
                Ok(latest.map_err(unreadable)?.map(Timestamp))
            }
            _ => Ok(None),
        }
    }

    /// One row more than fits on the page, if there are so many.
    fn enough(&self) -> i64 {
        i64::from(self.search.limit.max(1)) + 1
    }

    /// Where the range begins, or goes on: after this time and id.
    fn start(&self) -> (i64, Uuid) {
        let after = self.search.after.map(|after| (after.at.0, after.id.0));
        match self.search.order.direction {
            Direction::Ascending => {
                // Before all ids: one that is not less than the least, at the moment before.
                let first = (self.first.saturating_sub(1), Uuid::max());
                after.map_or(first, |after| after.max(first))
            }
            Direction::Descending => {
                let last = (self.last.saturating_add(1), Uuid::nil());
                after.map_or(last, |after| after.min(last))
            }
        }
    }

    /// Walks the index of the order, merged from those of several states.
    async fn in_order(&self) -> Result<Met, StoreError> {
        let (start, start_id) = self.start();
        let end = match self.search.order.direction {
            Direction::Ascending => self.last,
            Direction::Descending => self.first,
        };
        let (first, last) = other(self.search).bounds();
        let sql = walked(self.search);
        let chosen = format!(
            "SELECT * FROM ({sql}) AS walked
             WHERE {other} BETWEEN $6 AND $7 AND (status <= 2 OR due > (SELECT store_time($8)))
             {order} LIMIT $9",
            other = column(opposite(self.search.order.by)),
            order = order(self.search),
        );
        let given: [&(dyn ToSql + Sync); 5] = [&self.owner, &start, &start_id, &end, &BUDGET];
        let more: [&(dyn ToSql + Sync); 4] = [&first, &last, &self.floor, &self.enough()];
        let all: Vec<_> = given.into_iter().chain(more).collect();
        let met = rows(self.on, &with_records(&chosen, self.search), &all).await?;
        let mut short = None;
        if met.len() < usize::try_from(self.enough()).unwrap_or(usize::MAX) {
            // The last row that was looked at, if the walk came so far.
            let reached = format!(
                "SELECT id, {} FROM ({sql}) AS walked {} OFFSET $5::bigint - 1 LIMIT 1",
                column(self.search.order.by),
                order(self.search)
            );
            let reached = rows(self.on, &reached, &given).await?;
            if let Some(row) = reached.first() {
                let at = row.try_get(1).map_err(unreadable)?;
                short = Some((Timestamp(at), TaskId(row.try_get(0).map_err(unreadable)?)));
            }
        }
        Ok(Met { rows: met, short })
    }

    /// Whether the window on the other time has no more tasks than `most`.
    async fn has_no_more(&self, most: i64) -> Result<bool, StoreError> {
        let (first, last) = other(self.search).bounds();
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM task WHERE owner = $1{} AND {} BETWEEN $2 AND $3 LIMIT $4) AS counted",
            of_states(&self.search.filter),
            column(opposite(self.search.order.by)),
        );
        let found = rows(self.on, &sql, &[&self.owner, &first, &last, &(most + 1)]).await?;
        let found = found.first().map_or(Ok(0_i64), |row| row.try_get(0)).map_err(unreadable)?;
        Ok(found <= most)
    }

    /// All within the window on the other time, sorted.
    async fn within_window(&self) -> Result<Met, StoreError> {
        let (first, last) = other(self.search).bounds();
        let all = format!(
            "SELECT id, status, created, updated, due FROM task
             WHERE owner = $1{} AND {} BETWEEN $7 AND $8 OFFSET 0",
            of_states(&self.search.filter),
            column(opposite(self.search.order.by)),
        );
        self.sorted(&all, &[&first, &last]).await
    }

    /// Those of these ids that fit, sorted.
    async fn named(&self, ids: &Vec<Uuid>) -> Result<Met, StoreError> {
        let (first, last) = other(self.search).bounds();
        // One by one, by the index of ids: by that of owners all of the owner's would be read.
        let all = format!(
            "SELECT task.id, status, created, updated, due
             FROM (SELECT DISTINCT unnest($9::uuid[]) AS id) AS named, LATERAL (
                 SELECT * FROM task WHERE task.id = named.id OFFSET 0
             ) AS task
             WHERE owner = $1{} AND {} BETWEEN $7 AND $8 OFFSET 0",
            of_states(&self.search.filter),
            column(opposite(self.search.order.by)),
        );
        self.sorted(&all, &[&first, &last, ids]).await
    }

    /// A page of what `all` gives, from $7 on.
    async fn sorted(&self, all: &str, given: &[&(dyn ToSql + Sync)]) -> Result<Met, StoreError> {
        let (start, start_id) = self.start();
        let by = column(self.search.order.by);
        let (later, bound, end) = match self.search.order.direction {
            Direction::Ascending => (">", "<=", self.last),
            Direction::Descending => ("<", ">=", self.first),
        };
        let chosen = format!(
            "SELECT * FROM ({all}) AS gathered
             WHERE ({by}, id) {later} ($2, $3) AND {by} {bound} $4
                 AND (status <= 2 OR due > (SELECT store_time($5)))
             {} LIMIT $6",
            order(self.search),
        );
        let enough = self.enough();
        let own: [&(dyn ToSql + Sync); 6] = [&self.owner, &start, &start_id, &end, &self.floor, &enough];
        let all: Vec<_> = own.into_iter().chain(given.iter().copied()).collect();
        Ok(Met { rows: rows(self.on, &with_records(&chosen, self.search), &all).await?, short: None })
    }
}

/// Rows of an index from ($2, $3), without it, to $4, and no more than $5.
fn walked(search: &Search) -> String {
    let by = column(search.order.by);
    let (later, bound) = match search.order.direction {
        Direction::Ascending => (">", "<="),
        Direction::Descending => ("<", ">="),
    };
    let order = order(search);
    // Ended by a limit of its own each, as ranges that are joined before they are planned are
    // not known to be in order: all of them would be read and sorted.
    let range = |state: Option<TaskStatus>| {
        let state = state.map_or_else(String::new, |state| format!(" AND status = {}", codec::status(state)));
        format!(
            "(SELECT id, status, created, updated, due FROM task
             WHERE owner = $1{state} AND ({by}, id) {later} ($2, $3) AND {by} {bound} $4 {order} LIMIT $5)"
        )
    };
    let ranges: Vec<String> = match &search.filter.statuses {
        Some(states) => {
            let mut states = states.clone();
            states.sort_unstable_by_key(|status| codec::status(*status));
            states.dedup();
            states.into_iter().map(|state| range(Some(state))).collect()
        }
        None => vec![range(None)],
    };
    match ranges.is_empty() {
        true => format!("SELECT * FROM {} AS nothing WHERE false", range(None)),
        false => format!("SELECT * FROM ({}) AS ranges {order} LIMIT $5", ranges.join(" UNION ALL ")),
    }
}

/// These tasks with their records: no more of them are fetched than are on the page.
fn with_records(chosen: &str, search: &Search) -> String {
    format!(
        "SELECT chosen.id, status, created, updated, record FROM ({chosen}) AS chosen, LATERAL (
             SELECT record FROM task WHERE task.id = chosen.id OFFSET 0
         ) AS fetched {}",
        order(search)
    )
}

fn of_states(filter: &Filter) -> String {
    let Some(states) = &filter.statuses else { return String::new() };
    let mut text = String::from(" AND status IN (0");
    for state in states {
        write!(text, ", {}", codec::status(*state)).expect("a string takes everything");
    }
    text.push(')');
    text
}

fn order(search: &Search) -> String {
    let by = column(search.order.by);
    match search.order.direction {
        Direction::Ascending => format!("ORDER BY {by}, id"),
        Direction::Descending => format!("ORDER BY {by} DESC, id DESC"),
    }
}

async fn rows(
    on: &Transaction<'_>,
    sql: &str,
    given: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let statement = on.prepare_cached(sql).await.map_err(failed)?;
    on.query(&statement, given).await.map_err(failed)
}
