//! Resources, prompts and completion from plugins (R-*, PR-*, CO-*, N-1): what is refused, and which clients are
//! notified of changes.

use crate::questions::scripted;
use serde_json::{Value, json};
use toolyard_tests::exchange::{next, next_of};
use toolyard_tests::host::install;
use toolyard_tests::{Session, Setup, guests, until};

#[tokio::test]
async fn n_1_r_5_pr_4_co_3_what_is_unknown_or_malformed_is_refused() {
    let components = [guests::fixture("conformance"), guests::fixture("library")];
    let (_host, session) = Setup::new().with(&components).open().await;
    let complete = |reference: Value, name: &str| {
        let params = json!({"ref": reference, "argument": {"name": name, "value": ""}});
        ("completion/complete", params)
    };
    let read = |uri: &str| ("resources/read", json!({"uri": uri}));
    let list = |cursor: &str| ("resources/list", json!({"cursor": cursor}));
    for (method, params) in [
        list(""),
        list("AAAA"),
        read("no scheme"),
        read("book:/%zz"),
        // The plugin's own word.
        read("book:/forbidden"),
        ("resources/read", json!({})),
        ("prompts/get", json!({"name": "recommend"})),
        ("prompts/get", json!({"name": "recommend", "arguments": {"genre": 5}})),
        ("prompts/get", json!({"name": "nobody"})),
        ("prompts/get", json!({})),
        complete(json!({"type": "ref/prompt", "name": "recommend"}), "colour"),
        complete(json!({"type": "ref/prompt", "name": "nobody"}), "genre"),
        complete(json!({"type": "ref/resource", "uri": "book:/{n}"}), "m"),
        complete(json!({"type": "ref/resource", "uri": "book:/{other}"}), "other"),
        complete(json!({"type": "ref/tool", "name": "script"}), "steps"),
    ] {
        assert_eq!(session.error(method, params.clone()).await["code"], -32602, "{method} {params}");
    }
    // No manifest claims these, and the first plugin by name has no such resource or template.
    let read = session.result("resources/read", json!({"uri": "book:/1"})).await;
    assert_eq!(read["contents"][0]["text"], "the first");
    let (method, params) = complete(json!({"type": "ref/resource", "uri": "book:/{n}"}), "n");
    let completion = session.result(method, params).await;
    assert_eq!(completion["completion"]["values"][0], "template book:/{n}");
}

