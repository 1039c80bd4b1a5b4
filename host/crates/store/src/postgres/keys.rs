//! Keys in PostgreSQL: all hosts sign with the same ones.

use super::PostgresStore;
use super::error::PostgresError;
use super::rows::get;
use super::transaction::PostgresTransaction;
use crate::codec::CodecError;
use crate::refusal::secret;
use async_trait::async_trait;
use tokio_postgres::Row;
use toolyard_task::StoreError;
use toolyard_task::keys::{Key, KeyStore, KeyUse};
use toolyard_task::wire::Timestamp;
use uuid::Uuid;

const READ: &str = "SELECT id, secret FROM key WHERE use = $1 ORDER BY id DESC";
/// Only one host creates keys at a time.
const TURN: &str = "LOCK TABLE turn_key IN SHARE UPDATE EXCLUSIVE MODE";
pub(super) const FIRST: &str = "
    INSERT INTO key (use, id, secret, created)
    SELECT $1, 1, $2, engine_time() WHERE NOT EXISTS (SELECT 1 FROM key WHERE use = $1)";
const USE_UP: &str = "INSERT INTO used (id, until) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
/// States that have expired. Other hosts may do this as well.
const FORGET_USED: &str = "
    DELETE FROM used WHERE id IN (
        SELECT id FROM used WHERE until <= (SELECT store_time($1)) ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl KeyStore for PostgresStore {
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        let keys = self.read_keys(used_for).await?;
        if !keys.is_empty() {
            return Ok(keys);
        }
        let fresh = secret()?;
        // Another caller or host may have been faster; then its key is used.
        let made = self.writer.write(fresh, move |writing, fresh| {
            Box::pin(async move {
                writing.execute(TURN, &[]).await?;
                writing.execute(FIRST, &[&used_for.as_str(), &&fresh[..]]).await
            })
        });
        made.await?;
        self.read_keys(used_for).await
    }

    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError> {
        self.writer.write(id, move |writing, id| Box::pin(use_up(writing, *id, until))).await
    }
}

async fn use_up(
    writing: &PostgresTransaction<'_>,
    id: Uuid,
    until: Timestamp,
) -> Result<bool, PostgresError> {
    writing.execute(FORGET_USED, &[&writing.state.floor.get()]).await?;
    Ok(writing.execute(USE_UP, &[&id, &until.0]).await? == 1)
}

impl PostgresStore {
    async fn read_keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError> {
        self.readers.rows(READ, &[&used_for.as_str()]).await?.iter().map(key).collect()
    }
}

fn key(row: &Row) -> Result<Key, StoreError> {
    let (id, secret): (i64, &[u8]) = (get(row, 0)?, get(row, 1)?);
    Ok(Key {
        id: u32::try_from(id).map_err(|_| CodecError::Length(8))?,
        secret: secret.try_into().map_err(|_| CodecError::Length(secret.len()))?,
    })
}
