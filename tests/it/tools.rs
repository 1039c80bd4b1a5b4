//! `tools/list` and plain `tools/call` (TL-*).

use serde_json::json;

use toolyard_tests::host::Setup;

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
