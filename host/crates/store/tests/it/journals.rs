//! Journals in a SQLite file that was damaged or changed by others, and their encryption.

use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use toolyard_store::sqlite::backup;
use toolyard_store::{Backend, Keyring, ReencryptionReport, SealWith, SqliteOptions, SqliteStore};
use toolyard_store_contract::journal::{chunk, recorded};
use toolyard_store_contract::{ManualClock, START, created, owner};
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush, JournalStore as _};
use toolyard_task::{Digest, Fence, Incarnation, StoreError, TaskId};

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];
const FENCE: Fence = Fence { incarnation: Incarnation(1), attempt: 1 };

fn open(folder: &Path, keys: &[[u8; 32]]) -> Arc<SqliteStore> {
    let keys = Keyring::new(keys.iter().copied());
    let options = SqliteOptions { keys, ..SqliteOptions::new(ManualClock::at(START)) };
    SqliteStore::open(folder, options).expect("opens")
}

fn file(folder: &TempDir) -> Connection {
    Connection::open(folder.path().join("toolyard.sqlite")).expect("opens")
}

/// A task with this many chunks.
async fn journal(store: &SqliteStore, chunks: u32) -> (TaskId, Vec<Chunk>) {
    let made = created(store, recorded(&owner("a"), FENCE)).await;
    let chunks: Vec<Chunk> = (0..chunks).map(|number| chunk(number, 300)).collect();
    let appended = store
        .write_chunks(made.id, FENCE, 0, chunks.clone(), ChunkWrite::Append(Flush::Now))
        .await
        .expect("answers");
    assert_eq!(appended, Appended::Done);
    (made.id, chunks)
}

fn is_corrupt<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Corrupt(_)))
}

/// Each of these changes, made behind the store's back and undone again. `?1` is the task's row.
const DAMAGE: [(&str, &str); 4] = [
    (
        "a changed byte",
        "UPDATE journal_chunk SET body = CAST(substr(body, 1, 90) || x'ff' || substr(body, 92) AS BLOB) WHERE task = ?1 AND number = 1",
    ),
    (
        "a shortened chunk",
        "UPDATE journal_chunk SET body = substr(body, 1, 100) WHERE task = ?1 AND number = 2",
    ),
    ("no chunk", "DELETE FROM journal_chunk WHERE task = ?1 AND number = 1"),
    ("an empty chunk", "UPDATE journal_chunk SET body = x'' WHERE task = ?1 AND number = 0"),
];
/// Only the encryption notices these: each chunk is one that the store wrote.
const MOVED: [(&str, &str); 2] = [
    (
        "swapped chunks",
        "UPDATE journal_chunk SET body = (SELECT body FROM journal_chunk AS other
            WHERE other.task = journal_chunk.task AND other.number = 1 - journal_chunk.number)
         WHERE task = ?1 AND number < 2",
    ),
    (
        "a chunk of another task",
        "UPDATE journal_chunk SET body = (SELECT body FROM journal_chunk AS other
            WHERE other.task <> journal_chunk.task AND other.number = journal_chunk.number)
         WHERE task = ?1 AND number = 2",
    ),
];

#[tokio::test]
async fn damage_in_a_chunk_is_noticed_and_never_passed_on() {
    for keys in [&[][..], &[NEW][..]] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), keys);
        let (id, chunks) = journal(&store, 4).await;
        let (other, others) = journal(&store, 4).await;
        let moved = if keys.is_empty() { &[][..] } else { &MOVED };
        for (what, damage) in DAMAGE.iter().chain(moved) {
            let file = file(&folder);
            let row: i64 = file
                .query_row("SELECT seq FROM task WHERE id = ?1", [id.0.as_bytes()], |row| row.get(0))
                .expect("is there");
            file.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM journal_chunk").expect("copies");
            assert!(file.execute(damage, [row]).expect("damages") > 0, "{what}");
            let read = store.chunks(id, 0, u64::MAX).await;
            assert!(is_corrupt(&read), "{what}: {read:?}");
            let repeated =
                store.write_chunks(id, FENCE, 0, chunks.clone(), ChunkWrite::Append(Flush::Now)).await;
            assert!(!matches!(repeated, Ok(Appended::Done)), "{what}: {repeated:?}");
            assert_eq!(store.chunks(other, 0, u64::MAX).await.expect("reads"), others, "{what}");
            let undo =
                "DELETE FROM journal_chunk; INSERT INTO journal_chunk SELECT * FROM kept; DROP TABLE kept";
            file.execute_batch(undo).expect("restores");
            assert_eq!(store.chunks(id, 0, u64::MAX).await.expect("reads"), chunks, "{what}");
        }
        // The last chunk is missing, which a reader that stops before it cannot see.
        file(&folder).execute("DELETE FROM journal_chunk WHERE number = 3", []).expect("removes");
        assert_eq!(store.chunks(id, 0, 1).await.expect("reads"), chunks[..1]);
        assert!(
            is_corrupt(&store.chunks(id, 0, u64::MAX).await) && is_corrupt(&store.chunks(id, 3, 1).await)
        );
    }
}

