//! Searching in PostgreSQL: the statements of a [`SearchPlan`]. Each statement itself filters,
//! sorts and stops at the end of the page.

use super::connections::Readers;
use super::error::{failed, silent};
use super::rows::{count, get, summary};
use crate::codec;
use crate::encryption::Sealing;
use crate::search_plan::{FEW, FoundTasks, MANY, MAX_INDEX_ROWS, RowAccess, SearchPlan, column};
use deadpool_postgres::{Object, Transaction};
use std::fmt::Write as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};
use toolyard_task::search::{Direction, Page, Search, SortOrder};
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{StoreError, TaskId};
use uuid::Uuid;

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
            // The connection may still deliver the answer, to the next caller.
            drop(Object::take(on));
            Err(silent(readers.patience()))
        }
    }
}

async fn page(on: &mut Object, search: &Search, floor: i64, sealing: &Sealing) -> Result<Page, StoreError> {
    // All statements read one snapshot; otherwise a change between two statements could move a task
    // past both.
    let moment = on.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let moment = moment.start().await.map_err(failed)?;
    let spans = rows(&moment, "SELECT longest FROM span", &[]).await?;
    let longest = spans.first().map_or(Ok(0), |row| get(row, 0))?;
    let owner = search.owner.as_ref().map(|owner| owner.key().into_bytes());
    let reader = IndexReader { on: &moment, plan: SearchPlan::new(search, longest), owner, floor, sealing };
    let page = reader.page().await?;
    moment.commit().await.map_err(failed)?;
    Ok(page)
}

/// Reads one page.
struct IndexReader<'a> {
    on: &'a Transaction<'a>,
    plan: SearchPlan<'a>,
    /// `None` for all owners.
    owner: Option<Vec<u8>>,
    floor: i64,
    sealing: &'a Sealing,
}

impl IndexReader<'_> {
    async fn page(&self) -> Result<Page, StoreError> {
        let mut page = self.plan.page(self.found().await?);
        if self.plan.ends_at_latest()
            && let Some(next) = &mut page.next
        {
            let sql = "SELECT max(updated) FROM task WHERE owner = $1";
            let rows = rows(self.on, sql, &[&self.owner]).await?;
            next.until = rows.first().map_or(Ok(None), |row| get(row, 0))?.map(Timestamp);
        }
        Ok(page)
    }

    async fn found(&self) -> Result<FoundTasks, StoreError> {
        match self.plan.access() {
            RowAccess::Nothing => Ok(FoundTasks::default()),
            RowAccess::Ids(ids) => self.named(ids.iter().map(|id| id.0).collect()).await,
            RowAccess::Walk => self.in_order().await,
            RowAccess::WindowOrWalk if self.window_fits(FEW).await? => self.within_window().await,
            RowAccess::WindowOrWalk => {
                let walked = self.in_order().await?;
                if walked.short.is_some() && self.window_fits(MANY).await? {
                    return self.within_window().await;
                }
                Ok(walked)
            }
        }
    }

    /// The number of records that are read: one more than fits on the page, or as many as may be
    /// decoded to find those of a tool.
    fn most(&self) -> i64 {
        let enough = i64::try_from(self.plan.enough()).unwrap_or(i64::MAX);
        match self.plan.search.filter.tool {
            Some(_) => enough.max(FEW.into()),
            None => enough,
        }
    }

    /// Walks the index of the order, merged from those of several states.
    async fn in_order(&self) -> Result<FoundTasks, StoreError> {
        let (start, start_id) = self.plan.start();
        let (first, last) = self.plan.other.bounds();
        let sql = walked(&self.plan);
        let chosen = format!(
            "SELECT * FROM ({sql}) AS walked
             WHERE {other} BETWEEN $6 AND $7{states} AND (status <= 2 OR due > (SELECT store_time($8)))
             {order} LIMIT $9",
            states = of_states(&self.plan),
            other = column(self.plan.other_time()),
            order = order(self.plan.order),
        );
        let given: [&(dyn ToSql + Sync); 5] =
            [&self.owner, &start, &start_id, &self.plan.end(), &i64::from(MAX_INDEX_ROWS)];
        let more: [&(dyn ToSql + Sync); 4] = [&first, &last, &self.floor, &self.most()];
        let all: Vec<_> = given.into_iter().chain(more).collect();
        let mut found = self.fetched(&chosen, &all).await?;
        if found.tasks.len() < self.plan.enough() && found.short.is_none() {
            // The last row that was read, if the walk got that far.
            let reached = format!(
                "SELECT id, {} FROM ({sql}) AS walked {} OFFSET $5::bigint - 1 LIMIT 1",
                column(self.plan.order.by),
                order(self.plan.order)
            );
            let reached = rows(self.on, &reached, &given).await?;
            if let Some(row) = reached.first() {
                found.short = Some((Timestamp(get(row, 1)?), TaskId(get(row, 0)?)));
            }
        }
        Ok(found)
    }

    /// Whether the window on the other time has no more tasks than `most`.
    async fn window_fits(&self, most: u32) -> Result<bool, StoreError> {
        let (first, last) = self.plan.other.bounds();
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM task WHERE owner = $1{} AND {} BETWEEN $2 AND $3 LIMIT $4) AS counted",
            of_states(&self.plan),
            column(self.plan.other_time()),
        );
        let found = rows(self.on, &sql, &[&self.owner, &first, &last, &(i64::from(most) + 1)]).await?;
        Ok(count(&found)? <= u64::from(most))
    }

    /// All tasks within the window on the other time, sorted.
    async fn within_window(&self) -> Result<FoundTasks, StoreError> {
        let (first, last) = self.plan.other.bounds();
        let all = format!(
            "SELECT id, status, created, updated, due FROM task
             WHERE owner = $1{} AND {} BETWEEN $7 AND $8 OFFSET 0",
            of_states(&self.plan),
            column(self.plan.other_time()),
        );
        self.sorted(&all, &[&first, &last]).await
    }

    /// The matching tasks with these ids, sorted.
    async fn named(&self, ids: Vec<Uuid>) -> Result<FoundTasks, StoreError> {
        let (first, last) = self.plan.other.bounds();
        // Reads them one by one, by the index of ids; the index of owners would read all tasks of
        // the owner.
        let all = format!(
            "SELECT task.id, status, created, updated, due
             FROM (SELECT DISTINCT unnest($9::uuid[]) AS id) AS named, LATERAL (
                 SELECT * FROM task WHERE task.id = named.id OFFSET 0
             ) AS task
             WHERE ($1::bytea IS NULL OR owner = $1){} AND {} BETWEEN $7 AND $8 OFFSET 0",
            of_states(&self.plan),
            column(self.plan.other_time()),
        );
        self.sorted(&all, &[&first, &last, &ids]).await
    }

    /// A page of the rows of `all`, from $7 on.
    async fn sorted(&self, all: &str, given: &[&(dyn ToSql + Sync)]) -> Result<FoundTasks, StoreError> {
        let (start, start_id) = self.plan.start();
        let by = column(self.plan.order.by);
        let (later, bound) = comparisons(self.plan.order);
        let chosen = format!(
            "SELECT * FROM ({all}) AS gathered
             WHERE ({by}, id) {later} ($2, $3) AND {by} {bound} $4
                 AND (status <= 2 OR due > (SELECT store_time($5)))
             {} LIMIT $6",
            order(self.plan.order),
        );
        let (end, most) = (self.plan.end(), self.most());
        let own: [&(dyn ToSql + Sync); 6] = [&self.owner, &start, &start_id, &end, &self.floor, &most];
        let all: Vec<_> = own.into_iter().chain(given.iter().copied()).collect();
        self.fetched(&chosen, &all).await
    }

    /// The chosen tasks with their records; tasks of other tools are left out.
    async fn fetched(&self, chosen: &str, given: &[&(dyn ToSql + Sync)]) -> Result<FoundTasks, StoreError> {
        let sql = format!(
            "SELECT chosen.id, status, created, updated, record FROM ({chosen}) AS chosen, LATERAL (
                 SELECT record FROM task WHERE task.id = chosen.id OFFSET 0
             ) AS fetched {}",
            order(self.plan.order)
        );
        let rows = rows(self.on, &sql, given).await?;
        let mut found = FoundTasks::default();
        let mut reached = None;
        for row in &rows {
            let task = summary(row, self.sealing)?;
            reached = Some((self.plan.order.time(task.created_at, task.updated_at), task.id));
            if self.plan.search.filter.takes_tool(&task.tool) {
                found.tasks.push(task);
            }
            if found.tasks.len() >= self.plan.enough() {
                return Ok(found);
            }
        }
        // Without a tool, as many rows as this fill the page.
        found.short = reached.filter(|_| rows.len() as i64 >= self.most());
        Ok(found)
    }
}

