//! The self-description of the host (26D), and how long clients may cache lists (26C-5 to 26C-7).

use super::probe;
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, TASKS, VERSION, everything, key};
use toolyard_tests::{Session, guests};

#[tokio::test]
async fn d_26d_1_d_26d_2_d_26d_4_discovery_says_what_is_served_and_nothing_else() {
    let (host, client) = probe().await;
    let found = client.result("server/discover", json!({})).await;
    assert_eq!(found["supportedVersions"], json!([VERSION]));
    let mut capabilities = found["capabilities"].clone();
    assert_eq!(capabilities["tools"], json!({"listChanged": true}));
    assert_eq!(capabilities["extensions"], json!({TASKS: {}}), "26D-8: a name with its prefix");
    assert!(capabilities.get("tasks").is_none(), "26B-4");
    let known = capabilities.as_object_mut().expect("an object");
    known.retain(|name, _| !matches!(name.as_str(), "tools" | "extensions" | "logging"));
    assert!(known.is_empty(), "only what is here: {known:?}");
    for member in ["serverInfo", "protocolVersion", "instructions"] {
        assert!(found.get(member).is_none(), "{member}");
    }
    // All capabilities, and the operator's instructions.
    let offers = [guests::plugin("probe"), guests::fixture("library"), guests::fixture("script")];
    let setup = Setup::new().with(&offers).set("server.name", "yard").set("server.instructions", "Be brief.");
    let full = setup.set("tasks.enabled", "false").start().await;
    let found = Client::new(full.port()).result("server/discover", json!({})).await;
    let capabilities = &found["capabilities"];
    for name in ["tools", "resources", "prompts", "completions", "logging"] {
        assert!(capabilities[name].is_object(), "{name}: {capabilities}");
    }
    // 26D-7: a disabled feature is not announced.
    assert!(capabilities["extensions"].get(TASKS).is_none(), "{capabilities}");
    assert_eq!(found["instructions"], "Be brief.");
    assert_eq!(found["_meta"][key::SERVER]["name"], "yard");
    drop(host);
}

/// The cache hints of a list.
fn hints(result: &Value) -> (u64, &str) {
    let ttl = result["ttlMs"].as_u64().unwrap_or_else(|| panic!("a ttl: {result}"));
    (ttl, result["cacheScope"].as_str().unwrap_or_default())
}

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

#[tokio::test]
async fn c_26c_5_c_26c_7_lists_say_how_long_they_may_be_kept_on_every_page() {
    let offers = [guests::plugin("probe"), guests::fixture("library")];
    let setup = Setup::new().with(&offers).set("wire.cache", "42s").set("lists.page", "2");
    let host = setup.start().await;
    let client = Client::new(host.port());
    assert_eq!(hints(&client.result("server/discover", json!({})).await), (42_000, "public"));
    for method in LISTS {
        let mut params = json!({});
        let mut pages = 0;
        loop {
            let page = client.result(method, params).await;
            assert_eq!(hints(&page), (42_000, "public"), "{method}: {page}");
            pages += 1;
            let Some(cursor) = page.get("nextCursor") else { break };
            params = json!({"cursor": cursor});
        }
        assert!(
            pages > 1 || method == "resources/templates/list" || method == "prompts/list",
            "{method}: {pages}"
        );
    }
    let read = client.result("resources/read", json!({"uri": "book:/1"})).await;
    assert_eq!(hints(&read), (0, "private"), "what is read is each reader's own");
    let prompt =
        client.result("prompts/get", json!({"name": "recommend", "arguments": {"genre": "x"}})).await;
    assert!(prompt.get("ttlMs").is_none() && prompt.get("cacheScope").is_none(), "{prompt}");
}

#[tokio::test]
async fn c_26c_6_tl_26tl_1_the_list_of_tools_is_the_same_whoever_can_do_what() {
    let (host, client) = probe().await;
    let first = client.result("tools/list", json!({})).await;
    // 26J-2: neither calls in between nor other declared capabilities change it.
    client.call("echo", json!({"text": "x"})).await;
    let able = Client::new(host.port()).declaring(everything());
    assert_eq!(able.result("tools/list", json!({})).await, first);
    let session = Session::open(host.port()).await;
    let mut theirs = session.result("tools/list", json!({})).await["tools"].take();
    for tool in theirs.as_array_mut().expect("tools") {
        tool.as_object_mut().expect("an object").remove("execution");
    }
    assert_eq!(first["tools"], theirs, "otherwise as sessions see them, and in that order");
}

#[tokio::test]
async fn tl_26tl_2_tl_26tl_3_schemas_and_structured_results_pass_as_they_are() {
    let host =
        Setup::new().with(&[guests::plugin("csv"), guests::plugin("jq"), guests::fixture("conformance")]);
    let host = host.start().await;
    let (client, session) = (Client::new(host.port()), Session::open(host.port()).await);
    let tools = client.result("tools/list", json!({})).await["tools"].take();
    let of = |name: &str| {
        let tool = tools.as_array().expect("tools").iter().find(|tool| tool["name"] == name);
        tool.unwrap_or_else(|| panic!("{name} is listed")).clone()
    };
    let odd = of("json_schema_2020_12_tool");
    for word in ["$schema", "$defs", "allOf", "if", "then", "else", "additionalProperties"] {
        assert!(odd["inputSchema"].get(word).is_some(), "{word}: {odd}");
    }
    let call = json!({"name": "jq", "arguments": {"program": ".a", "input": {"a": [null, 1]}}});
    let (alone, within) =
        (client.result("tools/call", call.clone()).await, session.result("tools/call", call).await);
    assert!(alone["structuredContent"].is_object(), "{alone}");
    assert_eq!(alone["structuredContent"], within["structuredContent"]);
    assert_eq!(alone["content"], within["content"]);
}
