//! Searching in SQLite: which index is walked, how far, and what is fetched.
//!
//! Every criterion but one is a range of an index that has the order asked for:
//! the owner, the states (an index range each, merged), a window on the time that
//! is ordered by. The one is a window on the *other* time. It says something of
//! the time ordered by as well, since a task changes no earlier than it was
//! created and later by no more than the longest span there ever was; what is
//! left is either few tasks, which are sorted, or more, of which the walk in order
//! meets enough soon. For the case that it does not, the walk ends after
//! [`BUDGET`]. Then what is in the window is sorted after all, unless that is more
//! than [`MANY`]; the page is short in that case and says where the walk got to.

mod statements;

use super::error::{corrupt, failed};
use super::tasks::{id, summary};
use crate::codec;
use crate::extent::{opposite, other, range};
use crate::seal::Sealing;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use statements::{FETCH, LATEST, ONE, SPAN, counted, ordered, windowed};
use toolyard_task::TaskId;
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search};
use toolyard_task::store::StoreError;
use toolyard_task::task::Summary;
use toolyard_task::wire::{TaskStatus, Timestamp};

/// Rows of an index that are looked at for one page.
const BUDGET: u32 = 20_000;

/// What a row of the table costs of the budget, beside its row of an index.
const FETCHED: u32 = 3;

/// A window of no more tasks than this is read whole and sorted.
const FEW: u32 = 2_000;

/// So is one of no more than this, where the walk in order led to nothing.
const MANY: u32 = 20_000;

/// Larger than any id.
const LAST_ID: [u8; 17] = [0xff; 17];

pub(super) fn search(
    on: &Connection,
    search: &Search,
    now: Timestamp,
    sealing: &Sealing,
) -> Result<Page, StoreError> {
    // Of one moment, as otherwise a change between two statements could move a
    // task past both.
    let moment = on.unchecked_transaction().map_err(failed)?;
    let page = Walk::of(&moment, search, now, sealing)?.page()?;
    moment.finish().map_err(failed)?;
    Ok(page)
}

/// A task that was met in an index.
struct Met {
    seq: i64,
    place: Place,
    created: Timestamp,
    updated: Timestamp,
}

/// A place in the order.
type Place = (Timestamp, TaskId);

/// A walk towards one page.
struct Walk<'a> {
    on: &'a Connection,
    search: &'a Search,
    sealing: &'a Sealing,
    owner: String,
    now: Timestamp,
    /// The milliseconds of the time ordered by that are of interest.
    first: i64,
    last: i64,
    left: u32,
    tasks: Vec<Summary>,
    /// The last task that was looked at.
    reached: Option<Place>,
    more: bool,
}

impl<'a> Walk<'a> {
    fn of(
        on: &'a Connection,
        search: &'a Search,
        now: Timestamp,
        sealing: &'a Sealing,
    ) -> Result<Self, StoreError> {
        let longest: i64 = on
            .prepare_cached(SPAN)
            .and_then(|mut read| read.query_row([], |row| row.get(0)))
            .map_err(failed)?;
        let (first, last) = range(search, longest);
        let owner = search.owner.key();
        Ok(Self {
            on,
            search,
            sealing,
            owner,
            now,
            first,
            last,
            left: BUDGET,
            tasks: Vec::new(),
            reached: None,
            more: false,
        })
    }

    fn page(mut self) -> Result<Page, StoreError> {
        if self.first <= self.last {
            if let Some(ids) = &self.search.filter.ids {
                let met = self.named(ids.iter())?;
                self.sorted(met)?;
            } else if other(self.search).is_everything() {
                self.in_order()?;
            } else if self.has_no_more(FEW)? || (!self.in_order()? && self.has_no_more(MANY)?) {
                let met = self.within_window()?;
                self.sorted(met)?;
            }
        }
        let next = match self.reached {
            Some((at, id)) if self.more => Some(Position { at, id, until: self.until()? }),
            _ => None,
        };
        Ok(Page { tasks: self.tasks, next })
    }

