//! `tools/list` and plain `tools/call` (TL-*).

use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;

#[tokio::test]
async fn tl_2_tl_8_the_listing_shows_every_tool_with_its_schema_and_task_support() {
    let (_host, session) = Setup::new()
        .with(&[guests::plugin("probe"), guests::plugin("jq"), guests::plugin("csv")])
        .open()
        .await;
    let result = session.result("tools/list", json!({})).await;
    assert!(result.get("nextCursor").is_none(), "N-1: absent at the end");
    let tools = result["tools"].as_array().expect("tools");
    let support = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(tool["inputSchema"]["type"], "object", "TL-4");
        assert!(!tool["description"].as_str().expect("a description").is_empty());
        // TL-7: the plugin's own annotations, or none.
        let hints = tool["annotations"].as_object().into_iter().flatten();
        assert!(hints.into_iter().all(|(name, hint)| name == "title" || hint.is_boolean()), "{tool}");
        tool["execution"]["taskSupport"].as_str().expect("task support").to_owned()
    };
    assert_eq!(support("echo"), "forbidden");
    assert_eq!(support("batch"), "required");
    for name in "wait spin fail protocol_error count ask confirm trap grow flood jq csv_profile".split(' ') {
        assert_eq!(support(name), "optional", "{name}");
    }
}

#[tokio::test]
async fn n_1_the_listing_has_pages_and_refuses_cursors_that_are_not_its_own() {
    let (_host, session) = Setup::probe().set("lists.page", "5").open().await;
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let page = session.result("tools/list", params).await;
        let tools = page["tools"].as_array().expect("tools");
        assert!(!tools.is_empty() && tools.len() <= 5);
        names.extend(tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(names, sorted, "each once, in order");
    assert_eq!(names.len(), 12);
    for cursor in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(session.error("tools/list", json!({"cursor": cursor})).await["code"], -32602, "{cursor}");
    }
    assert_eq!(session.error("tools/list", json!({"cursor": 5})).await["code"], -32602);
}

#[tokio::test]
async fn tl_9_unknown_tools_and_malformed_calls_are_protocol_errors() {
    let (_host, session) = Setup::probe().open().await;
    for params in [
        json!({"name": "nope", "arguments": {}}),
        json!({"arguments": {}}),
        json!({"name": 5}),
        json!({"name": "echo", "arguments": []}),
        json!({"name": "echo", "arguments": "text"}),
        json!({"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": 1.5}}),
    ] {
        assert_eq!(session.error("tools/call", params.clone()).await["code"], -32602, "{params}");
    }
}

/// TL-10: the host checks the arguments before the tool receives them.
#[tokio::test]
async fn tl_9_arguments_that_do_not_fit_are_a_result_that_the_model_can_mend() {
    let (_host, session) = Setup::probe().open().await;
    for arguments in [json!({}), json!({"text": 5}), json!({"text": "x", "more": 1}), json!({"text": null})] {
        let result = session.call("echo", arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert!(text.contains("text") || text.contains("more"), "{arguments}: {text}");
    }
}

#[tokio::test]
async fn a_call_gives_what_the_tool_gave() {
    let (_host, session) = Setup::probe().open().await;
    for text in ["", "hello", "\u{1F600} \"quoted\" \\ \n \u{0} \u{2028}", &"x".repeat(100_000)] {
        let result = session.call("echo", json!({"text": text})).await;
        assert_eq!(result["content"], json!([{"type": "text", "text": text}]));
        assert_eq!(result["isError"], false);
    }
    let failed = session.call("fail", json!({"message": "no luck"})).await;
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["content"][0]["text"], "no luck");
    let error = session
        .error(
            "tools/call",
            json!({"name": "protocol_error", "arguments": {"code": -32050, "message": "odd"}}),
        )
        .await;
    assert_eq!((error["code"].as_i64(), error["message"].as_str()), (Some(-32050), Some("odd")));
}

#[tokio::test]
async fn tl_5_tl_6_structured_content_is_an_object_that_fits_its_schema() {
    let (_host, session) = Setup::new().with(&[guests::plugin("jq"), guests::plugin("csv")]).open().await;
    let result = session.call("jq", json!({"program": ".a[]", "input": {"a": [1, 2]}})).await;
    assert_eq!(result["structuredContent"]["outputs"], json!([1, 2]));
    assert!(!result["content"].as_array().expect("content").is_empty(), "TL-6");
    let profile = session.call("csv_profile", json!({"text": "n,c\n1,x\n2,y\n4,x\n"})).await;
    assert_eq!(profile["isError"], false, "{profile}");
    assert!(profile["structuredContent"].is_object());
}
