//! The host does not trust the state that a client carries through a round trip (26M-6). It rejects an
//! expired state, and one that comes with another request or to another host.

use super::rounds::{asked, next};
use super::{patient, script, steps};
use crate::questions::{accepted, form, scripted};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{eventually, guests};

fn call() -> Value {
    steps(json!([{"ask": [form("a")]}]))
}

async fn refused(client: &Client, params: Value, what: &str) {
    let reply = client.ask("tools/call", params).await;
    assert_eq!(reply.refusal(), (200, -32602), "{what}: {}", reply.message);
}

#[tokio::test]
async fn m_26m_6_a_state_is_good_for_its_own_request_only() {
    let setup = patient(scripted()).with(&[guests::plugin("probe")]);
    let host = super::scripted_as(setup, "twin", "").start().await;
    let client = Client::new(host.port()).declaring(everything());
    let first = client.result("tools/call", call()).await;
    let answers = json!({"a": accepted()});
    for (what, other) in [
        ("other arguments", steps(json!([{"ask": [form("a")]}, {"info": null}]))),
        ("fewer arguments", json!({"name": "script"})),
        ("another tool", json!({"name": "twin_script", "arguments": call()["arguments"]})),
        ("another tool that asks", json!({"name": "ask", "arguments": {"question": "?"}})),
    ] {
        refused(&client, next(&other, &first, answers.clone()), what).await;
    }
    let read = next(&json!({"uri": "script:ask"}), &first, answers.clone());
    assert_eq!(client.ask("resources/read", read).await.refusal(), (200, -32602), "another method");
    // Answers of another request do not count for this one.
    let second = client.result("tools/call", steps(json!([{"ask": [form("b")]}]))).await;
    refused(&client, next(&call(), &second, answers), "of another request").await;
}

#[tokio::test]
async fn m_26m_6_a_state_ends() {
    let host = patient(scripted()).set("questions.state", "1s").start().await;
    let client = Client::new(host.port()).declaring(everything());
    let first = client.result("tools/call", call()).await;
    let retry = next(&call(), &first, json!({"a": accepted()}));
    eventually("the state to end", || async {
        let reply = client.ask("tools/call", retry.clone()).await;
        let ended = reply.refusal() == (200, -32602);
        assert!(
            ended || outcome(&reply.message["result"]) == json!([{"a": accepted()}]),
            "{}",
            reply.message
        );
        ended.then_some(())
    })
    .await;
    // Its answers are lost with the state; the request starts over.
    assert_eq!(asked(&client.result("tools/call", call()).await), ["a"]);
}

#[tokio::test]
async fn m_26m_6_s_26s_3_a_state_outlives_the_host_and_no_other_folder_knows_it() {
    let (mut host, client) = script().await;
    let two = steps(json!([{"ask": [form("a")]}, {"ask": [form("b")]}]));
    let first = client.result("tools/call", two.clone()).await;
    host.kill().await;
    let mut host = host.another().await;
    let client = client.at(host.port());
    let second = client.result("tools/call", next(&two, &first, json!({"a": accepted()}))).await;
    assert_eq!(asked(&second), ["b"]);
    host.signal(rustix::process::Signal::TERM);
    host.ended().await;
    let host = host.another().await;
    let client = client.at(host.port());
    let retry = next(&two, &second, json!({"b": accepted()}));
    let last = client.result("tools/call", retry.clone()).await;
    assert_eq!(outcome(&last), json!([{"a": accepted()}, {"b": accepted()}]));
    let (_stranger, client) = script().await;
    refused(&client, retry, "of another host").await;
}
