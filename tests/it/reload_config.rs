//! The configuration is reloaded while the host serves: at SIGHUP, and when its file changes.

use crate::authentication::knock_by;
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;
use toolyard_tests::tokens::stanza;
use toolyard_tests::{Host, Setup, token, until};

/// Replaces the file at once: the host never reads a half of it, whenever it reads.
pub(crate) fn write(host: &Host, text: &str) {
    let file = host.folder().join("toolyard.toml");
    let new = file.with_extension("toml.new");
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file)).expect("writes");
}

/// Reloads by the signal, and waits for the outcome.
pub(crate) async fn reload(host: &Host, event: &str) {
    let event = format!("event=\"{event}\"");
    let count = |log: &str| log.matches(&event).count();
    let before = count(&host.log());
    host.signal(Signal::HUP);
    until("the reload", || async { count(&host.log()) > before }).await;
}

/// The status of a request with this token.
async fn status(host: &Host, name: &str) -> u16 {
    knock_by(host, &token(name)).await.status.as_u16()
}

#[tokio::test]
async fn a_token_is_taken_back_at_once_and_its_streams_end() {
    let both = [stanza("alice", &[]), stanza("bob", &[])].concat();
    let host = Setup::probe().config(&both).start().await;
    let alice = host.session_of("alice").await;
    let bob = host.session_of("bob").await;
    let (mut of_alice, mut of_bob) = (alice.listen().await, bob.listen().await);
    write(&host, &stanza("alice", &[]));
    reload(&host, "config.reloaded").await;
    let ended = async { while of_bob.next().await.is_some() {} };
    assert!(tokio::time::timeout(Duration::from_secs(10), ended).await.is_ok(), "the stream of bob goes on");
    assert_eq!(bob.get(None).await.status, 401);
    // Alice notices nothing.
    while let Ok(more) = tokio::time::timeout(Duration::from_millis(300), of_alice.next()).await {
        assert!(more.is_some(), "the stream of alice ended");
    }
    alice.call("echo", json!({"text": "still"})).await;
    assert!(host.log().contains("key=\"auth.tokens\""), "{}", host.log());
    // A new token counts at once, also by a change of the file alone.
    write(&host, &[stanza("alice", &[]), stanza("carol", &[])].concat());
    until("carol to be let in", || async { status(&host, "carol").await == 200 }).await;
}

#[tokio::test]
async fn a_configuration_that_is_not_valid_changes_nothing() {
    let host = Setup::probe().principals(&["alice"]).start().await;
    let unreachable = stanza("alice", &[]) + "[trace]\nendpoint = \"https://127.0.0.1:1\"\n";
    for text in ["[auth", "[tasks]\nttl-defualt = \"1h\"", "[[rules]]\neffect = \"allow\"", &unreachable] {
        write(&host, text);
        reload(&host, "config.rejected").await;
        assert_eq!(status(&host, "alice").await, 200, "{text}");
        assert_eq!(status(&host, "bob").await, 401, "{text}");
    }
    assert!(host.log().contains("did you mean `tasks.ttl-default`"), "{}", host.log());
    // Neither an empty file nor none opens the host to everybody.
    write(&host, "");
    reload(&host, "config.rejected").await;
    std::fs::remove_file(host.folder().join("toolyard.toml")).expect("removes");
    reload(&host, "config.rejected").await;
    assert_eq!(status(&host, "bob").await, 401);
}

#[tokio::test]
async fn rules_are_replaced_and_clients_learn_that_lists_changed() {
    let rules =
        |tools: &str| format!("{}[[rules]]\neffect = \"allow\"\ntools = [{tools}]\n", stanza("alice", &[]));
    let host = Setup::probe().config(&rules("\"echo\", \"wait\"")).start().await;
    let alice = host.session_of("alice").await;
    let mut hears = alice.listen().await;
    assert_eq!(alice.tool_names().await, ["echo", "wait"]);
    write(&host, &(rules("\"echo\"") + "[tasks]\nlive = 5\n"));
    reload(&host, "config.reloaded").await;
    let told = tokio::time::timeout(Duration::from_secs(10), hears.message()).await;
    let told = told.expect("a notification").expect("the stream goes on");
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(alice.tool_names().await, ["echo"]);
    let refused = alice.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    assert_eq!(refused["code"], -32602);
    // Settings that need a restart are named.
    assert!(host.log().contains("event=\"config.restart_needed\" key=\"tasks.live\""), "{}", host.log());
}
