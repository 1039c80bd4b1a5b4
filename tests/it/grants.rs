//! Permanent permissions: to which principals they apply, when they survive, and how the operator revokes
//! them (`toolyard grants`).

use crate::command_line::{err, out};
use crate::permissions::{ASK, allowed, call_saying, files, reading, refused, saying, unasked};
use crate::questions::everything;
use serde_json::{Value, json};
use toolyard_tests::exchange::next;
use toolyard_tests::host::Setup;
use toolyard_tests::session::LATEST;
use toolyard_tests::tokens::{stanza, token};
use toolyard_tests::{Host, Session, eventually};

/// As [`files`], for alice and bob.
fn shared() -> Setup {
    files(ASK).config(&[stanza("alice", &[]), stanza("bob", &[])].concat())
}

async fn open_as(host: &Host, name: &str) -> Session {
    Session::open_by(host.port(), LATEST, everything(), Some(&token(name))).await.session
}

/// The output of `toolyard grants list`.
async fn listed(host: &Host, args: &[&str]) -> Vec<Value> {
    let output = host.command(&[&["grants", "list", "--json"], args].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn a_grant_is_its_persons_in_every_session_and_after_a_restart_and_nobody_elses() {
    let host = shared().start().await;
    allowed(&call_saying(&open_as(&host, "alice").await, "always").await);
    refused(&call_saying(&open_as(&host, "bob").await, "never").await, "is never allowed");
    let host = host.killed_and_restarted().await;
    allowed(&unasked(&open_as(&host, "alice").await).await);
    refused(&unasked(&open_as(&host, "bob").await).await, "is never allowed");
    // Another host on the same store knows the permission as well.
    let beside = host.another().await;
    allowed(&unasked(&open_as(&beside, "alice").await).await);
}

#[tokio::test]
async fn a_revoked_grant_counts_no_more_at_the_next_call_of_a_running_host() {
    let host = shared().start().await;
    let (alice, bob) = (open_as(&host, "alice").await, open_as(&host, "bob").await);
    allowed(&call_saying(&alice, "always").await);
    allowed(&call_saying(&bob, "always").await);
    let of_alice = &listed(&host, &["--principal", "token:alice"]).await[0];
    let id = of_alice["grantId"].as_str().expect("an id");
    let revoked = host.command(&["grants", "revoke", id]).await;
    assert_eq!(revoked.status.code(), Some(0), "{}", err(&revoked));
    assert!(out(&revoked).contains(id) && out(&revoked).contains("/data"), "{}", out(&revoked));
    refused(&call_saying(&alice, "never").await, "is never allowed");
    allowed(&unasked(&bob).await);
    // The operator revokes a "never" in the same way.
    let gone = host.command(&["grants", "revoke", "--all", "--principal", "token:alice"]).await;
    assert_eq!(out(&gone).lines().count(), 1, "{}", out(&gone));
    allowed(&call_saying(&alice, "once").await);
    // A second revocation fails.
    let again = host.command(&["grants", "revoke", id]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("no grant") && err(&again).contains(id), "{}", err(&again));
}

#[tokio::test]
async fn another_version_of_the_component_asks_anew() {
    let host = shared().start().await;
    let alice = open_as(&host, "alice").await;
    allowed(&call_saying(&alice, "always").await);
    let place = host.plugins().join("files.wasm");
    let former = std::fs::read(&place).expect("the component");
    // With an extra custom section, the component does the same but counts as another one.
    let mut changed = former.clone();
    changed.extend([0, 5, 1, b'v', b'n', b'e', b'w']);
    let replace = |bytes: &[u8]| {
        std::fs::write(host.plugins().join(".files"), bytes).expect("writes");
        std::fs::rename(host.plugins().join(".files"), &place).expect("a rename");
    };
    replace(&changed);
    let question = eventually("the new version to ask", || async {
        let came = first_of_call(&alice).await;
        (came["method"] == "elicitation/create").then_some(came)
    })
    .await;
    alice.respond(&question, saying("no")).await;
    // The permission for the former version is still stored, in case that version returns.
    assert_eq!(listed(&host, &[]).await.len(), 1);
    replace(&former);
    let result = eventually("the former version to be back", || async {
        first_of_call(&alice).await.get_mut("result").map(Value::take)
    })
    .await;
    allowed(&result);
}

/// The first message of a call: a question, or the answer.
async fn first_of_call(session: &Session) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": session.next_id(), "method": "tools/call",
        "params": {"name": "file", "arguments": reading()}});
    let answer = session.post(&call).await;
    if answer.is_events() {
        return next(&mut answer.events()).await.expect("a message");
    }
    answer.json().await
}

