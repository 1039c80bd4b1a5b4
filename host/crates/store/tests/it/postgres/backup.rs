//! Copies of a schema.

use super::Schema;
use crate::keys::Place as _;
use std::collections::BTreeSet;
use std::time::Duration;
use toolyard_store::postgres::backup;
use toolyard_store_contract::timeline::kinds;
use toolyard_store_contract::{created, owner, task};
use toolyard_task::timeline::EventKind;

/// A table that a later schema adds must be copied, or be one of those that never hold a row.
#[tokio::test]
async fn every_table_and_sequence_of_a_schema_is_in_its_copy() {
    let Some(schema) = Schema::new() else { return };
    schema.open(&[]).await.shut_down().await;
    let folder = tempfile::tempdir().expect("a folder");
    let copied = backup::copy(&schema.place, folder.path()).await.expect("copies");
    assert!(copied.is_current);
    let all = schema.server.ask(&format!(
        "SELECT relname || '.' || relkind::text FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace = '{}'::regnamespace",
        schema.name
    ));
    let mut all: BTreeSet<String> = all.lines().map(|line| line.replace(".r", ".copy")).collect();
    for never_filled in ["turn_room", "turn_key", "turn_reseal", "toolyard_version"] {
        assert!(all.remove(&format!("{never_filled}.copy")), "{never_filled}");
    }
    // A restore sets the last one by the tasks.
    for sequence in ["audit_writer", "node_incarnation_seq", "task_seq_seq"] {
        assert!(all.remove(&format!("{sequence}.S")), "{sequence}");
    }
    all.insert("sequences.json".to_owned());
    assert_eq!(backup::files(copied.number).into_iter().collect::<BTreeSet<_>>(), all);
    let made = std::fs::read_dir(folder.path()).expect("reads").flatten();
    let made: BTreeSet<String> = made.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(made, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_made_after_a_restore_have_timelines_of_their_own() {
    let (Some(schema), Some(other)) = (Schema::new(), Schema::new()) else { return };
    let store = schema.open(&[]).await;
    let before = created(&*store, task(&owner("a"))).await;
    store.shut_down().await;
    let folder = tempfile::tempdir().expect("a folder");
    let copied = backup::copy(&schema.place, folder.path()).await.expect("copies");
    let wait = Duration::from_secs(30);
    backup::restore(&other.place, copied.number, folder.path(), None, wait).await.expect("restores");

    let store = other.open(&[]).await;
    let after = created(&*store, task(&owner("a"))).await;
    for id in [before.id, after.id] {
        assert_eq!(kinds(&*store, id).await, [EventKind::Created, EventKind::Queued]);
    }
    store.shut_down().await;
}
