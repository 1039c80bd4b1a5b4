//! Components in PostgreSQL, in parts. They have their own transactions: no change waits for megabytes.

use super::PostgresStore;
use super::error::failed;
use super::rows::get;
use crate::codec::CodecError;
use crate::components::check;
use bytes::Bytes;
use tokio_postgres::Error;
use toolyard_task::journal::COMPONENT_KEPT_MS;
use toolyard_task::{Digest, StoreError};

/// The bytes of a part, except the last.
const PART: usize = 1 << 20;

/// Waits for another host that puts the same component.
const PUT: &str = "
    INSERT INTO component (digest, parts, put) VALUES ($1, $2, store_time($3))
    ON CONFLICT (digest) DO UPDATE SET put = excluded.put RETURNING xmax = 0";
const PUT_PART: &str = "INSERT INTO component_part (digest, part, body) VALUES ($1, $2, $3)";
const PARTS: &str = "SELECT parts FROM component WHERE digest = $1";
const READ_PART: &str = "SELECT body FROM component_part WHERE digest = $1 AND part = $2";
const KEEP: &str = "UPDATE component SET put = store_time($2) WHERE digest = ANY($1)";
const SWEEP: &str = "
    DELETE FROM component WHERE put + $1 <= (SELECT store_time($2))
        AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.component = component.digest)";

pub(super) async fn put(store: &PostgresStore, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
    check(digest, bytes)?;
    write(store, digest, bytes).await.map_err(failed)
}

async fn write(store: &PostgresStore, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
    let mut on = store.place.client().await?;
    let step = on.transaction().await?;
    let parts = bytes.chunks(PART);
    let put = step.query_one(PUT, &[&digest.0, &(parts.len() as i64), &store.state.floor.get()]).await?;
    if put.try_get(0)? {
        for (part, body) in (0_i64..).zip(parts) {
            step.execute(PUT_PART, &[&digest.0, &part, &body]).await?;
        }
    }
    step.commit().await
}

pub(super) async fn read(store: &PostgresStore, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
    let rows = store.readers.rows(PARTS, &[&digest.0]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut bytes = Vec::new();
    for part in 0..get::<i64>(row, 0)? {
        let rows = store.readers.rows(READ_PART, &[&digest.0, &part]).await?;
        let Some(row) = rows.first() else {
            // Another host has swept it, or it is damaged.
            return match store.readers.rows(PARTS, &[&digest.0]).await?.is_empty() {
                true => Ok(None),
                false => Err(CodecError::OtherComponent.into()),
            };
        };
        bytes.extend_from_slice(get(row, 0)?);
    }
    check(digest, &bytes)?;
    Ok(Some(bytes.into()))
}

pub(super) async fn sweep(store: &PostgresStore, keep: &[Digest]) -> Result<u32, StoreError> {
    let keep: Vec<String> = keep.iter().map(|digest| digest.0.clone()).collect();
    let kept = i64::try_from(COMPONENT_KEPT_MS).unwrap_or(i64::MAX);
    let swept = store.writer.write(keep, move |writing, keep| {
        Box::pin(async move {
            let floor = writing.state.floor.get();
            if !keep.is_empty() {
                writing.execute(KEEP, &[keep, &floor]).await?;
            }
            writing.execute(SWEEP, &[&kept, &floor]).await
        })
    });
    Ok(u32::try_from(swept.await?).unwrap_or(u32::MAX))
}