    /// Where later pages stop.
    fn until(&self) -> Result<Option<Timestamp>, StoreError> {
        match (self.search.order.by, self.search.order.direction, self.search.after) {
            (OrderBy::Updated, Direction::Ascending, Some(after)) => Ok(after.until),
            (OrderBy::Updated, Direction::Ascending, None) => {
                let mut read = self.on.prepare_cached(LATEST).map_err(failed)?;
                let latest: Option<i64> =
                    read.query_row(params![self.owner], |row| row.get(0)).map_err(failed)?;
                Ok(latest.map(Timestamp))
            }
            _ => Ok(None),
        }
    }

    /// Walks the index of the order, which is merged from those of several states.
    /// Says whether it came to the end of the page, or of all there is.
    fn in_order(&mut self) -> Result<bool, StoreError> {
        let (by, direction) = (self.search.order.by, self.search.order.direction);
        let other = other(self.search);
        let ranges = ranges(&self.search.filter, by, !other.is_everything());
        let start = self.start();
        let end = match direction {
            Direction::Ascending => self.last,
            Direction::Descending => self.first,
        };
        let mut statements = ranges
            .iter()
            .map(|state| self.on.prepare_cached(&ordered(*state, by, direction)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        let given = params![self.owner, start.0, start.1, end];
        let mut streams = Vec::new();
        for statement in &mut statements {
            streams.push(Stream::new(statement.query(given).map_err(failed)?, self.search)?);
        }
        while let Some(met) = next(&mut streams, self.search)? {
            if self.left == 0 {
                self.more = true;
                return Ok(false);
            }
            self.left -= 1;
            let wanted = match by {
                OrderBy::Created => other.contains(met.updated),
                OrderBy::Updated => other.contains(met.created),
            };
            if wanted && self.take(&met)? {
                return Ok(true);
            }
            self.reached = Some(met.place);
        }
        Ok(true)
    }

    /// Where the range begins, or goes on: after this time and id.
    fn start(&self) -> (i64, Vec<u8>) {
        let after = self.search.after.map(|after| (after.at.0, after.id.0.as_bytes().to_vec()));
        match self.search.order.direction {
            Direction::Ascending => {
                let first = (self.first, Vec::new());
                after.map_or(first.clone(), |after| after.max(first))
            }
            Direction::Descending => {
                let last = (self.last, LAST_ID.to_vec());
                after.map_or(last.clone(), |after| after.min(last))
            }
        }
    }

    /// Whether the window on the other time has no more tasks than `most`.
    fn has_no_more(&self, most: u32) -> Result<bool, StoreError> {
        let (first, last) = other(self.search).bounds();
        let by = opposite(self.search.order.by);
        let mut left = most;
        for state in ranges(&self.search.filter, by, false) {
            let mut count = self.on.prepare_cached(&counted(state, by)).map_err(failed)?;
            let found: u32 = count
                .query_row(params![self.owner, first, last, left + 1], |row| row.get(0))
                .map_err(failed)?;
            let Some(rest) = left.checked_sub(found) else { return Ok(false) };
            left = rest;
        }
        Ok(true)
    }

    /// All within the window on the other time.
    fn within_window(&self) -> Result<Vec<Met>, StoreError> {
        let (first, last) = other(self.search).bounds();
        let by = opposite(self.search.order.by);
        let mut all = Vec::new();
        for state in ranges(&self.search.filter, by, true) {
            let mut read = self.on.prepare_cached(&windowed(state, by)).map_err(failed)?;
            let mut rows = read.query(params![self.owner, first, last]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                all.push(met(row, self.search).map_err(failed)?);
            }
        }
        Ok(all)
    }

    /// Those of these ids that fit.
    fn named<'i>(&self, ids: impl Iterator<Item = &'i TaskId>) -> Result<Vec<Met>, StoreError> {
        let mut read = self.on.prepare_cached(ONE).map_err(failed)?;
        let mut all = Vec::new();
        for id in ids {
            let one = |row: &Row<'_>| Ok((met(row, self.search)?, row.get::<_, i64>(4)?));
            let found = read.query_row(params![id.0.as_bytes(), self.owner], one).optional();
            let Some((met, status)) = found.map_err(failed)? else { continue };
            let status = codec::read_status(status).map_err(corrupt)?;
            if self.search.filter.takes(*id, status, met.created, met.updated) {
                all.push(met);
            }
        }
        Ok(all)
    }

    /// Puts in order what was gathered, and takes a page of it, whatever a walk has
    /// taken before.
    fn sorted(&mut self, mut all: Vec<Met>) -> Result<(), StoreError> {
        self.tasks.clear();
        (self.reached, self.more, self.left) = (None, false, BUDGET);
        let after = self.search.after.map(|after| (after.at, after.id));
        let (first, last) = (self.first, self.last);
        all.retain(|met| (first..=last).contains(&met.place.0.0));
        match self.search.order.direction {
            Direction::Ascending => {
                all.retain(|met| after.is_none_or(|after| met.place > after));
                all.sort_unstable_by_key(|met| met.place);
            }
            Direction::Descending => {
                all.retain(|met| after.is_none_or(|after| met.place < after));
                all.sort_unstable_by_key(|met| std::cmp::Reverse(met.place));
            }
        }
        for met in &all {
            // Most of them may be gone.
            if self.left == 0 {
                self.more = true;
                return Ok(());
            }
            if self.take(met)? {
                return Ok(());
            }
            self.reached = Some(met.place);
        }
        Ok(())
    }

    /// Takes a task along unless it is gone. Says whether the page was full.
    fn take(&mut self, met: &Met) -> Result<bool, StoreError> {
        self.left = self.left.saturating_sub(FETCHED);
        let mut fetch = self.on.prepare_cached(FETCH).map_err(failed)?;
        let mut rows = fetch.query(params![met.seq, self.now.0]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(false) };
        if self.tasks.len() >= self.search.limit.max(1) as usize {
            self.more = true;
            return Ok(true);
        }
        self.tasks.push(summary(row, self.sealing)?);
        Ok(false)
    }
}

/// An index range, and the task that is its next.
struct Stream<'s> {
    rows: Rows<'s>,
    head: Option<Met>,
}

