//! Hot reload: a change in the folder changes the tools, and nothing else.

use serde_json::{Value, json};
use std::path::Path;
use toolyard_tests::host::{Setup, install, install_as};
use toolyard_tests::http::Events;
use toolyard_tests::{Host, Session, eventually, guests};

async fn tools(session: &Session) -> Vec<String> {
    let result = session.result("tools/list", json!({})).await;
    result["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect()
}

async fn until_tools(session: &Session, wanted: &[&str]) {
    eventually(&format!("the tools to be {wanted:?}"), || async {
        (tools(session).await == wanted).then_some(())
    })
    .await;
}

async fn version(session: &Session) -> String {
    session.call("version", json!({})).await["content"][0]["text"].as_str().expect("text").to_owned()
}

async fn until_version(session: &Session, wanted: &str) {
    eventually(&format!("version {wanted}"), || async { (version(session).await == wanted).then_some(()) })
        .await;
}

async fn opened(session: &Session) -> Events {
    let mut listening = session.listen().await;
    listening.next().await.expect("the stream opens");
    listening
}

async fn changed(listening: &mut Events) {
    let notice = tokio::time::timeout(toolyard_tests::wait::PATIENCE, listening.message()).await;
    assert_eq!(notice.expect("a notice").expect("a message")["method"], "notifications/tools/list_changed");
}

const V: [&str; 2] = ["slow_version", "version"];

#[tokio::test]
async fn tl_1_tools_come_change_and_go_with_their_files_and_every_client_hears_it_once() {
    let host = Setup::new().start().await;
    let (first, second) = (Session::open(host.port()).await, Session::open(host.port()).await);
    let (mut hears, mut hears_too) = (opened(&first).await, opened(&second).await);
    assert_eq!(tools(&first).await, [""; 0]);
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    changed(&mut hears).await;
    changed(&mut hears_too).await;
    assert_eq!(version(&first).await, "v1");
    install_as(&guests::fixture("versioned_v2"), &host.plugins(), "tool.wasm");
    changed(&mut hears).await;
    assert_eq!(version(&first).await, "v2");
    // The same bytes again are not a change; the next notification is about the removal.
    install_as(&guests::fixture("versioned_v2"), &host.plugins(), "tool.wasm");
    std::fs::rename(host.plugins().join("tool.wasm"), host.plugins().join("other.wasm")).expect("a rename");
    until_tools(&first, &V).await;
    assert_eq!(version(&first).await, "v2");
    std::fs::remove_file(host.plugins().join("other.wasm")).expect("a removal");
    until_tools(&first, &[]).await;
    assert_eq!(first.error("tools/call", json!({"name": "version"})).await["code"], -32602);
}

#[tokio::test]
async fn a_run_keeps_the_version_that_it_started_with() {
    let host = Host::with(&[]).await;
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    let task = session.create("slow_version", json!({"ms": 8000})).await;
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "slow_version", "arguments": {"ms": 8000}}});
    let mut call = session.post(&call).await.events();
    install_as(&guests::fixture("versioned_v2"), &host.plugins(), "tool.wasm");
    until_version(&session, "v2").await;
    assert_eq!(session.task(&task).await["status"], "working", "not disturbed");
    let told = loop {
        let message = call.message().await.expect("the answer");
        if message["id"] == "c" {
            break message;
        }
    };
    assert_eq!(told["result"]["content"][0]["text"], "v1");
    let result = session.result("tasks/result", json!({"taskId": task})).await;
    assert_eq!(result["content"][0]["text"], "v1");
}

#[tokio::test]
async fn a_file_that_does_not_load_leaves_the_former_version_serving_and_says_why() {
    let host = Host::with(&[]).await;
    let file = host.plugins().join("tool.wasm");
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    std::fs::write(&file, "this is not wasm").expect("a write");
    eventually("the log to say why", || async { host.log().contains("tool.wasm").then_some(()) }).await;
    assert_eq!(version(&session).await, "v1");
    let listed = host.command(&["tools"]).await;
    assert_eq!(listed.status.code(), Some(1));
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(said.contains("tool.wasm"), "{said}");
    install_as(&guests::fixture("versioned_v2"), &host.plugins(), "tool.wasm");
    until_version(&session, "v2").await;
}

