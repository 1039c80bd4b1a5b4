//! A host whose tasks are encrypted.

use super::{FILE, setup};
use serde_json::json;
use std::path::Path;
use toolyard_tests::host::{command, write_private};
use toolyard_tests::{Host, Session, ends};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const WORD: &str = "geheimwort";

/// Whether the word appears in the database file or its log.
fn is_plain(data: &Path) -> bool {
    ["", "-wal", "-shm"].iter().any(|end| {
        let bytes = std::fs::read(data.join(format!("{FILE}{end}"))).unwrap_or_default();
        bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes())
    })
}

async fn told(host: &Host) -> (Session, String) {
    let session = Session::open(host.port()).await;
    let id = session.complete("echo", json!({"text": WORD})).await;
    (session, id)
}

#[tokio::test]
async fn without_the_key_nothing_starts_and_a_rotation_needs_no_stop() {
    let setup = setup().config("[encryption]\nkey-file = \"keys\"\n");
    let keys = setup.folder().join("keys");
    write_private(&keys, OLD);
    let host = setup.start().await;
    let (session, id) = told(&host).await;
    assert!(!is_plain(&host.data()));
    assert!(host.prints(&["tasks", "result", &id]).await.contains(WORD));
    write_private(&keys, NEW);
    let refused = host.refuses(&["tasks", "list"], 1, "encrypted with the key").await;
    assert!(!refused.contains(OLD) && !refused.contains(NEW), "a key is shown");
    write_private(&keys, &format!("{NEW}\n{OLD}\n"));

    // The host has only the old key, and goes on.
    let early = host.prints(&["tasks", "reencrypt"]).await;
    assert!(early.contains("1 task, 1 of them rewritten"), "{early}");
    let late = session.complete("echo", json!({"text": WORD})).await;
    let host = host.killed_and_restarted().await;
    let session = session.at(host.port());
    let done = host.prints(&["tasks", "reencrypt", "--json"]).await;
    assert_eq!(done, "{\"keysNeeded\":[],\"tasks\":2,\"unreadable\":[],\"written\":1}\n");
    write_private(&keys, NEW);
    for task in [&id, &late] {
        assert!(host.prints(&["tasks", "result", task]).await.contains(WORD));
        let result = session.result("tasks/result", json!({"taskId": task})).await;
        assert_eq!(result["content"][0]["text"], WORD);
    }
    host.prints(&["tasks", "reencrypt", "--plain"]).await;
    assert!(is_plain(&host.data()));
}

#[tokio::test]
async fn keys_may_come_from_the_environment_and_not_from_both() {
    let host = setup().variable("TOOLYARD_ENCRYPTION_KEYS", &format!("{NEW},{OLD}")).start().await;
    let (_, id) = told(&host).await;
    assert!(!is_plain(&host.data()));
    let mut both = command("tasks", host.folder(), &["result", &id]);
    both.env("TOOLYARD_ENCRYPTION_KEYS", NEW).env("TOOLYARD_ENCRYPTION_KEY_FILE", "keys");
    ends(&both.output().await.expect("it runs"), 1, "unset one of them");
}
