//! Audit entries in PostgreSQL: one row a transaction, written in that transaction, however many
//! changes share it.
//!
//! Each host numbers its own rows, transaction by transaction. A common number would be assigned
//! before the commit, so an export in that order would miss rows that are committed late. If a host
//! does not export its rows for a while, because it has ended or cannot, another host takes them
//! over.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::{get, number};
use super::transaction::{Operation, PostgresTransaction, pending};
use crate::audit_buffer::{AuditBuffer, AuditEntries};
use crate::audit_lines::{self, Lines};
use crate::codec::CodecError;
use crate::group_commit::keep_unwritten;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio_postgres::types::ToSql;
use toolyard_task::StoreError;
use toolyard_task::audit::{AuditStore, Batch, Entry};
use toolyard_task::wire::Timestamp;

/// Rows that another host takes over keep their names, because the ids of entries contain them.
const INSERT: &str = "
    INSERT INTO audit (writer, number, name, at, entries, lines)
    VALUES ($1, $2, $3, (SELECT engine_time()), $4, $5)";
const LEFT: &str = "
    SELECT 1 FROM audit WHERE writer <> $1 AND at <= (SELECT engine_time()) - $2 LIMIT 1";
const ADOPT: &str = "
    WITH gone AS (
        DELETE FROM audit WHERE (writer, number) IN (
            SELECT writer, number FROM audit WHERE writer <> $1 AND at <= (SELECT engine_time()) - $2
            ORDER BY at, writer, number LIMIT $4 FOR UPDATE SKIP LOCKED)
        RETURNING *)
    INSERT INTO audit (writer, number, name, at, entries, lines)
    SELECT $1, $3 + row_number() OVER (ORDER BY at, writer, number), name, at, entries, lines FROM gone";
const PENDING: &str = "SELECT number, name, lines FROM audit WHERE writer = $1 ORDER BY number LIMIT $2";
const FORGET: &str = "DELETE FROM audit WHERE writer = $1 AND number <= $2";
/// The rows that no longer fit, counted from the end.
const OVER: &str = "
    DELETE FROM audit WHERE (writer, number) IN (
        SELECT writer, number FROM (
            SELECT writer, number,
                   sum(octet_length(lines)) OVER (ORDER BY at DESC, writer DESC, number DESC) AS total FROM audit
        ) AS counted WHERE total > $1)
    RETURNING entries";

/// The maximum number of bytes in one read of pending rows, beyond its first row.
const MAX_READ_BYTES: usize = 4 << 20;
/// The number of other hosts' rows that are taken over at once.
const MAX_TAKEN: u32 = 1_000;

/// Writes entries that belong to no change. Each has the time at which it was made.
pub(super) fn notes(buffer: &Arc<AuditBuffer<Instant>>, noted: AuditEntries<Instant>) -> Box<dyn Operation> {
    let noted = Arc::new(noted);
    let reply = keep_unwritten(buffer.clone(), noted.clone());
    Box::new(pending(None, noted, |writing, noted| Box::pin(log_notes(writing, noted)), reply))
}

async fn log_notes(
    writing: &PostgresTransaction<'_>,
    noted: &AuditEntries<Instant>,
) -> Result<(), PostgresError> {
    let now = writing.time().await?;
    writing.log(|lines| {
        for (at, body) in &noted.entries {
            let ago = i64::try_from(at.elapsed().as_millis()).unwrap_or(0);
            lines.push(Timestamp(now.0.saturating_sub(ago)), body);
        }
        if noted.lost > 0 {
            lines.push_lost(now, noted.lost, "too_many_at_once");
        }
    });
    Ok(())
}

/// Writes the row of a transaction, if it has any entries.
pub(super) async fn insert(writing: &PostgresTransaction<'_>, lines: &Lines) -> Result<(), PostgresError> {
    if lines.is_empty() {
        return Ok(());
    }
    let log = &writing.state.log;
    let row = log.next.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{row}", log.name);
    let given: [&(dyn ToSql + Sync); 5] =
        [&log.writer, &row, &name, &number(lines.stands_for()), &lines.text().as_bytes()];
    writing.execute(INSERT, &given).await.map(drop)
}

#[async_trait]
impl AuditStore for PostgresStore {
    fn note(&self, entry: Entry) {
        if self.state.audit.note(Instant::now(), &entry) {
            self.writer.queue.wake();
        }
    }

    async fn pending(&self, limit: u32) -> Result<Vec<Batch>, StoreError> {
        self.adopt().await?;
        let rows = self.readers.rows(PENDING, &[&self.state.log.writer, &i64::from(limit)]).await?;
        let (mut batches, mut length) = (Vec::new(), 0);
        for row in &rows {
            let (number, lines): (i64, &[u8]) = (get(row, 0)?, get(row, 2)?);
            length += lines.len();
            let text = std::str::from_utf8(lines).map_err(|_| CodecError::NotText)?;
            let lines = audit_lines::named(get(row, 1)?, text);
            batches.push(Batch { number: number.unsigned_abs(), lines });
            if length > MAX_READ_BYTES {
                break;
            }
        }
        Ok(batches)
    }

    async fn exported(&self, up_to: u64) -> Result<(), StoreError> {
        if up_to == 0 && !self.state.audit.was_used() {
            return Ok(());
        }
        // The same transaction writes the buffered entries, and any write in progress ends before it.
        let forgotten = self.writer.write(number(up_to), |writing, up_to| {
            Box::pin(async move { writing.execute(FORGET, &[&writing.state.log.writer, up_to]).await })
        });
        forgotten.await.map(drop)
    }

    async fn trim(&self, bytes: u64) -> Result<u64, StoreError> {
        self.writer.write(number(bytes), |writing, bytes| Box::pin(trim(writing, *bytes))).await
    }

    async fn written(&self) {
        self.state.audit.written.notified().await;
    }
}

impl PostgresStore {
    /// Takes over rows that other hosts have not exported for a while.
    async fn adopt(&self) -> Result<(), StoreError> {
        let log = &self.state.log;
        let after = number(u64::try_from(log.adopt_after.as_millis()).unwrap_or(u64::MAX));
        while !self.readers.rows(LEFT, &[&log.writer, &after]).await?.is_empty() {
            let adopted = self.writer.write(after, |writing, after| {
                Box::pin(async move {
                    let log = &writing.state.log;
                    let from = log.next.fetch_add(MAX_TAKEN.into(), Ordering::Relaxed) - 1;
                    writing.execute(ADOPT, &[&log.writer, after, &from, &i64::from(MAX_TAKEN)]).await
                })
            });
            if adopted.await? == 0 {
                // Another host is doing this.
                break;
            }
        }
        Ok(())
    }
}

async fn trim(writing: &PostgresTransaction<'_>, bytes: i64) -> Result<u64, PostgresError> {
    let gone = writing.rows(OVER, &[&bytes]).await?;
    let lost = gone.iter().map(|row| row.try_get::<_, i64>(0)).sum::<Result<i64, _>>()?.unsigned_abs();
    if lost > 0 {
        let now = writing.time().await?;
        writing.log(|lines| lines.push_lost(now, lost, "not_exported_in_time"));
    }
    Ok(lost)
}