#[tokio::test]
async fn r_6_an_update_goes_to_those_who_subscribed_and_a_burst_is_one_also_after_a_restart() {
    let setup = scripted().manifest("script", "[resources]\nuris = [\"note:/*\"]\n");
    let mut host = setup.set("wire.subscriptions", "2").start().await;
    let (session, other) = (Session::open(host.port()).await, Session::open(host.port()).await);
    let (mut listening, mut others) = (session.listen().await, other.listen().await);
    // No manifest allows this one.
    let wrong = session.error("resources/subscribe", json!({"uri": "file:///etc/passwd"})).await;
    assert_eq!(wrong["code"], -32002, "{wrong}");
    for uri in ["note:/a", "note:/a", "note:/b"] {
        assert_eq!(session.result("resources/subscribe", json!({"uri": uri})).await, json!({}));
    }
    let error = session.error("resources/subscribe", json!({"uri": "note:/c"})).await;
    assert_eq!(error["data"]["limit"], "wire.subscriptions");
    let burst: Vec<Value> = (0..100).map(|_| json!({"changed": "note:/a"})).collect();
    session.call("script", json!({"steps": burst})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"], json!({"uri": "note:/a"}));
    assert_eq!(session.result("resources/unsubscribe", json!({"uri": "note:/a"})).await, json!({}));
    session.call("script", json!({"steps": [{"changed": "note:/a"}, {"changed": "note:/c"}]})).await;
    session.call("script", json!({"steps": [{"changed": "note:/b"}]})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "note:/b", "the burst was one, and what was left is not told");
    // The other session received nothing: its first message is a later one.
    session.call("script", json!({"steps": [{"changed": "tools"}]})).await;
    assert_eq!(next(&mut others).await.expect("open")["method"], "notifications/tools/list_changed");
    for wrong in [json!({}), json!({"uri": "not a uri"})] {
        assert_eq!(session.error("resources/subscribe", wrong).await["code"], -32602);
    }
    host.kill().await;
    let again = host.another().await;
    let session = session.at(again.port());
    let mut listening = session.listen().await;
    session.call("script", json!({"steps": [{"changed": "note:/b"}]})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "note:/b");
}

#[tokio::test]
async fn r_7_pr_5_tl_1_lists_that_changed_are_told_once_a_burst_and_only_as_declared() {
    let host = scripted().start().await;
    let before = Session::open(host.port()).await;
    let mut listening = before.listen().await;
    let burst: Vec<Value> = (0..50).map(|_| json!({"changed": "resources"})).collect();
    before.call("script", json!({"steps": burst})).await;
    next_of(&mut listening, "notifications/resources/list_changed").await;
    // A plugin with prompts appears: the host announced no prompts to this session.
    install(&guests::fixture("conformance"), &host.plugins());
    let first = next(&mut listening).await.expect("open");
    assert_eq!(first["method"], "notifications/tools/list_changed", "the burst was one");
    let prompts = async || before.request("prompts/list", json!({})).await;
    until("the prompts to be there", || async { prompts().await.get("result").is_some() }).await;
    let after = Session::open(host.port()).await;
    let mut promised = after.listen().await;
    std::fs::remove_file(host.plugins().join("conformance.wasm")).expect("it was there");
    next_of(&mut promised, "notifications/prompts/list_changed").await;
    let mut heard = Vec::new();
    after.call("script", json!({"steps": [{"changed": "resources"}]})).await;
    let both = ["tools", "resources"].map(|list| json!(format!("notifications/{list}/list_changed")));
    while !both.iter().all(|method| heard.contains(method)) {
        heard.push(next(&mut listening).await.expect("open")["method"].take());
    }
    assert!(!heard.contains(&json!("notifications/prompts/list_changed")), "L-6: {heard:?}");
    let prompts = after.result("prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"], json!([]), "an empty list, no fault");
}

#[tokio::test]
async fn r_8_a_note_has_a_uri_of_its_own_scheme_and_a_link_to_it_can_be_read() {
    let setup = Setup::new().with(&[guests::plugin("notes")]);
    std::fs::create_dir(setup.plugins().join("mine")).expect("a folder");
    let (host, session) =
        setup.manifest("notes", "[fs]\n\"/notes\" = { path = \"mine\", mode = \"write\" }\n").open().await;
    let mut listening = session.listen().await;
    let result = session.call("append_note", json!({"name": "ideas", "text": "Ship it"})).await;
    let mut blocks = result["content"].as_array().expect("blocks").iter();
    let link = blocks.find(|block| block["type"] == "resource_link");
    let uri = link.expect("a link")["uri"].as_str().expect("a URI").to_owned();
    assert!(uri.starts_with("notes:"), "no client can fetch it by itself: {uri}");
    let read = session.result("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["contents"][0]["text"], "Ship it\n");
    next_of(&mut listening, "notifications/resources/list_changed").await;
    assert_eq!(std::fs::read_to_string(host.plugins().join("mine/ideas.md")).expect("the file"), "Ship it\n");
    let prompt = json!({"name": "summarise_note", "arguments": {"name": "ideas.md"}});
    let made = session.result("prompts/get", prompt).await;
    assert_eq!(made["messages"][0]["content"]["resource"]["uri"], uri);
    for outside in ["notes:///..%2Fmanifest.md", "notes:///%2Fetc%2Fpasswd", "notes:///../notes.toml"] {
        let error = session.error("resources/read", json!({"uri": outside})).await;
        assert!([-32002, -32602].map(|code| json!(code)).contains(&error["code"]), "{outside}: {error}");
    }
}