#[tokio::test]
async fn the_operator_sees_who_said_what_of_which_version_and_when() {
    let host = shared().start().await;
    let (alice, bob) = (open_as(&host, "alice").await, open_as(&host, "bob").await);
    allowed(&call_saying(&alice, "always").await);
    refused(&call_saying(&bob, "never").await, "never");
    let all = listed(&host, &[]).await;
    let said = |name: &str| {
        let of = |grant: &&Value| grant["principal"] == name;
        let all: Vec<&Value> = all.iter().filter(of).collect();
        assert_eq!(all.len(), 1, "{name}");
        all[0].clone()
    };
    let (of_alice, of_bob) = (said("token:alice"), said("token:bob"));
    assert_eq!((&of_alice["verdict"], &of_bob["verdict"]), (&json!("allow"), &json!("deny")));
    assert_eq!(of_alice["plugin"], "files.wasm");
    assert_eq!(of_alice["digest"].as_str().expect("a digest").len(), 64);
    assert!(of_alice["givenAt"].as_str().expect("a time").ends_with('Z'));
    let what = &of_alice["what"];
    assert_eq!(
        (&what["kind"], &what["guest"], &what["access"]),
        (&json!("folder"), &json!("/data"), &json!("read"))
    );
    let data = host.plugins().canonicalize().expect("is there").join("data");
    assert_eq!(what["path"], data.to_str().expect("plain"), "the operator sees which folder it is");
    let table = out(&host.command(&["grants", "list"]).await);
    for word in ["GRANT", "WHAT", "VERDICT", "token:alice", "token:bob", "files.wasm", "deny"] {
        assert!(table.contains(word), "{word}:\n{table}");
    }
    assert_eq!(listed(&host, &["--plugin", "other.wasm"]).await, [Value::Null; 0]);
    assert_eq!(listed(&host, &["--plugin", "files.wasm", "--principal", "token:bob"]).await, [of_bob]);
    assert_eq!(listed(&host, &["--principal", "anonymous"]).await, [Value::Null; 0]);
    let none = host.command(&["grants", "revoke", "--all", "--plugin", "other.wasm"]).await;
    assert_eq!((none.status.code(), out(&none).trim()), (Some(0), "revoked 0"));
    let both = host.command(&["grants", "revoke", "--all"]).await;
    assert_eq!((both.status.code(), out(&both).trim()), (Some(0), "revoked 2"));
    assert!(out(&host.command(&["grants", "list"]).await).starts_with("No grants in "));
}

#[tokio::test]
async fn grants_used_wrongly_is_2() {
    let host = files(ASK).start().await;
    for (args, says) in [
        (&["grants"][..], "Usage"),
        (&["grants", "revoke"], "ID"),
        (&["grants", "revoke", "x", "--all"], "--all"),
        (&["grants", "revoke", "x", "--plugin", "y"], "--plugin"),
        (&["grants", "list", "--store", "memory"], "memory"),
    ] {
        let output = host.command(args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(says), "{args:?}: {}", err(&output));
    }
    let nothing = host.command(&["grants", "revoke", "x"]).await;
    assert_eq!(nothing.status.code(), Some(1), "{}", err(&nothing));
}

/// Without a data folder there are no permissions, and the commands do not create the folder.
#[tokio::test]
async fn without_a_data_folder_there_are_no_grants() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = async |args: &[&str]| {
        tokio::process::Command::new(toolyard_tests::guests::binary())
            .args(args)
            .args(["--data", "data"])
            .current_dir(folder.path())
            .output()
            .await
            .expect("it runs")
    };
    let list = run(&["grants", "list"]).await;
    assert_eq!(list.status.code(), Some(0), "{}", err(&list));
    assert!(out(&list).starts_with("No grants in "));
    assert_eq!(run(&["grants", "revoke", "--all"]).await.status.code(), Some(1));
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn t_43_what_was_permitted_and_taken_back_is_in_the_audit_log() {
    let host = shared().start().await;
    let alice = open_as(&host, "alice").await;
    allowed(&call_saying(&alice, "once").await);
    refused(&call_saying(&alice, "no").await, "by the user");
    allowed(&call_saying(&alice, "always").await);
    let grants = listed(&host, &[]).await;
    let id = grants[0]["grantId"].as_str().expect("an id");
    assert_eq!(host.command(&["grants", "revoke", id]).await.status.code(), Some(0));
    let lines = eventually("all four lines", || async {
        let text = std::fs::read_to_string(host.data().join("audit.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text[..whole].lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let lines: Vec<Value> = lines
            .filter(|line| line["action"].as_str().is_some_and(|a| a.starts_with("permission.")))
            .collect();
        (lines.len() == 4).then_some(lines)
    })
    .await;
    let mut said: Vec<[&str; 3]> = lines
        .iter()
        .map(|line| ["action", "principal", "reason"].map(|member| line[member].as_str().unwrap_or_default()))
        .collect();
    said.sort_unstable();
    assert_eq!(
        said,
        [
            ["permission.given", "token:alice", "always"],
            ["permission.given", "token:alice", "once"],
            ["permission.refused", "token:alice", "no"],
            ["permission.revoked", "operator", "allow"],
        ]
    );
}