#[tokio::test]
async fn chunks_are_encrypted_and_encrypted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let word = "entry-entry-entry-entry-entry-entry";
    let plain = |folder: &TempDir| {
        let bytes: Vec<u8> = ["", "-wal"]
            .iter()
            .filter_map(|end| std::fs::read(folder.path().join(format!("toolyard.sqlite{end}"))).ok())
            .flatten()
            .collect();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    let told = |number: u32| {
        let mut writer = toolyard_journal::ChunkWriter::new();
        writer.push(&toolyard_journal::Entry::Begin(word.into()));
        writer.finish(1, number.into())
    };
    let store = open(folder.path(), &[]);
    let (first, _) = journal(&store, 0).await;
    assert_eq!(
        store
            .write_chunks(first, FENCE, 0, vec![told(0)], ChunkWrite::Append(Flush::Now))
            .await
            .expect("answers"),
        Appended::Done
    );
    assert!(plain(&folder), "the search finds what is plain");
    store.shut_down().await;
    let old = open(folder.path(), &[OLD]);
    let (second, chunks) = journal(&old, 2_000).await;
    assert_eq!(
        old.write_chunks(first, FENCE, 1, vec![told(1)], ChunkWrite::Append(Flush::Now))
            .await
            .expect("answers"),
        Appended::Done
    );
    old.shut_down().await;
    let store = open(folder.path(), &[NEW, OLD]);
    let done = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("is encrypted again");
    assert_eq!(done, ReencryptionReport { seen: 2, written: 2, ..ReencryptionReport::default() });
    store.vacuum().await.expect("has room");
    assert!(!plain(&folder));
    store.shut_down().await;
    let store = open(folder.path(), &[NEW]);
    assert_eq!(store.chunks(first, 0, u64::MAX).await.expect("reads"), [told(0), told(1)]);
    assert!(store.chunks(second, 0, u64::MAX).await.expect("reads") == chunks);
    // A repetition of chunks that have another key now.
    assert_eq!(
        store.write_chunks(second, FENCE, 0, chunks, ChunkWrite::Append(Flush::Now)).await.expect("answers"),
        Appended::Done
    );
    let done = store.reseal(SealWith::Nothing, &mut |_| {}).await.expect("opens all");
    assert!(done.needed.is_empty() && done.unreadable.is_empty());
    store.shut_down().await;
    let store = open(folder.path(), &[]);
    assert_eq!(store.chunks(first, 0, u64::MAX).await.expect("reads"), [told(0), told(1)]);
}

#[tokio::test]
async fn a_chunk_that_cannot_be_read_keeps_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = open(folder.path(), &[OLD]);
    let (bad, _) = journal(&old, 3).await;
    let (good, chunks) = journal(&old, 3).await;
    old.shut_down().await;
    let damage = "UPDATE journal_chunk SET body = substr(body, 1, 50) WHERE number = 1 AND task = 1";
    assert_eq!(file(&folder).execute(damage, []).expect("damages"), 1);
    let store = open(folder.path(), &[NEW, OLD]);
    let done = store.reseal(SealWith::Newest, &mut |_| {}).await.expect("goes on");
    assert_eq!((done.unreadable, done.needed.len()), (vec![bad], 1));
    assert_eq!(store.chunks(good, 0, u64::MAX).await.expect("reads"), chunks);
}

#[tokio::test]
async fn a_damaged_component_is_noticed_and_replaced() {
    use sha2::{Digest as _, Sha256};
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), &[]);
    let body = b"\0asm".repeat(9);
    let digest = Digest(Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect());
    store.put_component(&digest, body.clone().into()).await.expect("is kept");
    let at = folder.path().join("components");
    assert_eq!(std::fs::metadata(&at).expect("is there").permissions().mode() & 0o777, 0o700);
    std::fs::write(at.join(&digest.0), &body[1..]).expect("damages");
    assert!(is_corrupt(&store.component(&digest).await));
    store.put_component(&digest, body.clone().into()).await.expect("is kept");
    assert_eq!(store.component(&digest).await.expect("reads").as_deref(), Some(&body[..]));
    let files = std::fs::read_dir(&at).expect("reads").count();
    assert_eq!(files, 1, "nothing is left over");
}

#[tokio::test]
async fn a_copy_names_the_components_of_its_journals() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), &[NEW]);
    let named = |at: &str| {
        let to = folder.path().join(at);
        backup::copy(folder.path(), &to).expect("copies");
        backup::components(&to).expect("reads")
    };
    assert_eq!(named("none"), Vec::<String>::new());
    let (id, chunks) = journal(&store, 3).await;
    journal(&store, 1).await;
    assert_eq!(named("two"), ["ab".repeat(32)]);
    // The copy is a store with its journals.
    let restored = tempfile::tempdir().expect("a folder");
    std::fs::copy(folder.path().join("two"), restored.path().join("toolyard.sqlite")).expect("copies");
    let restored = open(restored.path(), &[NEW]);
    assert_eq!(restored.chunks(id, 0, u64::MAX).await.expect("reads"), chunks);
    // A name that leads out of the folder.
    let changed = "UPDATE journal SET component = '../toolyard.toml'";
    file(&folder).execute(changed, []).expect("changes");
    assert_eq!(named("changed"), Vec::<String>::new());
}
