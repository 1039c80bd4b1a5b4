//! `subscriptions/listen` (26SUB): the host first acknowledges what it grants, and then sends these
//! notifications until the stream ends.

use super::{patient, steps};
use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::guests;
use toolyard_tests::stateless::{Client, everything, key};

/// Announces a change, besides progress and a log message, of which listeners receive nothing (26SUB-6).
async fn change(client: &Client, what: &str) {
    let talk =
        json!([{"log": {"level": "error", "data": 1}}, {"progress": {"progress": 1}}, {"changed": what}]);
    let result = client.result("tools/call", steps(talk)).await;
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn sub_26sub_3_sub_26sub_6_each_kind_is_told_with_the_id_of_its_request() {
    let host = patient(scripted()).with(&[guests::fixture("library")]).start().await;
    let client = Client::new(host.port()).declaring(everything());
    let all = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["book:/1"],
    });
    let of = |id: Value, wanted: &Value| {
        let request = client.request("subscriptions/listen", json!({"notifications": wanted})).numbered(id);
        request.meta(key::LOG_LEVEL, json!("debug")).meta("progressToken", json!("p"))
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
}
