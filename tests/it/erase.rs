//! `toolyard erase` beside a running host.

use crate::audit::log;
use crate::command_line::{err, out};
use serde_json::{Value, json};
use std::path::Path;
use toolyard_tests::{Host, Setup, ends, until};

/// The texts of a person that no file of the store may contain afterwards.
const MARKERS: [&[u8]; 3] = [b"marker-of-ann", b"token:ann", b"tokenann"];

/// The probe, whose `echo` may be called as a task.
fn setup() -> Setup {
    let probe = Setup::probe().manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n");
    probe.principals(&["ann", "bea"])
}

/// The files of the store that contain this text.
fn files_with(data: &Path, text: &[u8]) -> Vec<String> {
    let names = ["toolyard.sqlite", "toolyard.sqlite-wal", "toolyard.sqlite-shm"];
    let has = |name: &&str| {
        let bytes = std::fs::read(data.join(name)).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text)
    };
    names.into_iter().filter(has).map(str::to_owned).collect()
}

async fn erase(host: &Host, args: &[&str]) -> (Option<i32>, Value) {
    let done = host.command(&[&["erase", "--json"], args].concat()).await;
    let value = serde_json::from_str(&out(&done)).unwrap_or_else(|_| Value::from(err(&done)));
    (done.status.code(), value)
}

#[tokio::test]
async fn what_a_principal_left_is_erased_beside_a_running_host() {
    let host = setup().start().await;
    let ann = host.session_of("ann").await;
    let bea = host.session_of("bea").await;
    // Long texts lie on pages of their own, short ones among other rows.
    let long = "marker-of-ann ".repeat(2_000);
    for text in ["marker-of-ann", &long] {
        ann.complete("echo", json!({"text": text})).await;
    }
    let hers = bea.complete("echo", json!({"text": "of bea"})).await;
    let live = ann.create("wait", json!({"ms": 600_000})).await;
    assert!(!files_with(&host.data(), MARKERS[0]).is_empty(), "the text is in the store before");

    let expected = json!({"principal": "token:ann", "dryRun": true, "cancelled": 0, "liveTasks": 1,
        "tasks": 2, "runs": 3, "sessions": 1, "permissions": 0, "rewritten": false});
    assert_eq!(erase(&host, &["token:ann", "--dry-run"]).await, (Some(0), expected));
    assert_eq!(ann.task(&live).await["status"], "working", "a dry run changes nothing");
    let (code, refused) = erase(&host, &["token:ann"]).await;
    assert!(code == Some(2) && refused.as_str().is_some_and(|text| text.contains("--yes")), "{refused}");

    let expected = json!({"principal": "token:ann", "dryRun": false, "cancelled": 1, "liveTasks": 0,
        "tasks": 3, "runs": 3, "sessions": 1, "permissions": 0, "rewritten": true});
    assert_eq!(erase(&host, &["token:ann", "--yes"]).await, (Some(0), expected));
    for text in MARKERS {
        assert_eq!(files_with(&host.data(), text), [""; 0], "{}", String::from_utf8_lossy(text));
    }
    // The host has stopped the run, and no longer knows the session.
    let ping = json!({"jsonrpc": "2.0", "id": 77, "method": "ping"});
    until("the end of the session", || async { ann.post(&ping).await.status == 404 }).await;
    assert_eq!(bea.task(&hers).await["status"], "completed");
    let again = host.session_of("ann").await;
    assert_eq!(again.error("tasks/get", json!({"taskId": live})).await["code"], -32602);

    let entries = json!(log(&host)).to_string();
    assert!(entries.contains("principal.erased") && !entries.contains("marker-of-ann"), "{entries}");
}

#[tokio::test]
async fn nothing_is_erased_of_principals_that_own_nothing_or_do_not_exist() {
    let host = setup().start().await;
    let session = host.session_of("bea").await;
    let task = session.complete("echo", json!({"text": "of bea"})).await;
    std::fs::write(host.data().join("toolyard.sqlite.schema-8"), "").expect("writes");
    let none = host.command(&["erase", "token:ann"]).await;
    // A copy that an upgrade kept is named.
    ends(&none, 0, "toolyard.sqlite.schema-8 is from before an upgrade");
    assert!(out(&none).starts_with("Nothing of token:ann in "), "{}", out(&none));
    for name in ["ann", "operator", "token:"] {
        host.refuses(&["erase", name, "--yes"], 2, "is no principal").await;
    }
    assert_eq!(session.task(&task).await["status"], "completed");
}
