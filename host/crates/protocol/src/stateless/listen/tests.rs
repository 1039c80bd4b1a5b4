use super::*;
use serde_json::Value;

fn decode(params: &str) -> Result<Filter, RpcError> {
    Filter::decode(Some(&RawJson::trusted(params.to_owned())))
}

fn value(message: &Bytes) -> Value {
    serde_json::from_slice(message).expect("JSON")
}

/// 26SUB-1, 26X-11: every kind, and unknown ones beside them.
#[test]
fn a_filter_names_what_is_wanted_and_what_is_unknown_is_not_granted() {
    let all = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["t","u"]}"#;
    let filter = decode(&format!(r#"{{"notifications":{all}}}"#)).expect("all");
    assert_eq!(filter.render().as_str(), all, "what was wanted, said again");
    assert!(!filter.is_empty());
    let nothing = r#"{} {"toolsListChanged":false,"taskIds":[]}
                     {"eventsChanged":true,"io.example/ids":["x"],"tools":true}"#;
    for nothing in nothing.split_whitespace() {
        let filter = decode(&format!(r#"{{"notifications":{nothing}}}"#)).expect(nothing);
        assert!(filter.is_empty(), "{nothing}");
        assert_eq!(filter.render().as_str(), "{}", "{nothing}");
    }
    let twice =
        decode(r#"{"notifications":{"taskIds":["b","a","b"],"resourceSubscriptions":["x:y","x:y"]}}"#)
            .expect("twice");
    assert_eq!((twice.tasks, twice.uris), (vec!["b".to_owned(), "a".to_owned()], vec!["x:y".to_owned()]));
}

/// 26SUB-1: `notifications` is required, and its members have their types.
#[test]
fn a_malformed_filter_is_refused() {
    assert_eq!(Filter::decode(None).expect_err("no params").code, -32602);
    assert_eq!(decode("{}").expect_err("no notifications").code, -32602);
    let malformed = r#"null [] [true,true,true,[],[]] true {"toolsListChanged":1} {"toolsListChanged":null}
                       {"taskIds":"t"} {"taskIds":[5]} {"taskIds":null} {"resourceSubscriptions":{}}
                       {"taskIds":[],"taskIds":["t"]} {},"notifications":{}"#;
    for notifications in malformed.split_whitespace() {
        let refused = decode(&format!(r#"{{"notifications":{notifications}}}"#));
        assert_eq!(refused.expect_err(notifications).code, -32602, "{notifications}");
    }
}

/// 26SUB-2, 26SUB-3, 26SUB-5, 26T-23: every notification and the response at the end name the subscription, in the
/// JSON type of its id; a number and a string of the same digits are different ids.
#[test]
fn every_notification_names_its_subscription_and_so_does_the_end() {
    let detailed = RawJson::trusted(r#"{"taskId":"t","status":"working"}"#);
    let granted = Filter { tools: true, tasks: vec!["t".into()], ..Filter::default() };
    for (id, shown) in [
        (Id::Number(7), json!(7)),
        (Id::Text("7".into()), json!("7")),
        (Id::Number(i64::MIN), json!(i64::MIN)),
        (Id::Text("\"\\é".into()), json!("\"\\é")),
    ] {
        for (message, method) in [
            (list_changed(&id, &Method::ToolsListChanged), "notifications/tools/list_changed"),
            (list_changed(&id, &Method::PromptsListChanged), "notifications/prompts/list_changed"),
            (list_changed(&id, &Method::ResourcesListChanged), "notifications/resources/list_changed"),
            (resource_updated(&id, "a:\"b"), "notifications/resources/updated"),
            (task(&id, &detailed), "notifications/tasks"),
            (acknowledged(&id, &granted), "notifications/subscriptions/acknowledged"),
        ] {
            let message = value(&message);
            assert_eq!(message["method"], method);
            assert_eq!(message["params"]["_meta"][META_SUBSCRIPTION], shown, "{method}");
            assert_eq!(message.get("id"), None, "{method}");
        }
        assert_eq!(value(&resource_updated(&id, "a:\"b"))["params"]["uri"], "a:\"b");
        let told = value(&task(&id, &detailed));
        assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!("t"), &json!("working")));
        let granted = value(&acknowledged(&id, &granted));
        let wanted = json!({"toolsListChanged": true, "taskIds": ["t"]});
        assert_eq!(granted["params"]["notifications"], wanted);
        let result = json!({"resultType": "complete", "_meta": {META_SUBSCRIPTION: shown}});
        assert_eq!(value(&ended(&id)), json!({"jsonrpc": "2.0", "id": shown, "result": result}));
    }
}
