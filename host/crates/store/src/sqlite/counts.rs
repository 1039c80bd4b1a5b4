//! Counts of live tasks and sessions, and the longest span from the creation of a task to a change
//! of it. Asking the file for every creation or change would cost more than the write itself. So
//! the writer remembers the counts until another process writes to the file, which `PRAGMA
//! data_version` shows.

use crate::key_id::KeyId;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;

/// The maximum number of remembered owners; beyond it, the counts are forgotten.
const MAX_OWNERS: usize = 10_000;

/// The longest span is stored in steps of this many milliseconds, so that changes of old tasks do
/// not write it each time.
const SPAN_STEP: i64 = 60_000;

const SPAN: &str = "SELECT longest FROM span";
/// Also keeps a key that was about to be removed.
const SEALED: &str = "
    INSERT INTO seal (key, leaving) VALUES (?1, 0) ON CONFLICT (key) DO UPDATE SET leaving = 0 WHERE leaving <> 0";
const LONGER: &str = "UPDATE span SET longest = ?1";

/// The live tasks of an owner.
#[derive(Clone, Copy, Default)]
pub(super) struct LiveTasks {
    /// The number of live tasks, with the parked ones.
    pub live: u32,
    /// The number of parked tasks.
    pub parked: u32,
}

/// The counts as of the writer's open transaction.
#[derive(Default)]
pub(super) struct Counts {
    live: Option<u32>,
    live_of: HashMap<String, LiveTasks>,
    sessions: Option<u32>,
    longest: Option<i64>,
    /// Whether the sealing key is in the file.
    sealed: bool,
}

impl Counts {
    /// Forgets the counts: another process wrote, or a transaction was rolled back.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The total number of live tasks.
    pub(super) fn live(&mut self, on: &Connection) -> rusqlite::Result<u32> {
        let sql = "SELECT count(*) FROM task INDEXED BY live_task_by_incarnation WHERE status <= 2";
        known(&mut self.live, on, sql)
    }

    /// The numbers of live tasks of an owner.
    pub(super) fn live_of(&mut self, on: &Connection, owner: &str) -> rusqlite::Result<LiveTasks> {
        if let Some(count) = self.live_of.get(owner) {
            return Ok(*count);
        }
        let sql = "
            SELECT count(*), count(wake) FROM task INDEXED BY task_by_status_created
            WHERE owner = ?1 AND status <= 2";
        let counts = |row: &Row<'_>| Ok(LiveTasks { live: row.get(0)?, parked: row.get(1)? });
        let count = on.prepare_cached(sql)?.query_row(params![owner], counts)?;
        if self.live_of.len() >= MAX_OWNERS {
            self.live_of.clear();
        }
        self.live_of.insert(owner.to_owned(), count);
        Ok(count)
    }

    /// The total number of sessions.
    pub(super) fn sessions(&mut self, on: &Connection) -> rusqlite::Result<u32> {
        known(&mut self.sessions, on, "SELECT count(*) FROM session")
    }

    /// Records how long after its creation a task changed. Searches rely on the stored span being
    /// at least as long as any that ever occurred.
    pub(super) fn spanned(&mut self, on: &Connection, span: i64) -> rusqlite::Result<()> {
        let longest = known(&mut self.longest, on, SPAN)?;
        if span > longest {
            let longer = span.saturating_add(SPAN_STEP - 1) / SPAN_STEP * SPAN_STEP;
            on.prepare_cached(LONGER)?.execute(params![longer.max(span)])?;
            self.longest = Some(longer.max(span));
        }
        Ok(())
    }

    /// Makes sure that the key of a sealed value is in the file. The answer holds until another
    /// process writes to the file, because only other processes remove keys.
    pub(super) fn sealed(&mut self, on: &Connection, key: Option<KeyId>) -> rusqlite::Result<()> {
        if let Some(key) = key
            && !self.sealed
        {
            on.prepare_cached(SEALED)?.execute(params![key.0])?;
            self.sealed = true;
        }
        Ok(())
    }

    /// Counts so many more live tasks of this owner, and so many more parked ones among them.
    pub(super) fn live_changed(&mut self, owner: &str, live: i32, parked: i32) {
        if let Some(count) = &mut self.live {
            *count = count.saturating_add_signed(live);
        }
        if let Some(count) = self.live_of.get_mut(owner) {
            count.live = count.live.saturating_add_signed(live);
            count.parked = count.parked.saturating_add_signed(parked);
        }
    }

    /// Counts a new session, or removed ones.
    pub(super) fn sessions_changed(&mut self, by: i32) {
        if let Some(count) = &mut self.sessions {
            *count = count.saturating_add_signed(by);
        }
    }
}

/// The known number, or the answer of this query, which is known from then on.
fn known<T: FromSql + Copy>(number: &mut Option<T>, on: &Connection, sql: &str) -> rusqlite::Result<T> {
    match *number {
        Some(number) => Ok(number),
        None => Ok(*number.insert(on.prepare_cached(sql)?.query_row([], |row| row.get(0))?)),
    }
}
