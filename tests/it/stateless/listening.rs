//! `subscriptions/listen` (26SUB): the host first acknowledges what it grants, and then sends these
//! notifications until the stream ends.

use super::{patient, script, steps};
use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::host::install;
use toolyard_tests::stateless::{Client, everything, key};
use toolyard_tests::{Host, Session, guests};

const NOBODY: &str = "786512e2-9e0d-44bd-8f29-789f320fe840";

/// A host that offers resources and tools, and a client that supports tasks.
async fn offering() -> (Host, Client) {
    let host = patient(scripted()).with(&[guests::fixture("library")]).start().await;
    let client = Client::new(host.port()).declaring(everything());
    (host, client)
}

async fn change(client: &Client, what: &str) {
    let result = client.result("tools/call", steps(json!([{"changed": what}]))).await;
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn sub_26sub_3_each_kind_is_told_with_the_id_of_its_request() {
    let (host, client) = offering().await;
    let all = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["book:/1"],
    });
    let of = |id: Value, wanted: &Value| {
        client.request("subscriptions/listen", json!({"notifications": wanted})).numbered(id)
    };
    // A number and a string with the same digits are two request ids (26J-3).
    let (mut number, _) = client.listen_by(&of(json!(7), &all)).await;
    let (mut text, _) = client.listen_by(&of(json!("7"), &all)).await;
    let (mut only_tools, _) = client.listen_by(&of(json!("t"), &json!({"toolsListChanged": true}))).await;
    for (what, method) in [
        ("tools", "notifications/tools/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("book:/1", "notifications/resources/updated"),
    ] {
        change(&client, what).await;
        for (listening, id) in [(&mut number, json!(7)), (&mut text, json!("7"))] {
            let told = listening.next_of(method).await;
            assert_eq!(told["_meta"][key::SUBSCRIPTION], id, "{method}");
            if what == "book:/1" {
                assert_eq!(told["uri"], what);
            }
        }
    }
    change(&client, "book:/2").await;
    change(&client, "tools").await;
    // The stream for tools only received none of that: the tap would have failed the test otherwise.
    assert_eq!(only_tools.next_of("notifications/tools/list_changed").await["_meta"][key::SUBSCRIPTION], "t");
    // A new plugin is such a change.
    let (mut fresh, _) = client.listen(json!({"toolsListChanged": true})).await;
    install(&guests::fixture("versioned_v1"), &host.plugins());
    fresh.next_of("notifications/tools/list_changed").await;
    let tools = client.result("tools/list", json!({})).await["tools"].to_string();
    assert!(tools.contains("\"version\""), "the list exists when the notification comes");
}

#[tokio::test]
async fn sub_26sub_7_t_26t_23_t_26t_24_tasks_are_told_as_tasks_get_shows_them() {
    let (_host, client) = script().await;
    let asks = json!({"steps": [{"begin": null}, {"ask": [crate::questions::form("a")]}]});
    let id = client.create("script", asks).await;
    client.until(&id, "input_required").await;
    let (mut listening, granted) = client.listen(json!({"taskIds": [id, NOBODY]})).await;
    assert_eq!(granted["taskIds"], json!([id]), "those that there are");
    // In the form of `tasks/get` (26X-2).
    let (mut told, mut task) = (listening.next_of("notifications/tasks").await, client.task(&id).await);
    for value in [&mut told, &mut task] {
        let members = value.as_object_mut().expect("an object");
        members.remove("_meta");
        members.remove("resultType");
    }
    assert_eq!(told, task);
}

#[tokio::test]
async fn sub_26sub_6_listening_hears_nothing_of_calls() {
    let (host, client) = script().await;
    let request =
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (mut listening, _) = client
        .listen_by(&request.meta(key::LOG_LEVEL, json!("debug")).meta("progressToken", json!("p")))
        .await;
    let talk =
        json!([{"log": {"level": "error", "data": 1}}, {"progress": {"progress": 1}}, {"changed": "tools"}]);
    client.result("tools/call", steps(talk.clone())).await;
    Session::open(host.port()).await.call("script", json!({"steps": talk})).await;
    // The tap fails the test on a notification that does not belong here.
    listening.next_of("notifications/tools/list_changed").await;
}