#[tokio::test]
async fn a_file_that_is_copied_slowly_is_loaded_when_it_is_whole() {
    let host = Host::with(&[]).await;
    let session = Session::open(host.port()).await;
    let bytes = std::fs::read(guests::fixture("versioned_v1")).expect("a component");
    let mut file = std::fs::File::create(host.plugins().join("tool.wasm")).expect("a file");
    for part in bytes.chunks(bytes.len() / 12 + 1) {
        std::io::Write::write_all(&mut file, part).expect("a write");
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    drop(file);
    until_tools(&session, &V).await;
    assert_eq!(version(&session).await, "v1");
}

#[tokio::test]
async fn two_files_with_the_same_tool_are_told_apart_by_refusing_the_later() {
    let host = Host::with(&[]).await;
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "a.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    install_as(&guests::fixture("versioned_v2"), &host.plugins(), "b.wasm");
    eventually("the log to name both", || async {
        let log = host.log();
        (log.contains("a.wasm") && log.contains("b.wasm")).then_some(())
    })
    .await;
    assert_eq!(version(&session).await, "v1");
    std::fs::remove_file(host.plugins().join("a.wasm")).expect("a removal");
    until_version(&session, "v2").await;
}

#[tokio::test]
async fn a_manifest_takes_effect_and_an_invalid_one_takes_its_plugin_away() {
    let host = Host::with(&[]).await;
    let manifest = |text: &str| {
        let (partial, file) = (host.plugins().join(".tool.toml.partial"), host.plugins().join("tool.toml"));
        std::fs::write(&partial, text).expect("a write");
        std::fs::rename(partial, file).expect("a rename");
    };
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    manifest("prefix = \"my\"");
    until_tools(&session, &["my_slow_version", "my_version"]).await;
    manifest("[tools.version]\ntask-support = \"required\"\n[tools.slow_version]\nenabled = false");
    until_tools(&session, &["version"]).await;
    assert_eq!(session.error("tools/call", json!({"name": "version"})).await["code"], -32601);
    manifest("[limits]\nmemroy = \"1MiB\"");
    until_tools(&session, &[]).await;
    eventually("the log to name the key", || async {
        let log = host.log();
        (log.contains("memroy") && log.contains("memory") && log.contains("tool.toml")).then_some(())
    })
    .await;
    manifest("enabled = false");
    until_tools(&session, &[]).await;
    std::fs::remove_file(host.plugins().join("tool.toml")).expect("a removal");
    until_tools(&session, &V).await;
}

#[tokio::test]
async fn two_hundred_calls_in_flight_survive_reloads_without_a_loss() {
    let setup = Setup::new().set("calls.running-per-principal", "400");
    let host = setup.start().await;
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200 {
        let session = session.at(host.port());
        let call = json!({
            "jsonrpc": "2.0", "id": 10_000 + n, "method": "tools/call",
            "params": {"name": "slow_version", "arguments": {"ms": 2500}},
        });
        calls.spawn(async move { answer(&session, &call).await });
    }
    for n in 0..6 {
        let (file, version) = if n % 2 == 0 { ("versioned_v2", "v2") } else { ("versioned_v1", "v1") };
        install_as(&guests::fixture(file), &host.plugins(), "tool.wasm");
        until_version(&session, version).await;
    }
    let mut answers = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no panic");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(text == "v1" || text == "v2", "{answer}");
        answers += 1;
    }
    assert_eq!(answers, 200);
}

async fn answer(session: &Session, call: &Value) -> Value {
    let answer = session.post(call).await;
    if !answer.is_events() {
        return answer.json().await;
    }
    let mut events = answer.events();
    loop {
        let message = events.message().await.expect("an answer");
        if message["id"] == call["id"] {
            return message;
        }
    }
}

#[tokio::test]
async fn a_folder_that_does_not_exist_yet_is_waited_for() {
    let setup = Setup::new();
    std::fs::remove_dir(setup.plugins()).expect("a removal");
    let host = setup.start().await;
    eventually("the greeting", || async { host.log().contains("no tools yet").then_some(()) }).await;
    std::fs::create_dir(host.plugins()).expect("a folder");
    install(&guests::fixture("add"), Path::new(&host.plugins()));
    let session = Session::open(host.port()).await;
    until_tools(&session, &["add"]).await;
}
