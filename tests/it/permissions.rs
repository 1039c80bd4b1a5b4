//! Permissions that a manifest leaves to the person who calls (`grant = "ask"`). The host asks before the run
//! begins, the decision counts for as long as the person said, and any answer other than a clear yes is a no.

use crate::questions::everything;
use serde_json::{Value, json};
use toolyard_tests::exchange::Exchange;
use toolyard_tests::host::install_as;
use toolyard_tests::{LATEST, Session, Setup, guests};

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
