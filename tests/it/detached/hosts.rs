//! The background host itself: when it starts, which one a process uses, and when it ends.

use super::Folder;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use toolyard_tests::stateless::{enveloped, tasks};
use toolyard_tests::{Stdio, text, until};

/// 26B-7: clients start a second process, send it one request and end it.
#[tokio::test]
async fn b_26b_7_a_probe_leaves_nothing_running() {
    let folder = Folder::new();
    let mut probe = folder.relay();
    probe.result("server/discover", enveloped(json!({}), &tasks())).await;
    kill_process(probe.pid(), Signal::TERM).expect("it runs");
    assert!(probe.ended().await.success());
    let mut relay = folder.open().await;
    assert_eq!(text(&relay.call("echo", json!({"text": "x"})).await), "x");
    assert!(relay.close().await.0.success());
    folder.backgrounds.gone().await;
}

#[tokio::test]
async fn relays_that_begin_at_once_share_one_host_which_nobody_else_can_reach() {
    let folder = Folder::new();
    let mut creating = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut relay = folder.open().await;
        creating.spawn(async move {
            let id = relay.create("wait", json!({"ms": 600_000})).await;
            (relay, id)
        });
    }
    let (mut relays, ids): (Vec<_>, Vec<_>) = creating.join_all().await.into_iter().unzip();
    let host = folder.backgrounds.one().await;
    for id in &ids {
        assert_eq!(relays[0].task(id).await["status"], "working");
    }
    let sockets = folder.backgrounds.files("sock");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((sockets.len(), mode(&sockets[0])), (1, 0o600));
    assert_eq!(mode(&folder.backgrounds.place()), 0o700);
    // It stays while a process is connected or a task is live.
    for (relay, id) in relays.iter_mut().zip(&ids) {
        relay.request("tasks/cancel", json!({"taskId": id})).await;
    }
    let again = relays[1].create("wait", json!({"ms": 1})).await;
    assert_eq!(text(&relays[1].result("tasks/result", json!({"taskId": again})).await), "waited 1 ms");
    assert_eq!(folder.backgrounds.one().await, host);
    drop(relays);
    folder.backgrounds.gone().await;
}

#[tokio::test]
async fn a_stopped_host_is_said_not_to_answer() {
    let folder = Folder::new();
    let mut relay = folder.open().await;
    let id = relay.create("wait", json!({"ms": 600_000})).await;
    let host = folder.backgrounds.one().await;
    kill_process(host, Signal::STOP).expect("it runs");
    let mut other = folder.relay();
    let refused = other.request("server/discover", enveloped(json!({}), &tasks())).await;
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(message.contains("does not answer"), "{message}");
    kill_process(host, Signal::CONT).expect("it runs");
    let mut other = folder.open().await;
    assert_eq!(other.result("tasks/cancel", json!({"taskId": id})).await["status"], "cancelled");
    assert_eq!(relay.task(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn a_changed_configuration_stands_against_a_background_host() {
    let folder = Folder::new();
    // A changed configuration file is not mistaken for the configuration of the running server.
    let written = folder.folder.path().join("toolyard.toml");
    std::fs::write(&written, "[tasks]\nttl-default = \"2h\"\n").expect("a write");
    let mut relay = folder.open().await;
    std::fs::write(&written, "[tasks]\nttl-default = \"3h\"\n").expect("a write");
    kill_process(folder.backgrounds.one().await, Signal::KILL).expect("it runs");
    until("its end", || async { folder.backgrounds.living().is_empty() }).await;
    let call = json!({"name": "wait", "arguments": {"ms": 1}, "task": {}});
    let message = loop {
        let refused = relay.request("tools/call", call.clone()).await;
        let message = refused["error"]["message"].as_str().expect("a text").to_owned();
        // A process that was killed may have its socket for a moment.
        if !message.contains("stopped during this call") {
            break message;
        }
    };
    assert!(message.contains("the configuration has changed"), "{message}");
    assert!(folder.backgrounds.living().is_empty());
}

impl Folder {
    /// Starts a process with `--detach` through this wrapper command.
    pub(super) fn wrapped(&self, words: &[&str]) -> Stdio {
        let args = self.args.iter().cloned().chain(["--detach".to_owned()]);
        Stdio::wrapped(words, self.folder.clone(), args.collect())
    }
}
