//! Hot reload: a change in the folder changes the tools, and nothing else.

use serde_json::json;
use toolyard_tests::exchange::next;
use toolyard_tests::host::install_as;
use toolyard_tests::http::Events;
use toolyard_tests::{Session, Setup, guests, text, until};

async fn until_tools(session: &Session, wanted: &[&str]) {
    until(&format!("the tools to be {wanted:?}"), || async { session.tool_names().await == wanted }).await;
}

async fn version(session: &Session) -> String {
    text(&session.call("version", json!({})).await).to_owned()
}

async fn until_version(session: &Session, wanted: &str) {
    until(&format!("version {wanted}"), || async { version(session).await == wanted }).await;
}

async fn opened(session: &Session) -> Events {
    let mut listening = session.listen().await;
    listening.next().await.expect("the stream opens");
    listening
}

async fn changed(listening: &mut Events) {
    let notice = next(listening).await.expect("a message");
    assert_eq!(notice["method"], "notifications/tools/list_changed");
}

const V: [&str; 2] = ["slow_version", "version"];

#[tokio::test]
async fn tl_1_tools_come_change_and_go_with_their_files_and_every_client_hears_it_once() {
    let host = Setup::new().start().await;
    let (first, second) = (Session::open(host.port()).await, Session::open(host.port()).await);
    let (mut hears, mut hears_too) = (opened(&first).await, opened(&second).await);
    assert_eq!(first.tool_names().await, [""; 0]);
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
async fn two_hundred_calls_in_flight_survive_reloads_without_a_loss() {
    let host = Setup::new().set("calls.running-per-principal", "400").start().await;
    install_as(&guests::fixture("versioned_v1"), &host.plugins(), "tool.wasm");
    let session = Session::open(host.port()).await;
    until_tools(&session, &V).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let session = session.at(host.port());
        calls.spawn(async move { session.call("slow_version", json!({"ms": 2500})).await });
    }
    for n in 0..6 {
        let (file, version) = if n % 2 == 0 { ("versioned_v2", "v2") } else { ("versioned_v1", "v1") };
        install_as(&guests::fixture(file), &host.plugins(), "tool.wasm");
        until_version(&session, version).await;
    }
    let answers = calls.join_all().await;
    assert_eq!(answers.len(), 200);
    for answer in answers {
        assert!(["v1", "v2"].contains(&text(&answer)), "{answer}");
    }
}
