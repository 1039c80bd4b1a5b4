//! Keys in SQLite.

use super::error::SqliteError;
use super::transaction::SqliteTransaction;
use super::{SqliteStore, rows};
use crate::codec::CodecError;
use crate::refusal::secret;
use async_trait::async_trait;
use rusqlite::{Connection, params};
use toolyard_task::StoreError;
use toolyard_task::keys::{Key, KeyStore, KeyUse};
use toolyard_task::wire::Timestamp;
use uuid::Uuid;

const READ: &str = "SELECT id, secret FROM key WHERE use = ?1 ORDER BY id DESC";
const FIRST: &str = "
    INSERT INTO key (use, id, secret, created)
    SELECT ?1, 1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM key WHERE use = ?1)";

const USE_UP: &str = "INSERT OR IGNORE INTO used (id, until) VALUES (?1, ?2)";
const FORGET_USED: &str = "DELETE FROM used WHERE until <= ?1";

#[async_trait]
impl KeyStore for SqliteStore {
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        let keys = self.readers.read(move |on| read(on, used_for)).await?;
        if !keys.is_empty() {
            return Ok(keys);
        }
        let fresh = secret()?;
        // Another caller or process may have been faster; then its key is used.
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            let now = writing.clock.now();
            writing.execute(FIRST, params![used_for.as_str(), fresh.as_slice(), now.0])?;
            read(writing.on, used_for)
        };
        self.writer.write(operation).await
    }

    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError> {
        let operation = move |writing: &mut SqliteTransaction<'_>| {
            forget_used(writing)?;
            Ok(writing.execute(USE_UP, params![id.as_bytes(), until.0])? == 1)
        };
        self.writer.write(operation).await
    }
}

/// Writes as many meaningless bytes as a large change has: a single page may fit where a change
/// does not. The next [`forget_used`] removes them.
pub(super) fn probe(writing: &mut SqliteTransaction<'_>) -> Result<(), SqliteError> {
    let sql = "INSERT OR IGNORE INTO used (id, until) VALUES (zeroblob(131072), 0)";
    writing.execute(sql, []).map(drop)
}

/// Forgets states that have expired.
pub(super) fn forget_used(writing: &mut SqliteTransaction<'_>) -> Result<(), SqliteError> {
    writing.execute(FORGET_USED, params![writing.clock.now().0]).map(drop)
}

fn read(on: &Connection, used_for: KeyUse) -> Result<Vec<Key>, SqliteError> {
    rows::all(on, READ, [used_for.as_str()], |row| {
        let secret = rows::blob(row, 1)?;
        let secret = secret.try_into().map_err(|_| CodecError::Length(secret.len()))?;
        Ok(Key { id: row.get(0)?, secret })
    })
}
