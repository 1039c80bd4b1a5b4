//! The store of a real host: how clients and operators see its faults, and the operators' commands for it.

mod encrypted;

use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::Path;
use toolyard_tests::admin::get;
use toolyard_tests::{Disk, Host, Setup, until};

const FILE: &str = "toolyard.sqlite";

/// A host on which `echo` may be called as a task.
fn setup() -> Setup {
    let setup = Setup::probe().set("admin.listen", "127.0.0.1:0");
    setup.manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n")
}

/// A setup with this data folder.
fn setup_in(folder: &Path) -> Setup {
    let setup = setup();
    std::os::unix::fs::symlink(folder, setup.folder().join("data")).expect("links");
    setup
}

/// Whether `/readyz` reports readiness.
async fn is_ready(host: &Host) -> bool {
    let answer = get(host.admin(), "/readyz").await;
    let (status, body) = (answer.status.as_u16(), answer.text().await);
    assert_eq!(status == 503, body.contains("\"store\""), "{status}: {body}");
    status == 200
}

/// The error that a client receives while the store fails: a code and a sentence, without the name of the
/// file, the disk or the library.
fn is_honest_and_tells_nothing(error: &Value, host: &Host) {
    assert_eq!(error["code"], -32603, "{error}");
    let message = error["message"].as_str().expect("a message");
    assert_eq!(message, "The task store is not available; nothing was changed");
    let folder = host.folder().display().to_string();
    let text = error.to_string().to_lowercase();
    for word in [folder.as_str(), "sqlite", "disk", "locked", "/proc", "wal"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn large() -> Value {
    json!({"name": "echo", "arguments": {"text": "x".repeat(200_000)}, "task": {}})
}

/// A record that something else has changed costs its own task only, also after a restart.
#[tokio::test]
async fn a_record_that_cannot_be_read_costs_nobody_else_anything() {
    let mut host = setup().set("tasks.ttl-default", "1h").principals(&["alice", "bob"]).start().await;
    let alice = host.session_of("alice").await;
    let bob = host.session_of("bob").await;
    let of_alice = alice.complete("echo", json!({"text": "one"})).await;
    let of_bob = bob.complete("echo", json!({"text": "two"})).await;
    let live = alice.create("wait", json!({"ms": 600_000})).await;
    host.kill().await;
    let on = Connection::open(host.data().join(FILE)).expect("opens");
    for id in [&of_alice, &live] {
        let changed = on.execute(
            "UPDATE task SET record = substr(record, 1, length(record) - 1) || '|' WHERE id = unhex(?1, '-')",
            [id],
        );
        assert_eq!(changed.expect("changes"), 1);
    }
    drop(on);
    let host = host.another().await;
    let (alice, bob) = (alice.at(host.port()), bob.at(host.port()));
    assert_eq!(bob.task(&of_bob).await["status"], "completed");
    bob.complete("echo", json!({"text": "three"})).await;
    assert_eq!(bob.result("tasks/list", json!({})).await["tasks"].as_array().map(Vec::len), Some(2));
    let refused = alice.error("tasks/get", json!({"taskId": of_alice})).await;
    is_honest_and_tells_nothing(&refused, &host);
    alice.complete("echo", json!({"text": "four"})).await;
    assert!(host.log().contains("event=\"task.unreadable\""), "{}", host.log());
}

#[tokio::test]
async fn clients_of_a_host_whose_disk_is_full_are_told_so_and_served_when_there_is_space() {
    let test = "store::clients_of_a_host_whose_disk_is_full_are_told_so_and_served_when_there_is_space";
    let Some(disk) = Disk::of("64m", test) else { return };
    let (host, session) = setup_in(disk.folder()).open().await;
    let done = session.complete("echo", json!({"text": "kept"})).await;
    let kept = session.result("tasks/result", json!({"taskId": done})).await;
    assert!(is_ready(&host).await);
    let ballast = disk.fill();
    let refused = session.error("tools/call", large()).await;
    is_honest_and_tells_nothing(&refused, &host);
    assert!(!is_ready(&host).await);
    // Requests that need no writing still work.
    assert_eq!(session.result("tasks/result", json!({"taskId": done})).await, kept);
    let tasks = session.result("tasks/list", json!({})).await;
    assert_eq!(tasks["tasks"].as_array().expect("tasks").len(), 1, "what was refused is not there");
    assert_eq!(session.call("echo", json!({"text": "plain"})).await["content"][0]["text"], "plain");
    std::fs::remove_file(ballast).expect("removes");
    until("it is ready again", || async { is_ready(&host).await }).await;
    let next = session.result("tools/call", large()).await;
    let next = next["task"]["taskId"].as_str().expect("an id");
    session.until(next, "completed").await;
    assert_eq!(session.result("tasks/result", json!({"taskId": done})).await, kept);
}