impl<'s> Stream<'s> {
    fn new(rows: Rows<'s>, search: &Search) -> Result<Self, StoreError> {
        let mut stream = Self { rows, head: None };
        stream.advance(search)?;
        Ok(stream)
    }

    /// Gives the head, and puts the one after it in its place.
    fn advance(&mut self, search: &Search) -> Result<Option<Met>, StoreError> {
        let next = match self.rows.next().map_err(failed)? {
            Some(row) => Some(met(row, search).map_err(failed)?),
            None => None,
        };
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// The next task of all streams together.
fn next(streams: &mut [Stream<'_>], search: &Search) -> Result<Option<Met>, StoreError> {
    let heads = streams.iter_mut().filter(|stream| stream.head.is_some());
    let place = |stream: &&mut Stream<'_>| stream.head.as_ref().map(|met| met.place);
    let chosen = match search.order.direction {
        Direction::Ascending => heads.min_by_key(place),
        Direction::Descending => heads.max_by_key(place),
    };
    chosen.map_or(Ok(None), |stream| stream.advance(search))
}

fn met(row: &Row<'_>, search: &Search) -> rusqlite::Result<Met> {
    let (created, updated) = (Timestamp(row.get(2)?), Timestamp(row.get(3)?));
    Ok(Met { seq: row.get(0)?, place: (search.order.time(created, updated), id(row, 1)?), created, updated })
}

/// The index ranges, merged, of a time: one for each state, or, for `None`, that of
/// all of them. The latter holds only the creation where that is the time, so if
/// `both` times are needed, the ranges of all states stand in for it.
fn ranges(filter: &Filter, by: OrderBy, both: bool) -> Vec<Option<TaskStatus>> {
    let mut states = match &filter.statuses {
        Some(wanted) => wanted.clone(),
        None if both && by == OrderBy::Created => codec::STATUSES.to_vec(),
        None => return vec![None],
    };
    states.sort_unstable_by_key(|status| codec::status(*status));
    states.dedup();
    states.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests;
