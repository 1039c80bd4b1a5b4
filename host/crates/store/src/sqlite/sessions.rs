//! Sessions in SQLite.

use super::error::SqliteError;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, rows};
use crate::codec::{decode, encode, remembered};
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;
use toolyard_task::session::{Session, SessionStore};
use toolyard_task::wire::Timestamp;
use toolyard_task::{SessionId, StoreError};

const INSERT: &str = "INSERT INTO session (id, seen, record) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
const READ: &str = "SELECT seen, record FROM session WHERE id = ?1";
const LATEST: &str =
    "SELECT seen, record FROM session INDEXED BY session_by_seen ORDER BY seen DESC, id DESC LIMIT ?1";
const SEEN: &str = "UPDATE session SET seen = ?2 WHERE id = ?1 AND seen < ?2";
const RECORD: &str = "SELECT record FROM session WHERE id = ?1";
const REMEMBER: &str = "UPDATE session SET record = ?2 WHERE id = ?1";
const CLOSE: &str = "DELETE FROM session WHERE id = ?1";

/// Removes the session that was unseen for longest, but never the one just opened.
const EVICT: &str = "
    DELETE FROM session WHERE id = (
        SELECT id FROM session AS idle INDEXED BY session_by_seen
        WHERE id <> ?1 AND NOT EXISTS (
            SELECT 1 FROM task INDEXED BY live_task_by_session WHERE session = idle.id AND status <= 2)
        ORDER BY seen, id LIMIT 1)";

const SWEEP: &str = "
    DELETE FROM session WHERE seen <= ?1 AND NOT EXISTS (
        SELECT 1 FROM task INDEXED BY live_task_by_session WHERE session = session.id AND status <= 2)";

#[async_trait]
impl SessionStore for SqliteStore {
    async fn open(&self, session: Session, most: u32) -> Result<Session, StoreError> {
        self.writer.write(move |writing| open(writing, &session, most)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let id = id.clone();
        self.readers.read(move |on| rows::first(on, READ, params![id.0], stored)).await
    }

    async fn sessions(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        self.readers.read(move |on| rows::all(on, LATEST, params![limit], stored)).await
    }

    async fn touch(&self, id: &SessionId) -> Result<(), StoreError> {
        if self.state.last_seen.touch(id, self.state.clock.now()) {
            self.writer.queue.wake();
        }
        Ok(())
    }

    async fn remember(&self, session: &Session) -> Result<bool, StoreError> {
        let session = session.clone();
        self.writer.write(move |writing| remember(writing, &session)).await
    }

    async fn close(&self, id: &SessionId) -> Result<bool, StoreError> {
        let id = id.clone();
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let closed = writing.execute(CLOSE, params![id.0])? > 0;
            writing.counts.sessions_changed(-i32::from(closed));
            Ok(closed)
        };
        self.writer.write(operation).await
    }

    async fn sweep(&self, idle_ms: u64) -> Result<u32, StoreError> {
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let idle = i64::try_from(idle_ms).unwrap_or(i64::MAX);
            let until = writing.clock.now().0.saturating_sub(idle);
            let swept = writing.execute(SWEEP, params![until])?;
            writing.counts.sessions_changed(-i32::try_from(swept).unwrap_or(i32::MAX));
            Ok(u32::try_from(swept).unwrap_or(u32::MAX))
        };
        self.writer.write(operation).await
    }
}

fn open(writing: &mut SqliteTransaction<'_>, session: &Session, most: u32) -> Result<Session, SqliteError> {
    let now = writing.clock.now();
    let session = Session { created_at: now, seen_at: now, ..session.clone() };
    let record = encode(&session)?;
    // Counted beforehand, in case the number is not yet known.
    let mut count = writing.counts.sessions(writing.on)?.saturating_add(1);
    if writing.execute(INSERT, params![session.id.0, now.0, record])? == 0 {
        return Err(StoreError::Corrupt(StoreRefusal::Exists(session.id.to_string()).into()).into());
    }
    writing.counts.sessions_changed(1);
    // All others may have live tasks; then there are too many for a while.
    while count > most && writing.execute(EVICT, params![session.id.0])? > 0 {
        writing.counts.sessions_changed(-1);
        count -= 1;
    }
    Ok(session)
}

/// Read and written in one transaction, so that no other field of the session comes from the
/// caller's copy, which may be old.
fn remember(writing: &SqliteTransaction<'_>, set: &Session) -> Result<bool, SqliteError> {
    let changed = |row: &Row<'_>| Ok(remembered(rows::text(row, 0)?, set)?);
    let Some(changed) = rows::first(writing.on, RECORD, params![set.id.0], changed)? else {
        return Ok(false);
    };
    writing.execute(REMEMBER, params![set.id.0, changed])?;
    Ok(true)
}

/// A session, from the columns seen and record.
fn stored(row: &Row<'_>) -> Result<Session, SqliteError> {
    Ok(Session { seen_at: Timestamp(row.get(0)?), ..decode(rows::text(row, 1)?)? })
}

/// Writes when sessions were last seen.
pub(super) fn write_last_seen(
    on: &Connection,
    touched: &HashMap<SessionId, Timestamp>,
) -> Result<(), SqliteError> {
    let mut statement = on.prepare_cached(SEEN)?;
    for (id, at) in touched {
        statement.execute(params![id.0, at.0])?;
    }
    Ok(())
}
