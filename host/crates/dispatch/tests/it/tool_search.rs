//! `tool_search` and `tool_call` in place of a long list.

use crate::bridge::stage::{Stage, Work, hand_off, text_of};
use crate::kit::prelude::*;
use toolyard_dispatch::ListFor;

const SOON: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_list_has_two_tools_in_place_of_many_and_the_others_are_found_and_called() {
    let work = Work::default();
    let own = tool("tool_call", |_| async { done("of the plugin") });
    let tools = vec![work.tool("csv_profile"), work.tool("mail_send"), own];
    let stage = Stage::with(SOON, tools, |settings| settings.tool_search = true);
    let caller = local_caller();
    let listed = ListFor::Sessions(Revision::LATEST, None);
    let list = stage.dispatch.catalog().list_tools(&caller, listed, None).await.expect("lists");
    let list: Value = list.decode().expect("JSON");
    let names: Vec<_> = list["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["tool_search", "toolyard_tool_call"]);

    let found = stage.call_with(&caller, "tool_search", json!({"query": "CSV columns"})).await;
    let found = text_of(&found.expect("a reply"));
    let definition = found.lines().nth(1).expect("a definition");
    let definition: Value = serde_json::from_str(definition).expect("JSON");
    assert_eq!((&definition["name"], definition["inputSchema"].is_object()), (&json!("csv_profile"), true));
    assert!(found.starts_with("1 of 1 tools that fit. Call one with toolyard_tool_call."), "{found}");
    assert!(!found.contains("mail"), "{found}");

    // It is the call of that tool: it becomes a task, and its task has its name.
    let call = json!({"name": "csv_profile", "arguments": {"text": "a"}});
    let (text, _) = hand_off(stage.call_with(&caller, "toolyard_tool_call", call).await);
    assert!(text.starts_with("\"csv_profile\" is still running."), "{text}");
    let unknown = stage.call_with(&caller, "toolyard_tool_call", json!({"name": "mail_sned"})).await;
    assert!(matches!(unknown, Err(Fault::UnknownTool(name)) if name == "mail_sned"));
    let wrong = stage.call_with(&caller, "toolyard_tool_call", json!({"tool": "x"})).await;
    assert!(text_of(&wrong.expect("a reply")).contains("unknown field `tool`"));
    let rules = json!([{"effect": "deny", "tools": ["mail_send"]}, {"effect": "allow", "tools": ["*"]}]);
    let rules = AccessRules::new(serde_json::from_value(rules).expect("rules")).expect("valid");
    stage.dispatch.enforce(Policy::new(rules, &Rates::default()));
    let denied = stage.call_with(&caller, "toolyard_tool_call", json!({"name": "mail_send"})).await;
    assert!(matches!(denied, Err(Fault::UnknownTool(_))), "as if it were not there");
    for hidden_or_none in ["mail", "weather"] {
        let found = stage.call_with(&caller, "tool_search", json!({"query": hidden_or_none})).await;
        assert!(text_of(&found.expect("a reply")).starts_with("No tool fits."), "{hidden_or_none}");
    }
    assert_eq!(text_of(&stage.call(&caller, "tool_call").await.expect("ran")), "of the plugin");
}
