//! Audit entries in SQLite: one row a transaction, however many changes share it. The row is
//! written just before the commit, so it exists if and only if they do.

use super::SqliteStore;
use super::error::SqliteError;
use super::rows::{self, blob, number};
use super::transaction::{Operation, SqliteTransaction};
use crate::audit_buffer::{AuditBuffer, AuditEntries};
use crate::audit_lines::{self, Lines};
use crate::codec::CodecError;
use crate::group_commit::{PendingWrite, keep_unwritten};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use std::sync::Arc;
use toolyard_task::StoreError;
use toolyard_task::audit::{AuditStore, Batch, Entry};
use toolyard_task::wire::Timestamp;

const INSERT: &str = "INSERT INTO audit (entries, lines) VALUES (?1, ?2)";
const NAME: &str = "SELECT id FROM audit_log";
const PENDING: &str = "SELECT seq, lines FROM audit ORDER BY seq LIMIT ?1";
const FORGET: &str = "DELETE FROM audit WHERE seq <= ?1";
/// The latest row that no longer fits, counted from the end. The length of a blob
/// is known without reading it.
const OVER: &str = "
    SELECT coalesce(max(seq), 0) FROM (
        SELECT seq, sum(length(lines)) OVER (ORDER BY seq DESC) AS total FROM audit
    ) WHERE total > ?1";
const STANDS_FOR: &str = "SELECT coalesce(sum(entries), 0) FROM audit WHERE seq <= ?1";

/// The maximum number of bytes in one read of pending rows, beyond its first row.
const MAX_READ_BYTES: usize = 4 << 20;

/// Writes entries that belong to no change.
pub(super) fn notes(
    buffer: &Arc<AuditBuffer<Timestamp>>,
    noted: AuditEntries<Timestamp>,
) -> Box<dyn Operation> {
    let noted = Arc::new(noted);
    let reply = keep_unwritten(buffer.clone(), noted.clone());
    let operation = move |writing: &mut SqliteTransaction<'_>| {
        for (at, body) in &noted.entries {
            writing.lines.push(*at, body);
        }
        if noted.lost > 0 {
            writing.lines.push_lost(writing.clock.now(), noted.lost, "too_many_at_once");
        }
        Ok(())
    };
    Box::new(PendingWrite { operation, result: None, task: None, reply })
}

/// Writes the row of a transaction, if it has any entries.
pub(super) fn insert(on: &Connection, lines: &Lines) -> Result<(), SqliteError> {
    if !lines.is_empty() {
        rows::execute(on, INSERT, params![number(lines.stands_for()), lines.text().as_bytes()])?;
    }
    Ok(())
}

#[async_trait]
impl AuditStore for SqliteStore {
    fn note(&self, entry: Entry) {
        if self.state.audit.note(self.state.clock.now(), &entry) {
            self.writer.queue.wake();
        }
    }

    async fn pending(&self, limit: u32) -> Result<Vec<Batch>, StoreError> {
        self.readers.read(move |on| pending(on, limit)).await
    }

    async fn exported(&self, up_to: u64) -> Result<(), StoreError> {
        if up_to == 0 && !self.state.audit.was_used() {
            return Ok(());
        }
        // The same transaction writes the buffered entries, and any write in progress ends before it.
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            writing.execute(FORGET, params![number(up_to)]).map(drop)
        };
        self.writer.write(operation).await
    }

    async fn trim(&self, bytes: u64) -> Result<u64, StoreError> {
        self.writer.write(move |writing| trim(writing, bytes)).await
    }

    async fn written(&self) {
        self.state.audit.written.notified().await;
    }
}

fn pending(on: &Connection, limit: u32) -> Result<Vec<Batch>, SqliteError> {
    let name: String = rows::only(on, NAME, [])?;
    let mut statement = on.prepare_cached(PENDING)?;
    let mut rows = statement.query(params![limit])?;
    let (mut batches, mut length) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (number, lines) = (row.get::<_, i64>(0)?, blob(row, 1)?);
        length += lines.len();
        let text = std::str::from_utf8(lines).map_err(|_| CodecError::NotText)?;
        batches.push(audit_lines::batch(&name, number.unsigned_abs(), text));
        if length > MAX_READ_BYTES {
            break;
        }
    }
    Ok(batches)
}

fn trim(writing: &mut SqliteTransaction<'_>, bytes: u64) -> Result<u64, SqliteError> {
    let over: i64 = rows::only(writing.on, OVER, params![number(bytes)])?;
    if over == 0 {
        return Ok(0);
    }
    let lost = rows::count(writing.on, STANDS_FOR, params![over])?;
    writing.execute(FORGET, params![over])?;
    writing.lines.push_lost(writing.clock.now(), lost, "not_exported_in_time");
    Ok(lost)
}
