//! Searching in SQLite: the statements of a [`SearchPlan`], and the merge of index ranges.

mod statements;

use super::error::SqliteError;
use super::rows::{self, id, summary};
use crate::codec;
use crate::encryption::Sealing;
use crate::search_plan::{FEW, FoundTasks, MANY, MAX_INDEX_ROWS, RowAccess, SearchPlan, SortKey};
use rusqlite::{Connection, Row, Rows, params};
use statements::{FETCH, LATEST, ONE, SPAN, counted, of_all, ordered, windowed};
use std::collections::BTreeSet;
use toolyard_task::search::{Direction, OrderBy, Page, Search, SortOrder};
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{Owner, TaskId};

/// The cost of reading a row of the table, in rows of an index.
const FETCHED: u32 = 3;

pub(super) fn search(
    on: &Connection,
    search: &Search,
    now: Timestamp,
    sealing: &Sealing,
) -> Result<Page, SqliteError> {
    // All statements read one snapshot; otherwise a change between two statements could move a task
    // past both.
    let moment = on.unchecked_transaction()?;
    let plan = SearchPlan::new(search, rows::only(&moment, SPAN, [])?);
    let page = IndexReader { on: &moment, plan, owner: search.owner.as_ref().map(Owner::key), now, sealing }
        .page()?;
    moment.finish()?;
    Ok(page)
}

/// A row of an index.
struct IndexRow {
    seq: i64,
    key: SortKey,
    created: Timestamp,
    updated: Timestamp,
}

/// Reads one page.
struct IndexReader<'a> {
    on: &'a Connection,
    plan: SearchPlan<'a>,
    /// `None` for all owners.
    owner: Option<String>,
    now: Timestamp,
    sealing: &'a Sealing,
}

