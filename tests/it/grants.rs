//! Permanent permissions, as the operator lists and revokes them (`toolyard grants`).

use crate::permissions::{ASK, allowed, call_saying, files, refused};
use crate::questions::everything;
use serde_json::{Value, json};
use toolyard_tests::Host;

/// The output of `toolyard grants list`.
async fn listed(host: &Host, args: &[&str]) -> Vec<Value> {
    host.lines(&[&["grants", "list", "--json"], args].concat()).await
}

#[tokio::test]
async fn the_operator_sees_who_said_what_and_revokes_it_for_the_next_call() {
    let host = files(ASK).principals(&["alice", "bob"]).start().await;
    let alice = host.session_as("alice", everything()).await;
    let bob = host.session_as("bob", everything()).await;
    allowed(&call_saying(&alice, "always").await);
    refused(&call_saying(&bob, "never").await, "never");
    let of_alice = listed(&host, &["--principal", "token:alice"]).await;
    let [of_alice] = &of_alice[..] else { panic!("one: {of_alice:?}") };
    assert_eq!((&of_alice["verdict"], &of_alice["plugin"]), (&json!("allow"), &json!("files.wasm")));
    assert_eq!(of_alice["digest"].as_str().expect("a digest").len(), 64);
    assert!(of_alice["givenAt"].as_str().expect("a time").ends_with('Z'));
    let data = host.plugins().canonicalize().expect("is there").join("data");
    let data = data.to_str().expect("plain");
    let what = ["kind", "guest", "access", "path"].map(|member| of_alice["what"][member].as_str());
    assert_eq!(what, ["folder", "/data", "read", data].map(Some), "the operator sees which folder it is");
    let table = host.prints(&["grants", "list"]).await;
    for word in ["GRANT", "WHAT", "VERDICT", "token:alice", "token:bob", "files.wasm", "deny"] {
        assert!(table.contains(word), "{word}:\n{table}");
    }
    assert_eq!(listed(&host, &["--plugin", "other.wasm"]).await, [Value::Null; 0]);
    assert_eq!(listed(&host, &["--principal", "anonymous"]).await, [Value::Null; 0]);
    let id = of_alice["grantId"].as_str().expect("an id");
    let revoked = host.prints(&["grants", "revoke", id]).await;
    assert!(revoked.contains(id) && revoked.contains("/data"), "{revoked}");
    refused(&call_saying(&alice, "never").await, "is never allowed");
    assert!(host.refuses(&["grants", "revoke", id], 1, "no grant").await.contains(id));
    // The operator revokes a "never" in the same way.
    assert_eq!(host.prints(&["grants", "revoke", "--all"]).await.trim(), "revoked 2");
    allowed(&call_saying(&alice, "once").await);
    assert!(host.prints(&["grants", "list"]).await.starts_with("No grants in "));
}
