//! Sessions in PostgreSQL.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::{get, number};
use super::transaction::{Operation, PostgresTransaction, pending};
use crate::codec::{decode, encode, remembered};
use crate::group_commit::{log_failure, log_sessions_not_updated};
use crate::refusal::StoreRefusal;
use async_trait::async_trait;
use std::collections::HashMap;
use tokio_postgres::Row;
use toolyard_task::session::{Session, SessionStore};
use toolyard_task::wire::Timestamp;
use toolyard_task::{SessionId, StoreError};

/// The server provides the time; the record contains none.
const OPEN: &str = "
    INSERT INTO session (id, created, seen, record)
    SELECT $2, now, now, $3 FROM (SELECT store_time($1) AS now OFFSET 0) AS clock
    ON CONFLICT (id) DO NOTHING RETURNING seen";

/// Removes the sessions that were unseen for longest, but never the one just opened, until no more
/// than $2 remain. If all others have live tasks, there are too many for a while.
const EVICT: &str = "
    DELETE FROM session WHERE id IN (
        SELECT id FROM session AS idle WHERE id <> $1
            AND NOT EXISTS (SELECT 1 FROM task WHERE session = idle.id AND status <= 2)
        ORDER BY seen, id LIMIT greatest((SELECT count(*) FROM session) - $2, 0) FOR UPDATE SKIP LOCKED)";

const READ: &str = "SELECT created, seen, record FROM session WHERE id = $1";
const LATEST: &str = "SELECT created, seen, record FROM session ORDER BY seen DESC, id DESC LIMIT $1";
/// In the order of their ids, like every statement that locks several.
const SEEN: &str = "
    UPDATE session SET seen = greatest(seen, (SELECT store_time($1))) WHERE id IN (
        SELECT id FROM session WHERE id = ANY($2) ORDER BY id FOR UPDATE)";
/// The rest of the record is not taken from the caller's copy, which may be old.
const RECORD: &str = "SELECT record FROM session WHERE id = $1 FOR UPDATE";
const REMEMBER: &str = "UPDATE session SET record = $2 WHERE id = $1";
const CLOSE: &str = "DELETE FROM session WHERE id = $1";
const SWEEP: &str = "
    DELETE FROM session WHERE seen <= (SELECT store_time($1)) - $2
        AND NOT EXISTS (SELECT 1 FROM task WHERE session = session.id AND status <= 2)";

#[async_trait]
impl SessionStore for PostgresStore {
    async fn open(&self, session: Session, most: u32) -> Result<Session, StoreError> {
        let record = (encode(&session)?, session);
        let opened = self
            .writer
            .write(record, move |writing, (record, session)| Box::pin(open(writing, record, session, most)));
        opened.await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let rows = self.readers.rows(READ, &[&id.as_str()]).await?;
        rows.first().map(decode_row).transpose()
    }

    async fn sessions(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        let rows = self.readers.rows(LATEST, &[&i64::from(limit)]).await?;
        rows.iter().map(decode_row).collect()
    }

    async fn touch(&self, id: &SessionId) -> Result<(), StoreError> {
        // The server provides the time, since the write follows soon.
        if self.state.last_seen.touch(id, ()) {
            self.writer.queue.wake();
        }
        Ok(())
    }

    async fn remember(&self, session: &Session) -> Result<bool, StoreError> {
        self.writer.write(session.clone(), |writing, session| Box::pin(remember(writing, session))).await
    }

    async fn close(&self, id: &SessionId) -> Result<bool, StoreError> {
        let closed = self.writer.write(id.clone(), |writing, id| {
            Box::pin(async move { writing.execute(CLOSE, &[&id.as_str()]).await })
        });
        Ok(closed.await? > 0)
    }

    async fn sweep(&self, idle_ms: u64) -> Result<u32, StoreError> {
        let swept = self.writer.write(number(idle_ms), |writing, idle| {
            Box::pin(async move { writing.execute(SWEEP, &[&writing.state.floor.get(), idle]).await })
        });
        Ok(u32::try_from(swept.await?).unwrap_or(u32::MAX))
    }
}

async fn open(
    writing: &PostgresTransaction<'_>,
    record: &str,
    session: &Session,
    most: u32,
) -> Result<Session, PostgresError> {
    let opened = writing.rows(OPEN, &[&writing.state.floor.get(), &session.id.as_str(), &record]).await?;
    let Some(row) = opened.first() else {
        return Err(StoreError::Corrupt(StoreRefusal::Exists(session.id.to_string()).into()).into());
    };
    let now = writing.state.floor.saw(row.try_get(0)?);
    writing.execute(EVICT, &[&session.id.as_str(), &i64::from(most)]).await?;
    Ok(Session { created_at: now, seen_at: now, ..session.clone() })
}

async fn remember(writing: &PostgresTransaction<'_>, set: &Session) -> Result<bool, PostgresError> {
    let rows = writing.rows(RECORD, &[&set.id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let changed = remembered(row.try_get(0)?, set)?;
    writing.execute(REMEMBER, &[&set.id.as_str(), &changed]).await?;
    Ok(true)
}

fn decode_row(row: &Row) -> Result<Session, StoreError> {
    let (created_at, seen_at) = (Timestamp(get(row, 0)?), Timestamp(get(row, 1)?));
    Ok(Session { created_at, seen_at, ..decode(get(row, 2)?)? })
}

/// Writes when sessions were last seen. No caller waits for it.
pub(super) fn write_last_seen(touched: HashMap<SessionId, ()>) -> Box<dyn Operation> {
    let ids: Vec<String> = touched.into_keys().map(|id| id.to_string()).collect();
    let update = pending(
        None,
        ids,
        |writing, ids| {
            Box::pin(async move { writing.execute(SEEN, &[&writing.state.floor.get(), ids]).await.map(drop) })
        },
        log_failure(log_sessions_not_updated),
    );
    Box::new(update)
}
