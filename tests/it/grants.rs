//! Permanent permissions, as the operator lists and revokes them (`toolyard grants`).

use crate::command_line::{err, out};
use crate::permissions::{ASK, allowed, call_saying, files, refused};
use crate::questions::everything;
use serde_json::{Value, json};
use toolyard_tests::{Host, Session};

async fn open_as(host: &Host, name: &str) -> Session {
    host.session_as(name, everything()).await
}

/// The output of `toolyard grants list`.
async fn listed(host: &Host, args: &[&str]) -> Vec<Value> {
    let output = host.command(&[&["grants", "list", "--json"], args].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn the_operator_sees_who_said_what_and_revokes_it_for_the_next_call() {
    let host = files(ASK).principals(&["alice", "bob"]).start().await;
    let (alice, bob) = (open_as(&host, "alice").await, open_as(&host, "bob").await);
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
    let table = out(&host.command(&["grants", "list"]).await);
    for word in ["GRANT", "WHAT", "VERDICT", "token:alice", "token:bob", "files.wasm", "deny"] {
        assert!(table.contains(word), "{word}:\n{table}");
    }
    assert_eq!(listed(&host, &["--plugin", "other.wasm"]).await, [Value::Null; 0]);
    assert_eq!(listed(&host, &["--principal", "anonymous"]).await, [Value::Null; 0]);
    let id = of_alice["grantId"].as_str().expect("an id");
    let revoked = host.command(&["grants", "revoke", id]).await;
    assert!(out(&revoked).contains(id) && out(&revoked).contains("/data"), "{}", err(&revoked));
    refused(&call_saying(&alice, "never").await, "is never allowed");
    let again = host.command(&["grants", "revoke", id]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("no grant") && err(&again).contains(id), "{}", err(&again));
    // The operator revokes a "never" in the same way.
    let both = host.command(&["grants", "revoke", "--all"]).await;
    assert_eq!((both.status.code(), out(&both).trim()), (Some(0), "revoked 2"));
    allowed(&call_saying(&alice, "once").await);
    assert!(out(&host.command(&["grants", "list"]).await).starts_with("No grants in "));
}
