//! Copies of a schema.

use super::Schema;
use crate::keys::Place as _;
use std::collections::BTreeSet;
use toolyard_store::postgres::backup;

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
    for sequence in ["audit_writer", "node_incarnation_seq"] {
        assert!(all.remove(&format!("{sequence}.S")), "{sequence}");
    }
    all.insert("sequences.json".to_owned());
    assert_eq!(backup::files(copied.number).into_iter().collect::<BTreeSet<_>>(), all);
    let made = std::fs::read_dir(folder.path()).expect("reads").flatten();
    let made: BTreeSet<String> = made.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(made, all);
}
