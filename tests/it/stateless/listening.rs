//! `subscriptions/listen` (26SUB): the host first acknowledges what it grants, and then sends these
//! notifications until the stream ends.

use super::{patient, steps};
use crate::questions::scripted;
use serde_json::json;
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
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["book:/1"]});
    let request = client.request("subscriptions/listen", json!({"notifications": all})).numbered(json!("7"));
    let request = request.meta(key::LOG_LEVEL, json!("debug")).meta("progressToken", json!("p"));
    let (mut listening, _) = client.listen_by(&request).await;
    let (mut only_tools, _) = client.listen(json!({"toolsListChanged": true})).await;
    for (what, method) in [
        ("prompts", "notifications/prompts/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("book:/1", "notifications/resources/updated"),
        ("tools", "notifications/tools/list_changed"),
    ] {
        change(&client, what).await;
        let told = listening.next_of(method).await;
        assert_eq!(told["_meta"][key::SUBSCRIPTION], "7", "{method}");
        assert!(what != "book:/1" || told["uri"] == what, "{told}");
    }
    // The stream for tools only received none of the others: the tap would have failed the test otherwise.
    only_tools.next_of("notifications/tools/list_changed").await;
}