/// At most $5 rows of an index, from ($2, $3), exclusive, to $4.
fn walked(plan: &SearchPlan<'_>) -> String {
    let by = column(plan.order.by);
    let (later, bound) = comparisons(plan.order);
    let order = order(plan.order);
    // Each range has its own limit, because the planner does not know the order of ranges that are
    // joined first: it would read and sort all of them.
    let owner = if plan.search.owner.is_some() { "owner = $1" } else { "$1::bytea IS NULL" };
    let range = |state: Option<TaskStatus>| {
        let state = state.map_or_else(String::new, |state| format!(" AND status = {}", codec::status(state)));
        format!(
            "(SELECT id, status, created, updated, due FROM task
             WHERE {owner}{state} AND ({by}, id) {later} ($2, $3) AND {by} {bound} $4 {order} LIMIT $5)"
        )
    };
    let ranges: Vec<String> = match plan.states() {
        Some(states) if plan.search.owner.is_some() => {
            states.into_iter().map(|state| range(Some(state))).collect()
        }
        // There is no index of the states of all owners.
        _ => vec![range(None)],
    };
    match ranges.is_empty() {
        true => format!("SELECT * FROM {} AS nothing WHERE false", range(None)),
        false => format!("SELECT * FROM ({}) AS ranges {order} LIMIT $5", ranges.join(" UNION ALL ")),
    }
}

fn of_states(plan: &SearchPlan<'_>) -> String {
    let Some(states) = plan.states() else { return String::new() };
    let mut text = String::from(" AND status IN (0");
    for state in states {
        write!(text, ", {}", codec::status(state)).expect("a string takes everything");
    }
    text.push(')');
    text
}

/// How the time of a later row compares to the start and to the end of the range.
const fn comparisons(order: SortOrder) -> (&'static str, &'static str) {
    match order.direction {
        Direction::Ascending => (">", "<="),
        Direction::Descending => ("<", ">="),
    }
}

fn order(order: SortOrder) -> String {
    let by = column(order.by);
    match order.direction {
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
