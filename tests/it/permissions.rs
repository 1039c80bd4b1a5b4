//! Permissions that a manifest leaves to the person who calls (`grant = "ask"`). The host asks before the run
//! begins, the decision counts for as long as the person said, and any answer other than a clear yes is a no. The
//! operator lists and revokes permanent permissions (`toolyard grants`).

use crate::questions::everything;
use serde_json::{Value, json};
use toolyard_tests::exchange::Exchange;
use toolyard_tests::host::install_as;
use toolyard_tests::{Host, LATEST, Session, Setup, guests};

pub const ASK: &str = "[fs]\n\"/data\" = { path = \"./data\", mode = \"read\", grant = \"ask\" }\n";

/// A host with a tool that reads files, a folder `data` with a note in it, and this manifest.
pub fn files(manifest: &str) -> Setup {
    let setup = Setup::new().manifest("files", manifest);
    install_as(&guests::fixture("hostile_files"), &setup.plugins(), "files.wasm");
    let data = setup.plugins().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("note"), "note").expect("a note");
    setup
}

pub fn reading() -> Value {
    json!({"what": "read", "path": "/data/note"})
}

/// Begins a plain call that reads the note, and waits for its question.
pub async fn asked(session: &Session) -> (Exchange, Value) {
    let mut call = session.begin("tools/call", json!({"name": "file", "arguments": reading()})).await;
    let question = call.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (call, question)
}

pub fn saying(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

/// The result of a call after the person's decision.
pub async fn call_saying(session: &Session, decision: &str) -> Value {
    let (call, question) = asked(session).await;
    session.respond(&question, saying(decision)).await;
    call.answer().await.0["result"].take()
}

/// The note was read.
pub fn allowed(result: &Value) {
    assert_eq!(result["content"][0]["text"], "ALLOWED \"note\"", "{result}");
}

/// Asserts that the tool did not run, for this reason; returns the sentence.
pub fn refused(result: &Value, why: &str) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().expect("a sentence");
    assert!(text.starts_with("The tool `file` was not run: the folder `/data` "), "{text}");
    assert!(text.contains(why) && text.contains("(`fs.\"/data\".grant`)"), "{text}");
    text.to_owned()
}

/// Makes a call that leads to no question.
pub async fn unasked(session: &Session) -> Value {
    let params = json!({"name": "file", "arguments": reading()});
    let (mut answer, before) = session.request_and_notices("tools/call", params).await;
    assert!(before.is_empty(), "no question was expected: {before:?}");
    answer["result"].take()
}

#[tokio::test]
async fn a_plain_call_asks_in_plain_words_before_it_begins() {
    let (host, session) = files(ASK).open_as(everything()).await;
    let (call, question) = asked(&session).await;
    let message = question["params"]["message"].as_str().expect("a message");
    assert_eq!(
        message,
        "The tool \"file\" of the plugin \"files.wasm\" wants to read the files in the folder \"./data\", \
         which it calls \"/data\". May it?"
    );
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["required"], json!(["decision"]));
    let field = &schema["properties"]["decision"];
    // A call uses a folder once, so the dialog offers "once" and not a yes for the whole call.
    assert_eq!(field["enum"], json!(["once", "always", "no", "never"]));
    assert_eq!(field["enumNames"][1], "Yes, for this session", "an anonymous client is its session");
    let shown = question.to_string();
    let folder = host.folder().to_str().expect("plain");
    assert!(!shown.contains(folder), "a path of the host: {shown}");
    session.respond(&question, saying("once")).await;
    allowed(&call.answer().await.0["result"]);
    // Once covers one call only.
    refused(&call_saying(&session, "no").await, "was not allowed by the user");
}

#[tokio::test]
async fn nobody_answers_and_the_question_is_taken_back() {
    let (_host, session) = files(ASK).set("questions.wait", "200ms").open_as(everything()).await;
    let (call, question) = asked(&session).await;
    let (answer, before) = call.answer().await;
    refused(&answer["result"], "did not answer in time");
    let taken_back = before.iter().find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back.expect("taken back")["params"]["requestId"], question["id"]);
    let task = session.create("file", reading()).await;
    refused(&session.result("tasks/result", json!({"taskId": task})).await, "did not answer in time");
}

/// The question goes to the person; no part of it is a tool that a model could call.
#[tokio::test]
async fn what_clients_are_offered_is_the_same_whoever_grants_it() {
    let mut seen = Vec::new();
    for manifest in [ASK.to_owned(), ASK.replace("ask", "always")] {
        let host = files(&manifest).start().await;
        let session = Session::open_as(host.port(), LATEST, everything()).await;
        let mut offered = session.result["capabilities"].clone();
        offered["tools/list"] = session.session.result("tools/list", json!({})).await;
        seen.push(offered);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn lists_ask_nobody_and_a_prompt_asks() {
    const NOTES: &str = "[fs]\n\"/notes\" = { path = \"./notes\", mode = \"read\", grant = \"ask\" }\n";
    let setup = Setup::new().with(&[guests::plugin("notes")]).manifest("notes", NOTES);
    std::fs::create_dir(setup.plugins().join("notes")).expect("a folder");
    std::fs::write(setup.plugins().join("notes/one.md"), "# One\n").expect("a note");
    let (_host, session) = setup.open_as(everything()).await;
    let listed = async || {
        let (answer, before) = session.request_and_notices("resources/list", json!({})).await;
        assert!(before.is_empty(), "{before:?}");
        answer["result"]["resources"].as_array().expect("a list").len()
    };
    assert_eq!(listed().await, 0, "passed over");
    let read = session.error("resources/read", json!({"uri": "note:///one"})).await;
    let why = read["message"].as_str().expect("a sentence");
    assert!(why.contains("`fs.\"/notes\".grant`") && why.contains("this request cannot ask for"), "{why}");
    let prompts = session.result("prompts/list", json!({})).await;
    let name = prompts["prompts"][0]["name"].as_str().expect("a prompt").to_owned();
    let params = json!({"name": name, "arguments": {"name": "one"}});
    let mut get = session.begin("prompts/get", params).await;
    let question = get.message().await;
    let message = question["params"]["message"].as_str().expect("a message");
    assert!(message.starts_with("The plugin \"notes.wasm\" wants to read the files"), "{message}");
    session.respond(&question, saying("always")).await;
    let got = get.answer().await.0;
    assert!(got["result"]["messages"].is_array(), "{got}");
    assert_eq!(listed().await, 1, "what was said for ever counts here as well");
}

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
