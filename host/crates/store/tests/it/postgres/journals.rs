//! Journals in PostgreSQL that were changed by others, and their encryption.

use super::server;
use std::sync::Arc;
use toolyard_store::postgres::PostgresLocation;
use toolyard_store::{Backend, Keyring, PostgresOptions, PostgresStore, SealWith};
use toolyard_store_contract::journal::{chunk, recorded};
use toolyard_store_contract::{created, owner};
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush, JournalStore as _};
use toolyard_task::{Fence, Incarnation, StoreError, TaskId};

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];
const FENCE: Fence = Fence { incarnation: Incarnation(1), attempt: 1 };

async fn open(place: &PostgresLocation, keys: &[[u8; 32]]) -> Arc<PostgresStore> {
    let keys = Keyring::new(keys.iter().copied());
    let options = PostgresOptions { readers: 2, keys, ..PostgresOptions::default() };
    PostgresStore::open(place.clone(), options).await.expect("opens")
}

/// A task with four chunks.
async fn journal(store: &PostgresStore) -> (TaskId, Vec<Chunk>) {
    let made = created(store, recorded(&owner("a"), FENCE)).await;
    let chunks: Vec<Chunk> = (0..4).map(|number| chunk(number, 300)).collect();
    let appended = store
        .write_chunks(made.id, FENCE, 0, chunks.clone(), ChunkWrite::Append(Flush::Now))
        .await
        .expect("answers");
    assert_eq!(appended, Appended::Done);
    (made.id, chunks)
}

#[tokio::test]
async fn chunks_that_were_changed_or_moved_are_refused_and_keys_can_be_replaced() {
    let Some(server) = server::shared() else { return };
    let schema = server.schema();
    let place = PostgresLocation::parse(&server.address(), &schema).expect("an address");
    let plain = open(&place, &[]).await;
    let (first, chunks) = journal(&plain).await;
    plain.shut_down().await;
    let old = open(&place, &[OLD]).await;
    let (second, _) = journal(&old).await;
    old.shut_down().await;
    let store = open(&place, &[NEW, OLD]).await;
    let done = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("is encrypted again");
    assert_eq!((done.written, done.needed.len(), done.unreadable.len()), (2, 0, 0));
    store.shut_down().await;
    let store = open(&place, &[NEW]).await;
    for id in [first, second] {
        assert_eq!(store.chunks(id, 0, u64::MAX).await.expect("reads"), chunks);
        assert_eq!(
            store
                .write_chunks(id, FENCE, 0, chunks.clone(), ChunkWrite::Append(Flush::Now))
                .await
                .expect("answers"),
            Appended::Done
        );
    }
    let table = format!("{schema}.journal_chunk");
    server.ask(&format!("CREATE TABLE {schema}.kept AS SELECT * FROM {table}"));
    let of = format!("task = '{first}'");
    for (what, damage) in [
        ("a changed byte", format!("UPDATE {table} SET body = set_byte(body, 90, 1 - get_byte(body, 90) % 2) WHERE {of}")),
        ("a shortened chunk", format!("UPDATE {table} SET body = substring(body FROM 1 FOR 100) WHERE {of}")),
        ("no chunk", format!("DELETE FROM {table} WHERE {of} AND number = 1")),
        ("no last chunk", format!("DELETE FROM {table} WHERE {of} AND number = 3")),
        (
            "swapped chunks",
            format!(
                "UPDATE {table} AS one SET body = other.body FROM {schema}.kept AS other
                 WHERE one.{of} AND other.task = one.task AND one.number < 2 AND other.number = 1 - one.number"
            ),
        ),
        (
            "chunks of another task",
            format!(
                "UPDATE {table} AS one SET body = other.body FROM {schema}.kept AS other
                 WHERE one.{of} AND other.task <> one.task AND other.number = one.number"
            ),
        ),
    ] {
        server.ask(&damage);
        let mut read = store.chunks(first, 0, u64::MAX).await;
        if what == "no last chunk" {
            // The rest is as it was; the reader that asks for more notices.
            read = store.chunks(first, 3, u64::MAX).await;
        }
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{what}: {read:?}");
        assert_eq!(store.chunks(second, 0, u64::MAX).await.expect("reads"), chunks, "{what}");
        server.ask(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {schema}.kept"));
        assert_eq!(store.chunks(first, 0, u64::MAX).await.expect("reads"), chunks, "{what}");
    }
}