impl IndexReader<'_> {
    fn page(&self) -> Result<Page, SqliteError> {
        let mut page = self.plan.page(self.found()?);
        if self.plan.ends_at_latest()
            && let Some(next) = &mut page.next
        {
            let latest: Option<i64> = rows::only(self.on, LATEST, params![self.owner])?;
            next.until = latest.map(Timestamp);
        }
        Ok(page)
    }

    fn found(&self) -> Result<FoundTasks, SqliteError> {
        match self.plan.access() {
            RowAccess::Nothing => Ok(FoundTasks::default()),
            RowAccess::Ids(ids) => self.sorted(self.named(ids)?),
            RowAccess::Walk => self.in_order(),
            RowAccess::WindowOrWalk if self.window_fits(FEW)? => self.sorted(self.within_window()?),
            RowAccess::WindowOrWalk => {
                let walked = self.in_order()?;
                if walked.short.is_some() && self.window_fits(MANY)? {
                    return self.sorted(self.within_window()?);
                }
                Ok(walked)
            }
        }
    }

    /// Walks the index of the order, which is merged from those of several states.
    fn in_order(&self) -> Result<FoundTasks, SqliteError> {
        let (by, direction) = (self.plan.order.by, self.plan.order.direction);
        let (start, start_id) = self.plan.start();
        let ranges: Vec<String> = match &self.owner {
            Some(_) => {
                let states = self.ranges(by, !self.plan.other.is_everything());
                states.into_iter().map(|state| ordered(state, by, direction)).collect()
            }
            None => vec![of_all(direction)],
        };
        let mut statements =
            ranges.iter().map(|sql| self.on.prepare_cached(sql)).collect::<Result<Vec<_>, _>>()?;
        let given = params![self.owner, start, start_id.as_bytes(), self.plan.end()];
        let mut streams = Vec::new();
        for statement in &mut statements {
            streams.push(Stream::new(statement.query(given)?, self.plan.order)?);
        }
        self.taken(std::iter::from_fn(|| next(&mut streams, self.plan.order).transpose()))
    }

    /// Whether the window on the other time has no more tasks than `most`.
    fn window_fits(&self, most: u32) -> Result<bool, SqliteError> {
        let (first, last) = self.plan.other.bounds();
        let by = self.plan.other_time();
        let mut left = most;
        for state in self.ranges(by, false) {
            let given = params![self.owner, first, last, left + 1];
            let found: u32 = rows::only(self.on, &counted(state, by), given)?;
            let Some(rest) = left.checked_sub(found) else { return Ok(false) };
            left = rest;
        }
        Ok(true)
    }

    /// All tasks within the window on the other time.
    fn within_window(&self) -> Result<Vec<IndexRow>, SqliteError> {
        let (first, last) = self.plan.other.bounds();
        let by = self.plan.other_time();
        let one = |row: &Row<'_>| index_row(row, self.plan.order);
        let mut all = Vec::new();
        for state in self.ranges(by, true) {
            let given = params![self.owner, first, last];
            all.extend(rows::all(self.on, &windowed(state, by), given, one)?);
        }
        Ok(all)
    }

    /// The tasks with these ids.
    fn named(&self, ids: &BTreeSet<TaskId>) -> Result<Vec<IndexRow>, SqliteError> {
        let one = |row: &Row<'_>| index_row(row, self.plan.order);
        let mut all = Vec::new();
        for id in ids {
            all.extend(rows::first(self.on, ONE, params![id.0.as_bytes(), self.owner], one)?);
        }
        Ok(all)
    }

    /// Sorts the rows that were found, and takes a page of them.
    fn sorted(&self, mut all: Vec<IndexRow>) -> Result<FoundTasks, SqliteError> {
        let (start, end) = (self.plan.start(), self.plan.end());
        match self.plan.order.direction {
            Direction::Ascending => {
                all.retain(|IndexRow { key: (at, id), .. }| (at.0, id.0) > start && at.0 <= end);
                all.sort_unstable_by_key(|row| row.key);
            }
            Direction::Descending => {
                all.retain(|IndexRow { key: (at, id), .. }| (at.0, id.0) < start && at.0 >= end);
                all.sort_unstable_by_key(|row| std::cmp::Reverse(row.key));
            }
        }
        self.taken(all.into_iter().map(Ok))
    }

    /// Takes the tasks of these rows, in their order, until there are enough of them or the budget
    /// ends: most of the tasks may be gone.
    fn taken(
        &self,
        rows: impl Iterator<Item = Result<IndexRow, SqliteError>>,
    ) -> Result<FoundTasks, SqliteError> {
        let (mut found, mut left, mut reached) = (FoundTasks::default(), MAX_INDEX_ROWS, None);
        for row in rows {
            let row = row?;
            if left == 0 {
                found.short = reached;
                break;
            }
            left -= 1;
            reached = Some(row.key);
            let other = match self.plan.order.by {
                OrderBy::Created => row.updated,
                OrderBy::Updated => row.created,
            };
            // The index of all owners does not contain the other time.
            if self.owner.is_some() && !self.plan.other.contains(other) {
                continue;
            }
            left = left.saturating_sub(FETCHED);
            let one = |row: &Row<'_>| summary(row, self.sealing);
            if let Some(task) = rows::first(self.on, FETCH, params![row.seq, self.now.0], one)? {
                let filter = &self.plan.search.filter;
                if filter.takes(task.id, &task.tool, task.status, task.created_at, task.updated_at) {
                    found.tasks.push(task);
                }
            }
            if found.tasks.len() >= self.plan.enough() {
                break;
            }
        }
        Ok(found)
    }

    /// The index ranges of a time, to be merged: one for each state or, for `None`, a common one.
    /// The common index by creation does not contain the time of the last change, so if `both`
    /// times are needed, the ranges of all states are read instead.
    fn ranges(&self, by: OrderBy, both: bool) -> Vec<Option<TaskStatus>> {
        match self.plan.states() {
            Some(states) => states.into_iter().map(Some).collect(),
            None if both && by == OrderBy::Created => codec::STATUSES.into_iter().map(Some).collect(),
            None => vec![None],
        }
    }
}

/// An index range and its next task.
struct Stream<'s> {
    rows: Rows<'s>,
    head: Option<IndexRow>,
}

impl<'s> Stream<'s> {
    fn new(rows: Rows<'s>, order: SortOrder) -> Result<Self, SqliteError> {
        let mut stream = Self { rows, head: None };
        stream.advance(order)?;
        Ok(stream)
    }

    /// Returns the head and replaces it with the next row.
    fn advance(&mut self, order: SortOrder) -> Result<Option<IndexRow>, SqliteError> {
        let next = self.rows.next()?.map(|row| index_row(row, order)).transpose()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// The next task among all streams.
fn next(streams: &mut [Stream<'_>], order: SortOrder) -> Result<Option<IndexRow>, SqliteError> {
    let heads = streams.iter_mut().filter(|stream| stream.head.is_some());
    let key = |stream: &&mut Stream<'_>| stream.head.as_ref().map(|row| row.key);
    let chosen = match order.direction {
        Direction::Ascending => heads.min_by_key(key),
        Direction::Descending => heads.max_by_key(key),
    };
    chosen.map_or(Ok(None), |stream| stream.advance(order))
}

fn index_row(row: &Row<'_>, order: SortOrder) -> Result<IndexRow, SqliteError> {
    let (created, updated) = (Timestamp(row.get(2)?), Timestamp(row.get(3)?));
    Ok(IndexRow { seq: row.get(0)?, key: (order.time(created, updated), id(row, 1)?), created, updated })
}

#[cfg(test)]
mod tests;
